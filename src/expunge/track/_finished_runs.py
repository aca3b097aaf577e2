"""Log finished runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, get_args

from expunge._errors import InvalidInput
from expunge.track._tracker import KEY, RunStatus, Tracker, key_of


def track_runs(runs: Iterable[Mapping[str, Any]], tracker: Tracker) -> int:
    """Log each run once, however often this is called; returns how many there were.

    A run is ``{"name": ..., "params": {...}, "tags": {...}, "epochs": [{"epoch": 1, "ua": 97.2}],
    "status": "finished"}``; only name and epochs are required. Its tag ``expunge.key`` identifies
    it: under a key that the tracker knows, only what is missing is added. Without the tag, a hash
    of the whole run is its key.
    """
    seen: set[str] = set()
    for run in runs:
        name, status = _check(run)
        if name in seen:
            raise InvalidInput(f"Each run should have its own name. (two are called {name!r})")
        seen.add(name)
        params, tags = dict(run.get("params") or {}), dict(run.get("tags") or {})
        tags.setdefault(KEY, key_of([name, params, tags, run["epochs"]]))
        tracker.start(name, params, tags)
        for row in run["epochs"]:
            values = {key: value for key, value in row.items() if key != "epoch"}
            tracker.log(values, int(row["epoch"]))
        tracker.finish(status)
    return len(seen)


def _check(run: Mapping[str, Any]) -> tuple[str, RunStatus]:
    name, status = run.get("name"), run.get("status", "finished")
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"A run should have a name. (got {name!r})")
    if status not in get_args(RunStatus):
        raise InvalidInput(
            f"The `status` of the run {name!r} should be `finished` or `failed`. (got {status!r})"
        )
    rows = run.get("epochs")
    if not isinstance(rows, list) or not all("epoch" in row for row in rows):
        raise InvalidInput(f"The `epochs` of the run {name!r} should be rows with an `epoch` each.")
    return name, status
