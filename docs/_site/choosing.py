"""The tables of "Choosing a method", from the benchmark's records in ``results/``."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import replace
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
    "n",
    "where it fails here",
)


def choosing_tables(results: Path | None = None) -> str:
    """One table per task that the records have, largest data first."""
    folder = results or ROOT / "results"
    sections: dict[str, list[tuple[Path, TaskRuns]]] = {}
    for file in sorted(folder.glob("*/records.jsonl")):
        for runs in group_records(load_records(file)):
            if _is_comparable(runs):
                sections.setdefault(runs.task.title, []).append((file.parent, runs))
    chosen = [_joined(section) for section in sections.values()]
    chosen.sort(key=lambda section: -(section[1].task.limit or 10**9))
    return "\n\n".join(task_table(*section) for section in chosen)


def _joined(section: list[tuple[Path, TaskRuns]]) -> tuple[list[Path], TaskRuns]:
    """The runs of the benchmark with the most arms, and of those others that have its settings."""
    section.sort(key=lambda each: -len(each[1].main_arms))
    most = section[0][1]
    sources, alike = zip(*(e for e in section if e[1].main_dials == most.main_dials), strict=True)
    unlearned = {record.key: record for runs in alike for record in runs.unlearned}
    initial, ideal = (
        tuple(one_per_seed(r for runs in alike for r in runs.references[name]).values())
        for name in ("initial", "ideal")
    )
    whole = replace(most, unlearned=tuple(unlearned.values()), initial=initial, ideal=ideal)
    return list(sources), whole


def task_table(sources: list[Path], runs: TaskRuns) -> str:
    """A row per method and add-on at the task's main settings, those that come nearest first."""
    arms = {arm: [*one_per_seed(records).values()] for arm, records in runs.main_arms.items()}
    rows = [_row(runs, arm, records) for arm, records in arms.items()]
    rows.sort(key=lambda row: row[0])
    gap = statistics.mean(_values(runs.initial, "rua"))
    links = [f"[{each.name}](../results/{each.name}/records.jsonl)" for each in sources]
    lines = [
        f"### {runs.task.title}",
        "",
        f"The gap is the rUA of the initial model, {gap:.1f} points. Means over n seeds, "
        f"epoch {runs.epoch}; records: {', '.join(links)}.",
        "",
        f"| {' | '.join(HEADS)} |",
        "| --- |" + " ---: |" * 6 + " --- |",
        *(row[1] for row in rows),
    ]
    return "\n".join(lines)


def _row(runs: TaskRuns, arm: Arm, records: list[Record]) -> tuple[float, str]:
    """A row, behind the distance from the ideal model that it is sorted by."""
    ended = [record for record in records if not record.diverged]
    failures = [f"diverged in {len(records) - len(ended)} of {len(records)} runs"]
    failures = failures if len(ended) < len(records) else []
    if not ended:
        return 1e9, f"| {arm.label} | | | | | | {len(records)} | {failures[0]} |"
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
        _unbroken(f"{rua:+.1f}{_spread(ended, 'rua', runs.epoch)}"),
        f"{-lost:+.1f}",
        _attack(runs, ended, seeds),
        f"{100 * _cost(ended, runs.epoch) / _cost(runs.ideal, None):.1f}",
        str(len(ended)),
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


def _spread(records: list[Record], metric: str, epoch: int) -> str:
    values = _values(records, metric, epoch)
    return f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""


def _mean(records: Iterable[Record], metric: str, seeds: list[int], epoch: int | None) -> float:
    return statistics.mean(_values([r for r in records if r["seed"] in seeds], metric, epoch))


def _values(records: Iterable[Record], metric: str, epoch: int | None = None) -> list[float]:
    values = [record.value(metric, epoch) for record in records]
    return [value for value in values if value is not None]
