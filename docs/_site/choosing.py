"""The tables of "Choosing a method", from the benchmark's results in ``results/``."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from expunge.bench._results import BenchResult, BenchRun, load_results
from expunge.bench._tasks import TaskResults, group_results, one_per_seed

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


ELSEWHERE = ("paper-mini", "focus-alpha")
"""Results that pages of their own show."""


def choosing_tables(results: Path | None = None) -> str:
    """One table per task that the results have, largest data first."""
    folder = results or ROOT / "results"
    sections: dict[str, list[tuple[Path, TaskResults]]] = {}
    files = sorted(folder.glob("*/results.jsonl"))
    for file in (file for file in files if file.parent.name not in ELSEWHERE):
        for runs in group_results(load_results(file)):
            if _is_comparable(runs):
                sections.setdefault(runs.task.title, []).append((file.parent, runs))
    chosen = [_joined(section) for section in sections.values()]
    chosen.sort(key=lambda section: -(section[1].task.limit or 10**9))
    return "\n\n".join(task_table(*section) for section in chosen)


def _joined(section: list[tuple[Path, TaskResults]]) -> tuple[list[Path], TaskResults]:
    """The benchmark with the most variants, with the runs of others that have its settings."""
    section.sort(key=lambda each: -len(each[1].main_variants))
    most = section[0][1]
    shown = most.main_hyperparameters
    sources, alike = zip(*(e for e in section if e[1].main_hyperparameters == shown), strict=True)
    unlearned = {result.key: result for runs in alike for result in runs.unlearned}
    initial, ideal = (
        tuple(one_per_seed(r for runs in alike for r in runs.references[name]).values())
        for name in ("initial", "ideal")
    )
    whole = replace(most, unlearned=tuple(unlearned.values()), initial=initial, ideal=ideal)
    return list(sources), whole


def task_table(sources: list[Path], runs: TaskResults) -> str:
    """A row per method and add-on at the task's main settings, those that come nearest first."""
    variants = {
        variant: [*one_per_seed(results).values()]
        for variant, results in runs.main_variants.items()
    }
    rows = [_row(runs, variant, results) for variant, results in variants.items()]
    rows.sort(key=lambda row: row[0])
    gap = statistics.mean(_values(runs.initial, "rua"))
    links = [f"[{each.name}](../results/{each.name}/results.jsonl)" for each in sources]
    lines = [
        f"### {runs.task.title}",
        "",
        f"The gap is the rUA of the initial model, {gap:.1f} points. Means over n seeds, "
        f"epoch {runs.epoch}; results: {', '.join(links)}.",
        "",
        f"| {' | '.join(HEADS)} |",
        "| --- |" + " ---: |" * 6 + " --- |",
        *(row[1] for row in rows),
    ]
    return "\n".join(lines)


def _row(runs: TaskResults, variant: BenchRun, results: list[BenchResult]) -> tuple[float, str]:
    """A row, behind the distance from the ideal model that it is sorted by."""
    ended = [result for result in results if not result.diverged]
    failures = [f"diverged in {len(results) - len(ended)} of {len(results)} runs"]
    failures = failures if len(ended) < len(results) else []
    if not ended:
        return 1e9, f"| {variant.label} | | | | | | {len(results)} | {failures[0]} |"
    seeds = [result.seed for result in ended]
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
        _unbroken(variant.label),
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


def _is_comparable(runs: TaskResults) -> bool:
    """Whether there is an ideal model to compare with, and something was unlearned."""
    return bool(runs.unlearned and runs.initial and runs.ideal) and "rua" in runs.initial[0].final


def _attack(runs: TaskResults, results: list[BenchResult], seeds: list[int]) -> str:
    """How far the share that the entropy attack accuses is from the ideal model's, if measured."""
    if runs.ideal[0].value("mia_entropy") is None:
        return ""
    ideal = _mean(runs.ideal, "mia_entropy", seeds, None)
    return f"{_mean(results, 'mia_entropy', seeds, runs.epoch) - ideal:+.2f}"


def _cost(results: Iterable[BenchResult], epoch: int | None) -> float:
    """Processor seconds of the steps: less disturbed by other work than the clock."""
    return statistics.mean(_values(results, "processor_seconds", epoch))


def _spread(results: list[BenchResult], metric: str, epoch: int) -> str:
    values = _values(results, metric, epoch)
    return f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""


def _mean(
    results: Iterable[BenchResult], metric: str, seeds: list[int], epoch: int | None
) -> float:
    return statistics.mean(_values([r for r in results if r.seed in seeds], metric, epoch))


def _values(results: Iterable[BenchResult], metric: str, epoch: int | None = None) -> list[float]:
    values = [result.value(metric, epoch) for result in results]
    return [value for value in values if value is not None]
