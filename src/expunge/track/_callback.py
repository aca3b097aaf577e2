"""Log runs to MLflow, TensorBoard or W&B: one in progress, by a callback, or finished ones."""

from __future__ import annotations

import math
import os
import re
import shutil
import sys
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

from expunge import engine
from expunge._errors import InvalidInput, StorageError
from expunge._lazy import import_extra
from expunge._registry import Registry

Params = Mapping[str, Any]
Values = Mapping[str, float]
RunStatus = Literal["finished", "failed"]
KEY, LAST = "expunge.key", "expunge.epoch"  # tags: which run this is, and the last epoch logged


class Tracker(Protocol):
    """Logs one run at a time: ``start``, any number of ``log``, ``finish``."""

    def start(self, name: str, key: str, params: Params) -> int:
        """Open the run that ``key`` identifies; return the last epoch that it has, 0 if new."""

    def log(self, values: Values, epoch: int) -> None:
        """Write the values of one epoch, all finite."""

    def finish(self, status: RunStatus) -> None:
        """Write what is pending, and close the run."""


TRACKERS: Registry[Callable[..., Tracker]] = Registry("tracker")
for _tracker in ("Mlflow", "TensorBoard", "Wandb"):
    TRACKERS.declare(_tracker.lower(), f"{__name__}:{_tracker}Tracker")


def open_tracker(spec: str, **options: Any) -> Tracker:
    """Open the tracker that ``spec`` names: ``name`` or ``name:where``, as ``tensorboard:runs``.

    ``options`` go to the tracker: ``open_tracker("mlflow", experiment="digits")``.
    """
    name, _, where = spec.partition(":")
    return TRACKERS[name](*([where] if where else []), **options)


