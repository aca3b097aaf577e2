"""A callback that logs a run in progress."""

from __future__ import annotations

import sys
import uuid
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from expunge.engine._callbacks import Callback
from expunge.methods import METHODS
from expunge.track._tracker import KEY, RunStatus, Tracker, Value, key_of, open_tracker
from expunge.update import ADDONS

if TYPE_CHECKING:
    from expunge.engine._run import Run


class Track(Callback):
    """Logs one row per epoch, with the epoch as the step, and how the run ended.

    ``tracker`` is a tracker or what :func:`open_tracker` takes. ``name`` defaults to the names of
    the method and the add-on. The run's parameters are logged beside ``params``, which take
    precedence. A run that resumes from a checkpoint resumes in the tracker too; ``key`` overrides
    which run it is.

    Only rows that the engine has already read are logged, so no device has to wait. If the tracker
    fails after the start, one warning says so, and it is tried once more at the end.
    """

    def __init__(
        self,
        tracker: Tracker | str,
        *,
        name: str | None = None,
        params: Mapping[str, Value] | None = None,
        tags: Mapping[str, str] | None = None,
        key: str | None = None,
    ) -> None:
        self.tracker = open_tracker(tracker) if isinstance(tracker, str) else tracker
        self.name = name
        self.params = dict(params or {})
        self.tags = dict(tags or {})
        self.key = key
        self._started = False
        self._failed = False
        self._outer: BaseException | None = None

    def on_start(self, run: Run) -> None:
        self._started = self._failed = False
        self._outer = sys.exc_info()[1]
        name = self.name or label_of(run)
        tags = {KEY: self.key or run_key(name, run), **self.tags}
        self.tracker.start(name, {**params_of(run), **self.params}, tags)
        self._started = True
        self._attempt(lambda: self._log_all(run))

    def on_epoch(self, run: Run) -> None:
        if not self._failed:
            self._attempt(lambda: self._log(run.history.epochs[-1]))

    def on_end(self, run: Run) -> None:
        if not self._started:
            return
        # Also called while an error propagates, which may have been raised before the run.
        error = sys.exc_info()[1]
        status: RunStatus = "finished" if error is None or error is self._outer else "failed"
        self._attempt(lambda: self._log_all(run))  # including what later callbacks recorded
        self._attempt(lambda: self.tracker.finish(status))
        self._started = False

    def _log(self, row: Mapping[str, float]) -> None:
        values = {name: value for name, value in row.items() if name != "epoch"}
        self.tracker.log(values, int(row["epoch"]))

    def _log_all(self, run: Run) -> None:
        for row in run.history.epochs:
            self._log(row)

    def _attempt(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:
            if not self._failed:
                self._failed = True
                text = f"The tracker failed; the run continues. ({type(error).__name__}: {error})"
                warnings.warn(text, stacklevel=2)


def label_of(run: Run) -> str:
    """The paper's short names of method and add-on: ``SRL-FOCUS``."""
    method, addon = METHODS.label_of(run.method), ADDONS.label_of(run.update.addon)
    return method if addon == "none" else f"{method}-{addon}"


def run_key(name: str, run: Run) -> str:
    """The same key for a run and its continuation; a new one for a run without a checkpoint."""
    if not run.fingerprint:
        return uuid.uuid4().hex
    return key_of({"name": name, "run": run.fingerprint})


def params_of(run: Run) -> dict[str, Value]:
    """The parameters of a run; the ``repr`` of a part is its configuration."""
    group = run.optimizer.param_groups[0]
    lr = group.get("initial_lr", group.get("lr"))  # a schedule moves the second
    return {
        "method": repr(run.method),
        "addon": repr(run.update.addon),
        "aggregate": repr(run.update.aggregate),
        "strict": run.update.strict,
        "optimizer": type(run.optimizer).__name__,
        "lr": float(lr) if lr is not None else None,
        "epochs": run.epochs,
        "steps_per_epoch": run.steps_per_epoch,
    }
