"""How far a protocol is: what is there, what failed and why, what is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from expunge._errors import DataError
from expunge.bench._stages import Planned
from expunge.store import Locked, Stage, Store

STATES = ("done", "running", "interrupted", "failed", "damaged", "missing")


@dataclass(frozen=True)
class StageStatus:
    """One stage; ``failure`` is what the store noted the last time."""

    stage: Stage
    block: str
    state: str
    failure: dict[str, Any] | None = None
    detail: str = ""


def status(planned: Sequence[Planned], store: Store) -> list[StageStatus]:
    """The state of every stage, in the order of the plan."""
    found: dict[str, StageStatus] = {}
    needed = {run.unlearn.key for run in planned} | {run.reference.key for run in planned}
    for run in planned:
        children_there = store.has(run.reference) and store.has(run.unlearn)
        for stage in run.stages:
            if stage.key in found and found[stage.key].state != "missing":
                continue
            entry = _status(stage, run.arm.block.name, store)
            if entry.state == "missing" and stage.key not in needed and children_there:
                entry = StageStatus(stage, run.arm.block.name, "done", detail="no longer needed")
            found[stage.key] = entry
    return list(found.values())


def _status(stage: Stage, block: str, store: Store) -> StageStatus:
    if store.has(stage):
        try:
            store.open(stage)
        except DataError as error:
            return StageStatus(stage, block, "damaged", detail=str(error))
        return StageStatus(stage, block, "done")
    if (store.root / ".locks" / f"{stage.key}.lock").exists():
        try:
            with store.lock(stage):
                pass
        except Locked as error:
            return StageStatus(stage, block, "running", detail=str(error))
    failure = store.failure(stage)
    if failure is not None:
        return StageStatus(stage, block, "failed", failure)
    if (store.root / ".work" / stage.key).is_dir():
        return StageStatus(stage, block, "interrupted", detail="the next run goes on with it")
    return StageStatus(stage, block, "missing")
