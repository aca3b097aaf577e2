"""The tables of "Choosing a method", from the benchmark's records in ``results/``."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from pathlib import Path

from expunge.bench._records import Record, load_records
from expunge.bench._runs import Arm, TaskRuns, group_records, one_per_seed

ROOT = Path(__file__).resolve().parents[2]
LITTLE, LOST, OVER = 20.0, 5.0, 5.0
"""What counts as a failure: percent of the gap closed; points of TA and of UA below the ideal's."""
HEADS = (
    "method",
    "gap closed, %",
    "rUA, points",
    "TA, from the ideal's",
    "entropy attack, from the ideal's",
    "cost, % of retraining",
    "where it fails here",
)


def choosing_tables(results: Path | None = None) -> str:
    """One table per task that the records have, largest data first."""
    folder = results or ROOT / "results"
    sections = []
    for file in sorted(folder.glob("*/records.jsonl")):
        runs = [each for each in group_records(load_records(file)) if _is_comparable(each)]
        sections += [(file.parent, each) for each in runs]
    # Of several benchmarks on one task, the one with the most methods and add-ons.
    largest: dict[str, tuple[Path, TaskRuns]] = {}
    for section in sorted(sections, key=lambda section: len(section[1].main_arms)):
        largest[section[1].task.title] = section
    chosen = sorted(largest.values(), key=lambda section: -(section[1].task.limit or 10**9))
    return "\n\n".join(task_table(*section) for section in chosen)


def task_table(source: Path, runs: TaskRuns) -> str:
    """A row per method and add-on at the task's main settings, those that come nearest first."""
    rows = [_row(runs, arm, records) for arm, records in runs.main_arms.items()]
    rows.sort(key=lambda row: row[0])
    gap = statistics.mean(_values(runs.initial, "rua"))
    seeds = len(one_per_seed(runs.ideal))
    place = f"../results/{source.name}/records.jsonl"
    lines = [
        f"### {runs.task.title}",
        "",
        f"The gap is the rUA of the initial model, {gap:.1f} points. Means over {seeds} seeds, "
        f"epoch {runs.epoch}; [the records]({place}).",
        "",
        f"| {' | '.join(HEADS)} |",
        "| --- |" + " ---: |" * 5 + " --- |",
        *(row[1] for row in rows),
    ]
    return "\n".join(lines)


def _row(runs: TaskRuns, arm: Arm, records: list[Record]) -> tuple[float, str]:
    """A row, behind the distance from the ideal model that it is sorted by."""
    ended = [record for record in records if not record.diverged]
    failures = [f"diverged in {len(records) - len(ended)} of {len(records)} runs"]
    failures = failures if len(ended) < len(records) else []
    if not ended:
        return 1e9, f"| {arm.label} | | | | | | {failures[0]} |"
    seeds = [record["seed"] for record in ended]
    gap, rua = (_mean(r, "rua", seeds, e) for r, e in ((runs.initial, None), (ended, runs.epoch)))
    ideal, ta = (_mean(r, "ta", seeds, e) for r, e in ((runs.ideal, None), (ended, runs.epoch)))
    closed, lost = 100 * (1 - abs(rua) / abs(gap)), ideal - ta
    # Where it fails, by rule.
    if rua < -OVER:
        failures.append("forgets too much")
    elif closed < LITTLE:
        failures.append("hardly forgets")
    if lost > LOST:
        failures.append("loses test accuracy")
    cells = [
        _unbroken(arm.label),
        f"{closed:.0f}" if closed >= 0 else "overshot",
        _unbroken(f"{rua:+.1f} ± {_spread(ended, 'rua', runs.epoch):.1f}"),
        f"{-lost:+.1f}",
        _attack(runs, ended, seeds),
        f"{100 * _cost(ended, runs.epoch) / _cost(runs.ideal, None):.1f}",
        "; ".join(failures),
    ]
    return abs(rua) + max(lost, 0.0), f"| {' | '.join(cells)} |"


def _unbroken(text: str) -> str:
    """The text with blanks and hyphens at which no line is broken."""
    return text.replace(" ", "\u00a0").replace("-", "\u2011")


def _is_comparable(runs: TaskRuns) -> bool:
    """Whether there is an ideal model to compare with, and something was unlearned."""
    return bool(runs.unlearned and runs.initial and runs.ideal) and "rua" in runs.initial[0].final


def _attack(runs: TaskRuns, records: list[Record], seeds: list[int]) -> str:
    """How far the share that the entropy attack accuses is from the ideal model's, if measured."""
    if runs.ideal[0].value("mia_entropy") is None:
        return ""
    ideal = _mean(runs.ideal, "mia_entropy", seeds, None)
    return f"{_mean(records, 'mia_entropy', seeds, runs.epoch) - ideal:+.2f}"


def _cost(records: Iterable[Record], epoch: int | None) -> float:
    """Processor seconds of the steps: less disturbed by other work than the clock."""
    return statistics.mean(_values(records, "processor_seconds", epoch))


def _spread(records: list[Record], metric: str, epoch: int) -> float:
    values = _values(records, metric, epoch)
    return statistics.stdev(values) if len(values) > 1 else 0.0


def _mean(records: Iterable[Record], metric: str, seeds: list[int], epoch: int | None) -> float:
    return statistics.mean(_values([r for r in records if r["seed"] in seeds], metric, epoch))


def _values(records: Iterable[Record], metric: str, epoch: int | None = None) -> list[float]:
    values = [record.value(metric, epoch) for record in records]
    return [value for value in values if value is not None]
