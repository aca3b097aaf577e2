"""Log runs to a tracker: one in progress, by a callback, or finished ones."""

from __future__ import annotations

import hashlib
import json
import sys
import uuid
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from expunge._errors import InvalidInput
from expunge.engine import Callback
from expunge.track._trackers import KEY, Tracker, Value, open_tracker

if TYPE_CHECKING:
    from expunge.engine import Run


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
        self.name, self.key = name, key
        self.params, self.tags = dict(params or {}), dict(tags or {})
        self._started = self._failed = False
        self._outer: BaseException | None = None

    def on_start(self, run: Run) -> None:
        self._started = self._failed = False
        self._outer = sys.exc_info()[1]
        name = self.name or run.procedure.label
        key = self.key or uuid.uuid4().hex
        if not self.key and run.fingerprint:  # the same for a run and its continuation
            key = _hash({"name": name, "run": run.fingerprint})
        self.tracker.start(name, {**params_of(run), **self.params}, {KEY: key, **self.tags})
        self._started = True
        self._attempt(lambda: _log_rows(self.tracker, run.history.epochs))

    def on_epoch(self, run: Run) -> None:
        if not self._failed:
            self._attempt(lambda: _log_rows(self.tracker, run.history.epochs[-1:]))

    def on_end(self, run: Run) -> None:
        if not self._started:
            return
        # Also called while an error propagates, which may have been raised before the run.
        error = sys.exc_info()[1]
        well = error is None or error is self._outer
        # All rows once more, with what later callbacks recorded.
        self._attempt(lambda: _log_rows(self.tracker, run.history.epochs))
        self._attempt(lambda: self.tracker.finish("finished" if well else "failed"))
        self._started = False

    def _attempt(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:
            if not self._failed:
                self._failed = True
                text = f"The tracker failed; the run continues. ({type(error).__name__}: {error})"
                warnings.warn(text, stacklevel=2)


def track_runs(runs: Iterable[Mapping[str, Any]], tracker: Tracker) -> int:
    """Log each run once, however often this is called; returns how many there were.

    A run is ``{"name": ..., "params": {...}, "tags": {...}, "epochs": [{"epoch": 1, "ua": 97.2}],
    "status": "finished"}``; only name and epochs are required. Its tag ``expunge.key`` identifies
    it: under a key that the tracker knows, only what is missing is added. Without the tag, a hash
    of the whole run is its key.
    """
    seen: set[str] = set()
    for run in runs:
        name, rows = run.get("name"), run.get("epochs")
        if not name or name in seen or rows is None or not all("epoch" in row for row in rows):
            raise InvalidInput(
                "A run should have a name of its own, and `epochs`: rows with an `epoch` each. "
                f"(got {name!r})"
            )
        seen.add(name)
        params, tags = dict(run.get("params") or {}), dict(run.get("tags") or {})
        tags.setdefault(KEY, _hash([name, params, tags, rows]))
        tracker.start(name, params, tags)
        _log_rows(tracker, rows)
        tracker.finish(run.get("status", "finished"))
    return len(seen)


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


def _log_rows(tracker: Tracker, rows: Iterable[Mapping[str, Any]]) -> None:
    for row in rows:
        values = {name: value for name, value in row.items() if name != "epoch"}
        tracker.log(values, int(row["epoch"]))


def _hash(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
