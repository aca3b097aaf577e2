"""The trackers by name, and one call that opens any of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from expunge._registry import Registry

if TYPE_CHECKING:
    from expunge.track._interface import Tracker

TRACKERS: Registry[Callable[..., Tracker]] = Registry("tracker")
TRACKERS.declare("mlflow", "expunge.track._mlflow:MlflowTracker")
TRACKERS.declare("tensorboard", "expunge.track._tensorboard:TensorBoardTracker")


def open_tracker(spec: str, **options: Any) -> Tracker:
    """The tracker that ``spec`` names: ``name`` or ``name:where``.

    ``mlflow`` (a local database), ``mlflow:sqlite:///path/mlruns.db``, ``mlflow:http://host:5000``,
    ``tensorboard`` (the folder ``runs``), ``tensorboard:FOLDER``. ``options`` go to the tracker:
    ``open_tracker("mlflow", experiment="digits")``.

    >>> open_tracker("tensorbord:logs")
    Traceback (most recent call last):
    expunge._errors.InvalidInput: Unknown tracker 'tensorbord'. Did you mean 'tensorboard'?
    """
    name, _, where = spec.partition(":")
    kind = TRACKERS[name]
    return kind(where, **options) if where else kind(**options)