class Track(engine.Callback):
    """Logs the row of every epoch, with what all callbacks recorded in it.

    ``tracker`` is a tracker or what :func:`open_tracker` takes. ``name`` defaults to the names of
    the method and the add-on. The procedure is logged beside ``params``. A run that resumes from a
    checkpoint resumes in the tracker too; ``key`` overrides which run it is. If the tracker fails
    after the start, a warning says so, the run continues, and its end is still reported.
    """

    def __init__(
        self, tracker: Tracker | str, *, name: str = "", params: Params | None = None, key: str = ""
    ) -> None:
        self.tracker = open_tracker(tracker) if isinstance(tracker, str) else tracker
        self.name, self.params, self.key = name, dict(params or {}), key

    def on_start(self, run: engine.Run) -> None:
        self._open, self._works = False, True
        self._handled = sys.exc_info()[1]  # by the caller: not an error of this run
        name = self.name or run.procedure.label
        key = self.key or (_id(name, run.identity) if run.identity else uuid.uuid4().hex)
        self._logged = self.tracker.start(name, key, vars(run.procedure) | self.params)
        self._open = True

    def on_step(self, run: engine.Run) -> None:
        """Log the epochs before this step: all callbacks have recorded what they measured."""
        rows = run.history.epochs[self._logged :]
        self._logged += len(rows)
        if rows and self._works:
            self._only_warn(lambda: _log_rows(self.tracker, rows))

    def on_end(self, run: engine.Run) -> None:
        if self._open:
            self.on_step(run)
            well = sys.exc_info()[1] is self._handled  # also called while an error propagates
            self._only_warn(lambda: self.tracker.finish("finished" if well else "failed"))

    def _only_warn(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:
            text = f"The tracker failed; the run continues. ({type(error).__name__}: {error})"
            if self._works:
                warnings.warn(text, stacklevel=2)
            self._works = False


def track_runs(runs: Iterable[Mapping[str, Any]], tracker: Tracker) -> None:
    """Log finished runs, each once, however often this is called.

    A run is ``{"name": ..., "key": ..., "params": {...}, "epochs": [{"epoch": 1, "ua": 97.2}],
    "status": "finished"}``. Of a run whose key the tracker knows, it gets the epochs it lacks.
    """
    for run in runs:
        known = tracker.start(run["name"], run["key"], run["params"])
        _log_rows(tracker, [row for row in run["epochs"] if row["epoch"] > known])
        tracker.finish(run["status"])


def _log_rows(tracker: Tracker, rows: Iterable[Mapping[str, Any]]) -> None:
    for row in rows:
        values = {valid_name(name): float(value) for name, value in row.items() if name != "epoch"}
        finite = {name: value for name, value in values.items() if math.isfinite(value)}
        tracker.log(finite, int(row["epoch"]))


class MlflowTracker(Tracker):
    """A local database (``sqlite:///path.db``) or a server (``http://...``), without global state.

    Without ``store``, the environment's ``MLFLOW_TRACKING_URI`` or ``mlflow.db`` in the current
    folder. A run with the same key is resumed. Usage reports are off, unless turned on there.
    """

    def __init__(self, store: str | None = None, *, experiment: str = "expunge") -> None:
        self.store = store or os.environ.get("MLFLOW_TRACKING_URI") or "sqlite:///mlflow.db"
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        with warnings.catch_warnings():  # MLflow deprecates parts of its own while it loads them
            warnings.simplefilter("ignore", DeprecationWarning)
            for needed in ("sqlalchemy", "alembic", "mlflow"):  # the first two for local databases
                self._mlflow = import_extra(needed, "mlflow", "Runs in MLflow")
            try:
                self._client: Any = self._mlflow.MlflowClient(tracking_uri=self.store)
                known = self._client.get_experiment_by_name(experiment)
                made = known.experiment_id if known else self._client.create_experiment(experiment)
            except Exception as error:  # of MLflow, of the database's driver, of the disk
                text = f"MLflow cannot use the store {self.store!r}; a local one is"
                text += f" `mlflow:sqlite:///path/to/mlflow.db`. ({error})"
                raise InvalidInput(text) from error
        self._experiment = str(made)

    def start(self, name: str, key: str, params: Params) -> int:
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

    def log(self, values: Values, epoch: int) -> None:
        now, make = int(time.time() * 1000), self._mlflow.entities.Metric
        metrics = [make(name, value, now, epoch) for name, value in values.items()]
        self._client.log_batch(self._run, metrics=metrics)
        self._client.set_tag(self._run, LAST, str(epoch))

    def finish(self, status: RunStatus) -> None:
        self._client.set_terminated(self._run, status.upper())


class TensorBoardTracker(Tracker):
    """Event files of the last run of each name in ``folder``/name; parameters, status as text."""

    def __init__(self, folder: str | Path = "runs") -> None:
        import_extra("tensorboard", "tensorboard", "Runs in TensorBoard")
        self.folder = Path(folder)

    def start(self, name: str, key: str, params: Params) -> int:
        from torch.utils.tensorboard import SummaryWriter

        folder = _folder_without(self.folder / valid_name(name), "events.out.tfevents.*.expunge")
        self._writer: Any = SummaryWriter(str(folder), filename_suffix=".expunge")
        rows = [f"| {param} | {value} |" for param, value in params.items()]
        self._writer.add_text("params", "\n".join(["| name | value |", "| --- | --- |", *rows]))
        return 0

    def log(self, values: Values, epoch: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, epoch)
        self._writer.flush()

    def finish(self, status: RunStatus) -> None:
        self._writer.add_text("status", status)
        self._writer.close()


class WandbTracker(Tracker):
    """Runs of W&B in ``folder``/wandb, the last of each key, offline: ``wandb sync`` uploads them.

    ``WANDB_MODE=online`` uploads them at once. Code, machine and its load are not recorded.
    """

    def __init__(self, folder: str | Path = ".", *, project: str = "expunge") -> None:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        self._wandb = import_extra("wandb", "wandb", "Runs in W&B")
        self.folder, self.project = Path(folder).resolve(), project  # W&B may run elsewhere

    def start(self, name: str, key: str, params: Params) -> int:
        mode, own = os.environ.get("WANDB_MODE", "offline"), _id(key)
        _folder_without(self.folder / "wandb", f"offline-run-*-{own}")
        off = ("disable_git", "disable_code", "x_disable_machine_info", "x_disable_stats")
        settings: dict[str, Any] = {"x_save_requirements": False, "silent": True, "console": "off"}
        settings |= dict.fromkeys(off, True)
        config = {param: str(value) for param, value in params.items()} | {KEY: key}
        options = {"mode": mode, "resume": "allow" if mode == "online" else None}
        options |= {"project": self.project, "dir": str(self.folder), "reinit": "create_new"}
        self._run = self._wandb.init(id=own, name=name, config=config, settings=settings, **options)
        return max(0, int(self._run.starting_step) - 1)

    def log(self, values: Values, epoch: int) -> None:
        self._run.log(dict(values), step=epoch, commit=True)

    def finish(self, status: RunStatus) -> None:
        self._run.finish(exit_code=int(status != "finished"))


def _folder_without(folder: Path, pattern: str) -> Path:
    """A folder to write in, without what an earlier run left there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    except OSError as error:
        raise StorageError(f"Cannot write in {folder}: {error.strerror}.") from error
    return folder


def _id(*content: Any) -> str:
    return uuid.uuid5(uuid.NAMESPACE_OID, repr(content)).hex


def valid_name(name: str) -> str:
    """Replace the characters that trackers refuse; no name leads out of its folder."""
    parts = re.sub(r"[^\w.\-/ ]", "_", name).split("/")
    return "/".join(part for part in parts if part not in ("", ".", ".."))[:250] or "_"
