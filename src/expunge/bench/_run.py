"""Run the stages of a protocol that are missing from a store, and say how far it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from expunge import dispatch
from expunge._errors import DataError
from expunge.bench._stages import RUNS, PlannedRun
from expunge.dispatch import Engine, Report, RunSummary
from expunge.store import Locked, Stage, Store

STATES = ("done", "running", "interrupted", "failed", "damaged", "missing")
"""The states of a stage, as ``expunge bench status`` counts them."""


def stages_of(planned: Iterable[PlannedRun]) -> list[Stage]:
    """Every stage once, parents first."""
    return list({stage.key: stage for run in planned for stage in run.stages}.values())


@dataclass
class StageCount:
    """How often a plan uses a kind of stage, how many different ones, how many are in the store."""

    kind: str
    uses: int = 0
    stages: int = 0
    there: int = 0


def count_stages(planned: Sequence[PlannedRun], store: Store) -> list[StageCount]:
    """The counts of each kind of stage, in the order in which they run."""
    counts = {kind: StageCount(kind) for kind in RUNS}
    for run in planned:
        for stage in run.stages:
            counts[stage.kind].uses += 1
    for stage in stages_of(planned):
        counts[stage.kind].stages += 1
        counts[stage.kind].there += store.has(stage)
    return list(counts.values())


def run_planned(
    planned: Sequence[PlannedRun],
    store: Store,
    *,
    workers: int | None = None,
    retries: int = 1,
    report: Report | None = None,
    engine: Engine | None = None,
) -> RunSummary:
    """Run the stages that are missing."""
    wanted = [stage for run in planned for stage in (run.reference, run.unlearn)]
    return dispatch.run(
        wanted, store, workers=workers, retries=retries, report=report, engine=engine
    )


@dataclass(frozen=True)
class StageStatus:
    """The state of one stage; ``failure`` is what the store noted the last time."""

    stage: Stage
    block: str
    state: str
    failure: dict[str, Any] | None = None
    detail: str = ""


def status(planned: Sequence[PlannedRun], store: Store) -> list[StageStatus]:
    """The state of every stage, in the order of the plan."""
    states: dict[str, StageStatus] = {}
    needed = {run.unlearn.key for run in planned} | {run.reference.key for run in planned}
    for run in planned:
        children_there = store.has(run.reference) and store.has(run.unlearn)
        for stage in run.stages:
            if stage.key in states and states[stage.key].state != "missing":
                continue
            state = _status(stage, run.block, store)
            if state.state == "missing" and stage.key not in needed and children_there:
                state = StageStatus(stage, run.block, "done", detail="no longer needed")
            states[stage.key] = state
    return list(states.values())


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
        return StageStatus(stage, block, "interrupted", detail="the next run resumes it")
    return StageStatus(stage, block, "missing")
