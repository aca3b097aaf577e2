"""Log runs to MLflow or TensorBoard: one in progress, by a callback, or finished ones."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import sys
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from expunge._errors import InvalidInput, StorageError
from expunge._lazy import import_extra
from expunge._registry import Registry
from expunge.engine import Callback

if TYPE_CHECKING:
    from expunge.engine import Run

Row = Mapping[str, Any]
RunStatus = Literal["finished", "failed"]

KEY, LAST = "expunge.key", "expunge.epoch"
"""The tags of MLflow that identify a run, and name the last epoch logged of it."""
SUFFIX = ".expunge"
"""Of our event files, which a later run of the same name replaces."""


class Tracker(Protocol):
    """Logs one run at a time: ``start``, any number of ``log``, ``finish``."""

    def start(self, name: str, key: str, params: Mapping[str, Any]) -> int:
        """Open the run that ``key`` identifies; return the last epoch that it has, 0 if new."""

    def log(self, values: Mapping[str, float], epoch: int) -> None:
        """Write the values of one epoch, all finite."""

    def finish(self, status: RunStatus) -> None:
        """Write what is pending, and close the run."""


TRACKERS: Registry[Callable[..., Tracker]] = Registry("tracker")
TRACKERS.declare("mlflow", "expunge.track._callback:MlflowTracker")
TRACKERS.declare("tensorboard", "expunge.track._callback:TensorBoardTracker")


def open_tracker(spec: str, **options: Any) -> Tracker:
    """Open the tracker that ``spec`` names: ``name`` or ``name:where``, as ``tensorboard:runs``.

    ``options`` go to the tracker: ``open_tracker("mlflow", experiment="digits")``.

    >>> open_tracker("tensorbord:logs")
    Traceback (most recent call last):
    expunge._errors.InvalidInput: Unknown tracker 'tensorbord'. Did you mean 'tensorboard'?
    """
    name, _, where = spec.partition(":")
    return TRACKERS[name](*([where] if where else []), **options)


class Track(Callback):
    """Logs the row of every epoch, with what the callbacks before this one recorded.

    ``tracker`` is a tracker or what :func:`open_tracker` takes. ``name`` defaults to the names of
    the method and the add-on. The procedure is logged beside ``params``. A run that resumes from a
    checkpoint resumes in the tracker too; ``key`` overrides which run it is. If the tracker fails
    after the start, a warning says so, and the run continues.
    """

    def __init__(
        self,
        tracker: Tracker | str,
        *,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> None:
        self.tracker = open_tracker(tracker) if isinstance(tracker, str) else tracker
        self.name, self.params, self.key = name, dict(params or {}), key
        self._works = False

    def on_start(self, run: Run) -> None:
        name = self.name or run.procedure.label
        own = _hash([name, run.fingerprint]) if run.fingerprint else uuid.uuid4().hex
        known = self.tracker.start(name, self.key or own, vars(run.procedure) | self.params)
        self._works = True
        self._attempt(lambda: _log_rows(self.tracker, run.history.epochs[known:]))

    def on_epoch(self, run: Run) -> None:
        self._attempt(lambda: _log_rows(self.tracker, run.history.epochs[-1:]))

    def on_end(self, run: Run) -> None:
        well = sys.exc_info()[1] is None  # also called while an error propagates
        self._attempt(lambda: self.tracker.finish("finished" if well else "failed"))

    def _attempt(self, action: Callable[[], None]) -> None:
        try:
            if self._works:
                action()
        except Exception as error:
            self._works = False
            text = f"The tracker failed; the run continues. ({type(error).__name__}: {error})"
            warnings.warn(text, stacklevel=2)


def track_runs(runs: Iterable[Mapping[str, Any]], tracker: Tracker) -> None:
    """Log finished runs, each once, however often this is called.

    A run is ``{"name": ..., "key": ..., "params": {...}, "epochs": [{"epoch": 1, "ua": 97.2}],
    "status": "finished"}``. Of a run whose key the tracker knows, it gets the epochs it lacks.
    """
    for run in runs:
        known = tracker.start(run["name"], run["key"], run["params"])
        _log_rows(tracker, [row for row in run["epochs"] if row["epoch"] > known])
        tracker.finish(run["status"])


def _log_rows(tracker: Tracker, rows: Iterable[Row]) -> None:
    for row in rows:
        values = {valid_name(name): float(value) for name, value in row.items() if name != "epoch"}
        finite = {name: value for name, value in values.items() if math.isfinite(value)}
        tracker.log(finite, int(row["epoch"]))


class MlflowTracker:
    """A local database (``sqlite:///path.db``) or a server (``http://...``), without global state.

    Without ``store``, the environment's ``MLFLOW_TRACKING_URI`` or ``mlflow.db`` in the current
    folder. A run with the same key in the same experiment is resumed. MLflow's usage reports are
    turned off unless the environment turns them on.
    """

    def __init__(self, store: str | None = None, *, experiment: str = "expunge") -> None:
        self.store = store or os.environ.get("MLFLOW_TRACKING_URI") or "sqlite:///mlflow.db"
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        with warnings.catch_warnings():  # MLflow deprecates parts of its own while it loads them
            warnings.simplefilter("ignore", DeprecationWarning)
            self._mlflow = import_extra("mlflow", "mlflow", "Runs in MLflow")
            for needed in ("sqlalchemy", "alembic") if self.store.startswith("sqlite:") else ():
                import_extra(needed, "mlflow", "Local databases of MLflow")
            try:
                self._client: Any = self._mlflow.MlflowClient(tracking_uri=self.store)
                known = self._client.get_experiment_by_name(experiment)
                made = known.experiment_id if known else self._client.create_experiment(experiment)
            except Exception as error:  # of MLflow, of the database's driver, of the disk
                raise InvalidInput(
                    f"MLflow cannot use the store {self.store!r}; a local one is "
                    f"`mlflow:sqlite:///path/to/mlflow.db`. ({error})"
                ) from error
        self._experiment = str(made)

    def start(self, name: str, key: str, params: Mapping[str, Any]) -> int:
        """Open the run of this key: a new one, or one that MLflow has."""
        key = valid_name(key)
        found = self._client.search_runs([self._experiment], f"tags.`{KEY}` = '{key}'")
        run = found[0] if found else self._client.create_run(self._experiment, run_name=name)
        self._run = run.info.run_id
        self._client.update_run(self._run, status="RUNNING")
        self._client.set_tag(self._run, KEY, key)
        for param, value in params.items():
            if valid_name(param) not in run.data.params:  # MLflow lets none change
                self._client.log_param(self._run, valid_name(param), value)
        return int(run.data.tags.get(LAST, 0))

    def log(self, values: Mapping[str, float], epoch: int) -> None:
        """Write the values of one epoch."""
        now, make = int(time.time() * 1000), self._mlflow.entities.Metric
        metrics = [make(name, value, now, epoch) for name, value in values.items()]
        self._client.log_batch(self._run, metrics=metrics)
        self._client.set_tag(self._run, LAST, str(epoch))

    def finish(self, status: RunStatus) -> None:
        """Close the run."""
        self._client.set_terminated(self._run, status.upper())


class TensorBoardTracker:
    """Scalars in event files in ``folder``/name, with parameters and status as text.

    A folder shows the last run logged under its name; our earlier files are replaced.
    """

    def __init__(self, folder: str | Path = "runs") -> None:
        import_extra("tensorboard", "tensorboard", "Runs in TensorBoard")
        self.folder = Path(folder)

    def start(self, name: str, key: str, params: Mapping[str, Any]) -> int:
        """Open the folder of this name, without what an earlier run left in it."""
        from torch.utils.tensorboard import SummaryWriter

        folder = self.folder / valid_name(name)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for file in folder.glob(f"events.out.tfevents.*{SUFFIX}"):
                file.unlink()
            self._writer: Any = SummaryWriter(str(folder), filename_suffix=SUFFIX)
        except OSError as error:
            raise StorageError(f"Cannot write in {folder}: {error.strerror}.") from error
        rows = [f"| {param} | {value} |" for param, value in params.items()]
        self._writer.add_text("params", "\n".join(["| name | value |", "| --- | --- |", *rows]))
        return 0

    def log(self, values: Mapping[str, float], epoch: int) -> None:
        """Write the values of one epoch."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, epoch)
        self._writer.flush()

    def finish(self, status: RunStatus) -> None:
        """Write the status, and close the files."""
        self._writer.add_text("status", status)
        self._writer.close()


def valid_name(name: str) -> str:
    """Replace the characters that trackers refuse; no name leads out of its folder.

    >>> valid_name("UA, %"), valid_name("/../test//RA"), valid_name("..")
    ('UA_ _', 'test/RA', '_')
    """
    parts = re.sub(r"[^\w.\-/ ]", "_", name).split("/")
    return "/".join(part for part in parts if part not in ("", ".", ".."))[:250] or "_"


def _hash(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
