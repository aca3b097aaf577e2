"""The paper's two tables, ours beside them, and all attacks: summaries, one per task or part."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from expunge.bench._results import CONSTRAINED_METHODS, Result
from expunge.bench._tasks import TaskResults, group_results, select_variants
from expunge.bench.paper._values import PAPER_TABLES, PaperTable, beside_printed
from expunge.bench.paper.claims._metric_shift import ATTACKS
from expunge.bench.tables._rows import (
    ADDON_ORDER,
    METRIC_NAMES,
    absent,
    all_rows,
    paper_variants,
    row_of,
    summary_of,
    variant_rows,
)
from expunge.bench.tables._summary import RowGroup, Summary
from expunge.evaluation import METRICS
from expunge.methods import METHODS
from expunge.update import ADDONS

OVERVIEW = ("ua", "ra", "ta", "rua", "fid", "mia_entropy", "rte")
"""The columns of :func:`overview`."""


def table1(results: Iterable[Result]) -> list[Summary]:
    """Masks compared: a method alone, and with each add-on (Table 1 of the paper).

    Its two parts where there are results of them, else SRL and NGPlus on every task.
    """
    tasks = group_results(results)
    parts = [part for part in PAPER_TABLES if part.table == "table1"]
    chosen = [(part, runs) for part in parts for runs in tasks if _fits(part, runs)]
    if not chosen:
        both = tuple(method for part in parts for method in part.methods)
        return [masks(runs, both) for runs in tasks if _has(runs, both)]
    summaries = [masks(runs, part.methods) for part, runs in chosen]
    missing = [part for part in parts if part not in [done for done, _ in chosen]]
    notes = [f"Absent: the paper's part on {part.dataset}, {part.arch}" for part in missing]
    return [replace(s, notes=(*s.notes, *notes)) for s in summaries]


def masks(runs: TaskResults, methods: Sequence[str]) -> Summary:
    """Each method alone and with its add-ons; they compete within the method."""
    groups = [_addon_rows(runs, method, ADDON_ORDER, METRIC_NAMES) for method in methods]
    wanted = [variant for variant in paper_variants() if variant.method in methods]
    return summary_of(runs, groups, METRIC_NAMES, *absent(runs, wanted))


def _addon_rows(
    runs: TaskResults, method: str, addons: Sequence[str], metrics: Sequence[str]
) -> RowGroup:
    """A method alone and with add-ons."""
    variants = select_variants(runs.main_variants, method, ("none", *addons))
    return RowGroup(METHODS.label(method), variant_rows(runs, variants, metrics))


def table2(results: Iterable[Result]) -> list[Summary]:
    """The benchmark: references, methods, and add-ons of each method (Table 2 of the paper).

    On the paper's task where there are results of it, else on every task. All rows compete.
    """
    tasks = group_results(results)
    (part,) = (part for part in PAPER_TABLES if part.table == "table2")
    chosen = [runs for runs in tasks if _fits(part, runs)] or tasks
    return [benchmark(runs) for runs in chosen if runs.unlearned]


def benchmark(runs: TaskResults) -> Summary:
    """All rows of a task."""
    return all_rows(runs, METRIC_NAMES, *absent(runs, paper_variants()))


def overview(results: Iterable[Result]) -> list[Summary]:
    """References and baselines, then each method alone and with every add-on.

    They compete within the method, and baselines with each other.
    """
    return [_overview(runs) for runs in _unlearned(results)]


def _overview(runs: TaskResults) -> Summary:
    references = (row_of(runs, of, OVERVIEW, name) for name, of in runs.references.items())
    alone = [variant for variant in runs.main_variants if variant.method not in CONSTRAINED_METHODS]
    addons = [addon for addon in ADDONS if addon != "none"]
    groups = [
        RowGroup("references", tuple(references), ranked=False),
        RowGroup("baselines", variant_rows(runs, alone, OVERVIEW)),
        *(_addon_rows(runs, method, addons, OVERVIEW) for method in CONSTRAINED_METHODS),
    ]
    return summary_of(runs, groups, OVERVIEW)


def beside(results: Iterable[Result]) -> list[Summary]:
    """Ours beside the paper's: the parts of its tables that there are results of."""
    tasks = group_results(results)
    summaries = []
    for part in PAPER_TABLES:
        for runs in tasks:
            if _fits(part, runs):
                is_first = part.table == "table1"
                summary = masks(runs, part.methods) if is_first else benchmark(runs)
                side = beside_printed(summary, part.rows)
                title = f"Table {part.table[-1]} of the paper beside ours: {summary.title}"
                summaries.append(replace(side, title=title))
    return summaries


def _fits(part: PaperTable, runs: TaskResults) -> bool:
    names = ("dataset", "arch", "scenario")
    same = all(getattr(runs.task, name) == getattr(part, name) for name in names)
    return same and _has(runs, part.methods)


def _has(runs: TaskResults, methods: Sequence[str]) -> bool:
    return any(variant.method in methods for variant in runs.main_variants)


def attacks(results: Iterable[Result]) -> list[Summary]:
    """All five membership attacks, on every task."""
    columns = {m: replace(METRICS[m], label=METRICS[m].label.removeprefix("MIA ")) for m in ATTACKS}
    summaries = [all_rows(runs, ATTACKS, columns=columns) for runs in _unlearned(results)]
    return [replace(s, title=f"Membership attacks: {s.title}") for s in summaries if s.metrics]


def _unlearned(results: Iterable[Result]) -> list[TaskResults]:
    return [runs for runs in group_results(results) if runs.unlearned]
