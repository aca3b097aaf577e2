"""What a tracker is, the trackers by name, and what their implementations share."""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import re
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any, Literal, Protocol

from expunge._errors import InvalidInput
from expunge._registry import Registry

Value = str | int | float | bool | None
RunStatus = Literal["finished", "failed"]

KEY = "expunge.key"
"""The tag that identifies a run."""
MAX_NAME = 250
"""Characters in a name: MLflow's limit."""


class Tracker(Protocol):
    """Logs one run at a time: ``start``, any number of ``log``, ``finish``.

    The tag ``expunge.key`` identifies the run; without it, the name does. Logging a run again is
    harmless: a tracker shows each run once, and each value of a step once. Values that are not
    finite numbers are left out.
    """

    def start(self, name: str, params: Mapping[str, Value], tags: Mapping[str, str]) -> None:
        """Open the run: a new one, or one that the tracker knows."""

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Write the values of one step that are not there yet."""

    def finish(self, status: RunStatus) -> None:
        """Write what is pending, and close the run."""


TRACKERS: Registry[Callable[..., Tracker]] = Registry("tracker")
TRACKERS.declare("mlflow", "expunge.track._mlflow:MlflowTracker")
TRACKERS.declare("tensorboard", "expunge.track._tensorboard:TensorBoardTracker")


def open_tracker(spec: str, **options: Any) -> Tracker:
    """Open the tracker that ``spec`` names: ``name`` or ``name:where``.

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


def import_optional(module: str, *, extra: str) -> Any:
    """Import a module, or raise an error that says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InvalidInput(
            f"The tracker `{extra}` needs packages that are not here. (cannot import {module}; "
            f"pip install 'expunge[{extra}]')"
        ) from error


def key_of(content: Any) -> str:
    """A short hash of plain values: equal for equal values."""
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def valid_name(name: str) -> str:
    """Replace the characters that trackers refuse.

    >>> valid_name("UA, %"), valid_name("/../test//RA"), valid_name("..")
    ('UA___', 'test/RA', '_')
    """
    parts = re.sub(r"[^\w.\-/]", "_", name).split("/")
    return "/".join(part for part in parts if part not in ("", ".", ".."))[:MAX_NAME] or "_"


class ValidNames:
    """Maps names to valid ones; different names stay different.

    >>> names = ValidNames()
    >>> names["UA %"], names["UA $"], names["UA %"]
    ('UA__', 'UA___2', 'UA__')
    """

    def __init__(self) -> None:
        self._valid: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        if name not in self._valid:
            self._valid[name] = self._unused(valid_name(name))
        return self._valid[name]

    def _unused(self, name: str) -> str:
        used = set(self._valid.values())
        candidate, count = name, 1
        while candidate in used:
            count += 1
            suffix = f"_{count}"
            candidate = name[: MAX_NAME - len(suffix)] + suffix
        return candidate


class WrittenValues:
    """The values of one run that have been written; ``left_out`` counts those that cannot be."""

    def __init__(self) -> None:
        self.left_out = 0
        self._names = ValidNames()
        self._written: set[tuple[str, int]] = set()

    def mark(self, name: str, step: int) -> None:
        """Record that a value has been written."""
        self._written.add((name, step))

    def new_values(self, values: Mapping[str, Any], step: int) -> dict[str, float]:
        """The part of ``values`` that is finite and new at ``step``, under valid names."""
        accepted: dict[str, float] = {}
        for key, value in values.items():
            name = self._names[key]
            if (name, step) in self._written:
                continue
            self.mark(name, step)
            if isinstance(value, Real) and math.isfinite(value):
                accepted[name] = float(value)
            else:
                self.left_out += 1
        return accepted
