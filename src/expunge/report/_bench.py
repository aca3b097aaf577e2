"""The page of a benchmark's results: forgetting against accuracy, then metric by metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from expunge.evaluation import METRICS
from expunge.report._page import render, to_json_types

Result = Mapping[str, Any]

FIELDS = (
    "dataset",
    "arch",
    "width",
    "limit",
    "scenario",
    "method",
    "addon",
    "alpha",
    "beta",
    "lr",
    "batch_size",
    "budget",
    "moments",
    "aggregate",
    "block",
)
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
WRITTEN = {
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "svhn": "SVHN",
    "vgg16": "VGG16",
    "resnet18": "ResNet18",
}
SIDE_BY_SIDE = ("rua", "ta", "ra", "ua", "rmia_auc", "mia_entropy", "jsd", "rte")
"""The metrics that stand side by side at first, as far as they were measured."""


def render_bench(results: Sequence[Result], title: str, claims: Sequence[Mapping[str, Any]]) -> str:
    """Render the page of ``results`` and ``claims`` about them.

    A result is a parsed line of a results file; ``main`` says whether tables show it, which runs
    of a sweep are not. A claim is a dict with ``claim``, ``statement``, ``group``, ``status``,
    ``effect``, ``low``, ``high``, ``n``, ``unit`` and ``detail``.
    """
    runs = [_slim(result) for result in results]
    metrics = _metrics(runs)
    sections = [("overview", "Overview")] if "abs_rua" in metrics else []
    sections += [("compare", "Compare"), ("curves", "Over the epochs")] if runs else []
    sections += [("claims", "Claims")] if claims else []
    data = {
        "metrics": metrics,
        "fields": ["label", *(f for f in FIELDS if len(_values(runs, f)) > 1)],
        "rows_by": rows_by(runs),
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
        subject=describe_tasks(results),
        machines=machines_of(results),
        sections=sections,
        overview="abs_rua" in metrics,
        tiles=_summary(runs, claims),
    )


def describe_tasks(results: Sequence[Result]) -> str:
    """Data and architecture of the runs, as a title has them: ``CIFAR-10, VGG16 × 0.25``."""
    tasks = []
    for result in results:
        settings = result["settings"]
        words = [WRITTEN.get(str(settings.get(n)), settings.get(n)) for n in ("dataset", "arch")]
        width = settings.get("width")
        words[1] = f"{words[1]} × {width:g}" if words[1] and width not in (None, 1.0) else words[1]
        tasks.append(", ".join(str(word) for word in words if word))
    return "; ".join(dict.fromkeys(tasks))


def machines_of(results: Sequence[Result]) -> str:
    """The machines that the runs were computed on, with the version of torch."""
    machines = []
    for result in results:
        kept = result.get("environment") or {}
        words = [str(gpu) for gpu in kept.get("gpus") or ()]
        if not words and kept.get("cores"):
            cores = "1 core" if kept["cores"] == 1 else f"{kept['cores']} cores"
            words = [f"{cores} of {kept.get('processor', 'a processor')}"]
        words += [f"torch {kept['torch']}"] if kept.get("torch") else []
        machines.append(", ".join(words))
    return "; ".join(dict.fromkeys(machine for machine in machines if machine))


def _is_unlearned(run: Result) -> bool:
    return bool(run["settings"].get("model", "unlearned") == "unlearned")


def task_of(settings: Mapping[str, Any]) -> str:
    """``CIFAR-10 · random:0.1 · VGG16 × 0.25``: only runs on one task are rivals."""
    data, *arch = describe_tasks([{"settings": settings}]).split(", ")
    limit, scenario = settings.get("limit"), settings.get("scenario")
    size = f"{limit:,} images" if limit else ""
    return " · ".join(str(part) for part in (data, scenario, *arch, size) if part)


def rows_by(results: Sequence[Result]) -> list[str]:
    """The label and as many settings as are needed so that no row mixes two configurations."""
    chosen = ["label"]
    for field in FIELDS:
        groups: dict[tuple[Any, ...], set[Any]] = {}
        for result in results:
            key = tuple(_value(result, name) for name in chosen)
            groups.setdefault(key, set()).add(_value(result, field))
        if any(len(values) > 1 for values in groups.values()):
            chosen.append(field)
    return chosen


def _value(result: Result, field: str) -> Any:
    return result.get("label") if field == "label" else result["settings"].get(field)


def _values(results: Sequence[Result], field: str) -> set[Any]:
    return {_value(result, field) for result in results}


def _slim(result: Result) -> dict[str, Any]:
    """The part of a result that the page needs; metrics of single classes are left out."""
    epochs = [_row(row) for row in result.get("epochs") or ()]
    return {
        "label": result.get("label", ""),
        "settings": to_json_types(result["settings"]),
        "task": task_of(result["settings"]),
        "main": bool(result.get("main")),
        "diverged": result.get("diverged", ""),
        "epochs": epochs,
    }


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    values = {k: v for k, v in row.items() if k in METRICS or k in DIAGNOSTICS}
    if row.get("seconds") is not None:
        values["rte"] = row["seconds"]
    if row.get("rua") is not None:
        values["abs_rua"] = abs(row["rua"])
    return {
        "epoch": row.get("epoch", 0),
        "scored": bool({"ua", "exact_memorisation"} & set(row)),
        **values,
    }


def _metrics(results: Sequence[Result]) -> dict[str, dict[str, Any]]:
    """Every metric that occurs in the results, with its label and description."""
    present = {name for result in results for row in result["epochs"] for name in row}
    metrics: dict[str, dict[str, Any]] = {}
    for name in METRICS:
        if name in present:
            metric = METRICS[name]
            metrics[name] = {
                "label": metric.label,
                "unit": metric.unit,
                "decimals": metric.decimals,
                "about": f"{metric.definition} ({metric.good})",
                "reference": metric.direction == "ideal",
            }
    for name, label in DIAGNOSTICS.items():
        if name in present:
            common = {"unit": "", "decimals": 3, "about": "", "reference": False}
            metrics[name] = {"label": label, **common}
    return metrics


def _summary(runs: Sequence[Result], claims: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """The few numbers at the top of the page."""
    unlearned = [run for run in runs if _is_unlearned(run)]
    diverged = sum(bool(r["diverged"]) for r in unlearned)
    counted = [claim for claim in claims if claim.get("status") != "no data"]
    held = sum(claim.get("status") == "held" for claim in counted)
    tiles = [
        {"label": "Unlearning runs", "text": str(len(unlearned)), "note": f"{diverged} diverged"},
        {
            "label": "Configurations",
            "text": str(len({_value(r, "label") for r in unlearned})),
            "note": "by label",
        },
        {
            "label": "Seeds",
            "text": str(len(_values(unlearned, "seed"))),
            "note": ", ".join(sorted({str(d) for d in _values(unlearned, "dataset")})),
        },
    ]
    if counted:
        note = f"of {len(counted)} comparisons: the statement is true; the result need not be good"
        tiles.append({"label": "Claims held", "text": str(held), "note": note})
    return tiles
