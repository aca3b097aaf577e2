"""Run the missing stages of a protocol, collect what they gave, and say how far they are."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from expunge import dispatch
from expunge._errors import DataError
from expunge.bench._results import HYPERPARAMETERS, VARIANT, BenchResult, BenchRun
from expunge.bench._stage_functions import DEFINITIONS, HISTOGRAMS, STEPS, read_rows
from expunge.bench._stages import RUNS
from expunge.dispatch import RunSummary
from expunge.store import Entry, Locked, Stage, Store

STATES = ("done", "running", "interrupted", "failed", "damaged", "missing")
"""The states of a stage, as ``expunge bench status`` counts them."""


def stages_of(planned: Iterable[BenchRun]) -> list[Stage]:
    """Every stage once, parents first."""
    return list({stage.key: stage for run in planned for stage in run.stages}.values())


def count_stages(planned: Sequence[BenchRun], store: Store) -> list[dict[str, Any]]:
    """How often a plan uses each kind of stage, how many different ones, and how many are there."""
    uses = Counter(stage.kind for run in planned for stage in run.stages)
    stages = Counter(stage.kind for stage in stages_of(planned))
    there = Counter(stage.kind for stage in stages_of(planned) if store.has(stage))
    return [
        {"kind": kind, "uses": uses[kind], "stages": stages[kind], "there": there[kind]}
        for kind in RUNS
    ]


def run_planned(planned: Sequence[BenchRun], store: Store, **options: Any) -> RunSummary:
    """Run the stages that are missing; ``options`` are those of :func:`expunge.dispatch.run`."""
    wanted = [stage for run in planned for stage in run.stages[-2:]]
    return dispatch.run(wanted, store, **{"retries": 1} | options)


@dataclass(frozen=True)
class StageStatus:
    """The state of one stage; ``failure`` is what the store noted the last time."""

    stage: Stage
    block: str
    state: str
    failure: dict[str, Any] | None = None


def status(planned: Sequence[BenchRun], store: Store) -> list[StageStatus]:
    """The state of every stage, in the order of the plan; what nothing needs any more is done."""
    states: dict[str, StageStatus] = {}
    for run in planned:
        finished = all(store.has(stage) for stage in run.stages[-2:])
        for stage in run.stages:
            if stage.key not in states or states[stage.key].state == "missing":
                found = _status(stage, run.block, store)
                unneeded = finished and found.state == "missing"
                states[stage.key] = replace(found, state="done") if unneeded else found
    return list(states.values())


def _status(stage: Stage, block: str, store: Store) -> StageStatus:
    if store.has(stage):
        try:
            store.open(stage)
        except DataError:
            return StageStatus(stage, block, "damaged")
        return StageStatus(stage, block, "done")
    if store.lock_path(stage).exists():
        try:
            with store.lock(stage):
                pass
        except Locked:
            return StageStatus(stage, block, "running")
    failure = store.failure(stage)
    if failure is not None:
        return StageStatus(stage, block, "failed", failure)
    if store.work_path(stage).is_dir():
        return StageStatus(stage, block, "interrupted")
    return StageStatus(stage, block, "missing")


def collect(planned: Sequence[BenchRun], store: Store) -> list[BenchResult]:
    """The results of all runs that are in the store, references first."""
    results: dict[str, BenchResult] = {}
    for run in planned:
        if store.has(run.reference):
            for result in _references(run, store.open(run.reference)):
                results.setdefault(result.key, result)
    for run in planned:
        if all(store.has(stage) for stage in run.stages[-2:]):
            result = _unlearned(run, *(store.open(stage) for stage in run.stages[-2:]))
            results.setdefault(result.key, result)
    return list(results.values())


def _references(run: BenchRun, entry: Entry) -> Iterable[BenchResult]:
    settings = run.settings | dict.fromkeys(VARIANT, "") | dict.fromkeys(HYPERPARAMETERS)
    for row in read_rows(entry):
        name = row.pop("model")
        yield BenchResult(
            **settings | {"model": name},
            key=f"{entry.key}-{name}",
            epochs=[_rounded(row)],
            definitions=_json(entry, DEFINITIONS),
            environment=_environment(entry),
        )


def _unlearned(run: BenchRun, reference: Entry, entry: Entry) -> BenchResult:
    start = next(row for row in read_rows(reference) if row["model"] == "initial")
    start = {k: v for k, v in start.items() if k != "model"}
    rows = [start | {"seconds": 0.0, "processor_seconds": 0.0}, *read_rows(entry)]
    return BenchResult(
        **run.settings,
        baseline=run.baseline,
        key=entry.key,
        epochs=[_rounded(row) for row in rows if "diverged" not in row],
        diverged=str(rows[-1].get("diverged", "")),
        steps=_json(entry, STEPS),
        agreement=_json(entry, HISTOGRAMS),
        definitions=_json(entry, DEFINITIONS),
        environment=_environment(entry),
    )


def _json(entry: Entry, name: str) -> dict[str, Any]:
    if name not in entry.files:
        return {}
    content: dict[str, Any] = json.loads(entry.path(name).read_text(encoding="utf-8"))
    return content


def _environment(entry: Entry) -> dict[str, Any]:
    notes = entry.environment
    hardware, versions = notes.get("hardware", {}), notes.get("versions", {})
    kept = {name: hardware.get(name) for name in ("processor", "cores", "gpus")}
    kept |= {name: versions.get(name) for name in ("expunge", "torch", "machine")}
    return {name: value for name, value in kept.items() if value}


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    """Seven digits are enough, and keep files small; what is read back is what was collected."""
    return {k: float(f"{v:.7g}") if isinstance(v, float) else v for k, v in row.items()}
