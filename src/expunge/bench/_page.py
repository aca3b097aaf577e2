"""The interactive page of a benchmark: forgetting against accuracy, then metric by metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from expunge.bench._results import HYPERPARAMETERS, TASK, BenchResult, is_scored
from expunge.bench._tasks import group_results
from expunge.evaluation import DIRECTIONS, METRICS
from expunge.report import render

FIELDS = (*TASK, "method", "addon", *HYPERPARAMETERS, "moments", "aggregate", "block")
"""Settings that may distinguish rows, the most familiar first; runs also differ in their seed."""

DIAGNOSTICS = {
    "objective": "Forgetting loss",
    "constraint": "Retaining loss",
    "feasible": "Feasible steps (share)",
    "cosine": "Cosine of the gradients",
    "agreement": "Agreement",
    "moved": "Parameters moved (share)",
}
SCRIPTS = ("groups.js", "overview.js", "curves.js", "compare.js", "claims.js")
SIDE_BY_SIDE = ("rua", "ta", "ra", "ua", "rmia_auc", "mia_entropy", "jsd", "rte")
"""The metrics that stand side by side at first, as far as they were measured."""


def render_page(
    results: Sequence[BenchResult], title: str, claims: Sequence[Mapping[str, Any]]
) -> str:
    """One HTML file: pick metric, rows and epoch; filter ``claims``, the rows of their ledger."""
    main = {
        result.key
        for runs in group_results(results)
        for variant in runs.main_variants.values()
        for result in variant
    }
    runs = [_plain(result) | {"main": result.key in main} for result in results]
    metrics = _metrics(runs)
    sections = [("overview", "Overview")] if "abs_rua" in metrics else []
    sections += [("compare", "Compare"), ("curves", "Over the epochs")] if runs else []
    sections += [("claims", "Claims")] if claims else []
    data = {
        "metrics": metrics,
        "fields": ["label", *(f for f in FIELDS if len({getattr(r, f) for r in results}) > 1)],
        "rows_by": rows_by(results),
        "tasks": list(dict.fromkeys(run["task"] for run in runs)),
        "side_by_side": [name for name in SIDE_BY_SIDE if name in metrics],
        "results": runs,
        "claims": list(claims),
    }
    return render(
        "bench.html",
        data,
        SCRIPTS,
        title=title,
        subject="; ".join(dict.fromkeys(result.subject for result in results)),
        machines=machines_of(results),
        sections=sections,
        overview="abs_rua" in metrics,
        tiles=_tiles(results, claims),
    )


def machines_of(results: Sequence[BenchResult]) -> str:
    """The machines that the runs were computed on, with the version of torch."""
    return "; ".join(dict.fromkeys(result.machine for result in results if result.machine))


def rows_by(results: Sequence[BenchResult]) -> list[str]:
    """The label and as many settings as are needed so that no row mixes two configurations."""
    chosen = ["label"]
    for field in FIELDS:
        groups: dict[tuple[Any, ...], set[Any]] = {}
        for result in results:
            key = tuple(getattr(result, name) for name in chosen)
            groups.setdefault(key, set()).add(getattr(result, field))
        if any(len(values) > 1 for values in groups.values()):
            chosen.append(field)
    return chosen


def _plain(result: BenchResult) -> dict[str, Any]:
    """The part of a result that the page needs; metrics of single classes are left out."""
    return {
        "label": result.label,
        "settings": result.settings,
        "task": result.title.replace(", ", " · "),
        "diverged": result.diverged,
        "epochs": [_row(row, result.clock) for row in result.epochs],
    }


def _row(row: Mapping[str, Any], clock: str) -> dict[str, Any]:
    values = {k: v for k, v in row.items() if k in METRICS or k in DIAGNOSTICS}
    if row.get(clock) is not None:
        values["rte"] = row[clock]
    if row.get("rua") is not None:
        values["abs_rua"] = abs(row["rua"])
    return {"epoch": row["epoch"], "scored": is_scored(row), **values}


def _metrics(runs: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Every metric that occurs in the results, with its label and description."""
    present = {name for run in runs for row in run["epochs"] for name in row}
    metrics = {
        name: {
            "label": metric.label,
            "unit": metric.unit,
            "decimals": metric.decimals,
            "about": f"{metric.definition} ({DIRECTIONS[metric.direction]})",
            "reference": metric.direction == "ideal",
        }
        for name, metric in METRICS.items()
        if name in present
    }
    common = {"unit": "", "decimals": 3, "about": "", "reference": False}
    own = {name: {"label": label} | common for name, label in DIAGNOSTICS.items()}
    return metrics | {name: about for name, about in own.items() if name in present}


def _tiles(
    results: Sequence[BenchResult], claims: Sequence[Mapping[str, Any]]
) -> list[dict[str, str]]:
    """The few numbers at the top of the page."""
    unlearned = [result for result in results if not result.is_reference]
    labels, seeds = ({getattr(each, name) for each in unlearned} for name in ("label", "seed"))
    diverged = sum(bool(result.diverged) for result in unlearned)
    datasets = ", ".join(sorted({result.dataset for result in unlearned}))
    counted = [claim for claim in claims if claim["status"] != "no data"]
    held = sum(claim["status"] == "held" for claim in counted)
    note = f"of {len(counted)} comparisons: the statement is true; the result need not be good"
    tiles = [
        ("Unlearning runs", len(unlearned), f"{diverged} diverged"),
        ("Configurations", len(labels), "by label"),
        ("Seeds", len(seeds), datasets),
        *([("Claims held", held, note)] if counted else []),
    ]
    return [{"label": label, "text": str(n), "note": note} for label, n, note in tiles]
