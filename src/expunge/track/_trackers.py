"""What a tracker is, and the two there are: MLflow and TensorBoard."""

from __future__ import annotations

import importlib
import math
import os
import re
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

from expunge._errors import InvalidInput, StorageError
from expunge._registry import Registry

Value = str | int | float | bool | None
RunStatus = Literal["finished", "failed"]

KEY = "expunge.key"
"""The tag that identifies a run."""
SUFFIX = ".expunge"
"""Of our event files, which a later run of the same name replaces."""


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
TRACKERS.declare("mlflow", "expunge.track._trackers:MlflowTracker")
TRACKERS.declare("tensorboard", "expunge.track._trackers:TensorBoardTracker")


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


class MlflowTracker:
    """A local database (``sqlite:///path.db``) or a server (``http://...``), without global state.

    Without ``store``, the environment's ``MLFLOW_TRACKING_URI`` or ``mlflow.db`` in the current
    folder. A run with the same ``expunge.key`` in the same experiment is resumed, not repeated: it
    gets the steps, parameters and tags that it lacks. MLflow's usage reports are turned off unless
    the environment turns them on.
    """

    def __init__(self, store: str | None = None, *, experiment: str = "expunge") -> None:
        self.store = store or os.environ.get("MLFLOW_TRACKING_URI") or "sqlite:///mlflow.db"
        self.run_id: str | None = None
        self._written: set[tuple[str, int]] = set()
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        # MLflow raises deprecation warnings about its own parts while it loads them.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            mlflow = _import_optional("mlflow", extra="mlflow")
            self._entities = _import_optional("mlflow.entities", extra="mlflow")
            if self.store.startswith("sqlite:"):
                _import_optional("sqlalchemy", extra="mlflow")
                _import_optional("alembic", extra="mlflow")
            try:
                self._client: Any = mlflow.MlflowClient(tracking_uri=self.store)
                known = self._client.get_experiment_by_name(experiment)
                made = known.experiment_id if known else self._client.create_experiment(experiment)
            except Exception as error:  # of MLflow, of the database's driver, of the disk
                raise InvalidInput(
                    f"MLflow cannot use the store {self.store!r}; a local one is "
                    f"`mlflow:sqlite:///path/to/mlflow.db`. ({error})"
                ) from error
        self._experiment = str(made)

    def start(self, name: str, params: Mapping[str, Value], tags: Mapping[str, str]) -> None:
        """Open the run of this key: a new one, or one that MLflow has."""
        key = tags.get(KEY, name)
        if "'" in key or "\\" in key:
            raise InvalidInput(f"`{KEY}` should have no quotes and no backslashes. (got {key!r})")
        found = self._client.search_runs(
            [self._experiment], f"tags.`{KEY}` = '{key}'", max_results=1
        )
        run = found[0] if found else self._client.create_run(self._experiment, run_name=name)
        run_id = self.run_id = run.info.run_id
        self._client.update_run(run_id, status="RUNNING")
        self._written = {
            (metric, point.step)
            for metric in run.data.metrics
            for point in self._client.get_metric_history(run_id, metric)
        }
        for tag, text in {**tags, KEY: key}.items():
            self._client.set_tag(run_id, valid_name(tag), str(text))
        for param, value in params.items():
            if valid_name(param) not in run.data.params:  # MLflow lets none change
                self._client.log_param(run_id, valid_name(param), value)

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Write the values of one step that are not there yet."""
        if self.run_id is None:
            raise InvalidInput("Start a run before you log to it.")
        now = int(time.time() * 1000)
        new = _new_values(values, step, self._written)
        metrics = [self._entities.Metric(name, value, now, step) for name, value in new.items()]
        self._client.log_batch(self.run_id, metrics=metrics)

    def finish(self, status: RunStatus) -> None:
        """Close the run."""
        if self.run_id is not None:
            self._client.set_terminated(self.run_id, status.upper())
            self.run_id = None


class TensorBoardTracker:
    """Scalars in event files in ``folder``/name, with parameters, tags and status as text.

    A folder shows the last run logged under its name; our earlier files are replaced.
    """

    def __init__(self, folder: str | Path = "runs") -> None:
        _import_optional("tensorboard", extra="tensorboard")
        self._torch = _import_optional("torch.utils.tensorboard", extra="tensorboard")
        self.folder = Path(folder)
        self._written: set[tuple[str, int]] = set()
        self._writer: Any = None

    def start(self, name: str, params: Mapping[str, Value], tags: Mapping[str, str]) -> None:
        """Open the folder of this name, without what an earlier run left in it."""
        folder = self.folder / valid_name(name)
        self._written = set()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for file in folder.glob(f"events.out.tfevents.*{SUFFIX}"):
                file.unlink()
            self._writer = self._torch.SummaryWriter(str(folder), filename_suffix=SUFFIX)
        except OSError as error:
            raise StorageError(f"Cannot write in {folder}: {error.strerror}.") from error
        for title, table in (("params", params), ("tags", tags)):
            rows = [f"| {key} | {value} |" for key, value in table.items()]
            if rows:
                text = "\n".join(["| name | value |", "| --- | --- |", *rows])
                self._writer.add_text(title, text)
        self._writer.flush()

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Write the values of one step."""
        if self._writer is None:
            raise InvalidInput("Start a run before you log to it.")
        for name, value in _new_values(values, step, self._written).items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def finish(self, status: RunStatus) -> None:
        """Write the status, and close the files."""
        if self._writer is not None:
            self._writer.add_text("status", status)
            self._writer.close()
            self._writer = None


def valid_name(name: str) -> str:
    """Replace the characters that trackers refuse; no name leads out of its folder.

    >>> valid_name("UA, %"), valid_name("/../test//RA"), valid_name("..")
    ('UA_ _', 'test/RA', '_')
    """
    parts = re.sub(r"[^\w.\-/ ]", "_", name).split("/")
    return "/".join(part for part in parts if part not in ("", ".", ".."))[:250] or "_"


def _new_values(
    values: Mapping[str, float], step: int, written: set[tuple[str, int]]
) -> dict[str, float]:
    """The values that are finite and not ``written`` yet, which they are afterwards."""
    new = {valid_name(name): float(value) for name, value in values.items() if math.isfinite(value)}
    new = {name: value for name, value in new.items() if (name, step) not in written}
    written |= {(name, step) for name in new}
    return new


def _import_optional(module: str, *, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InvalidInput(
            f"The tracker `{extra}` needs packages that are not here. (cannot import {module}; "
            f"pip install 'expunge[{extra}]')"
        ) from error
