"""The page of a benchmark's results: methods compared by metric, rows and epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from expunge.evaluation._metrics import METRICS
from expunge.report._page import render, to_json_types

Record = Mapping[str, Any]

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
SCRIPTS = ("groups.js", "curves.js", "compare.js", "claims.js")


def render_bench(records: Sequence[Record], title: str, claims: Sequence[Mapping[str, Any]]) -> str:
    """Render the page of ``records`` (parsed lines of a records file) and ``claims`` about them.

    A claim is a dict with ``claim``, ``statement``, ``group``, ``status``, ``effect``, ``low``,
    ``high``, ``n``, ``unit`` and ``detail``.
    """
    runs = [_slim(record) for record in records]
    sections = [("compare", "Compare"), ("curves", "Over the epochs")] if runs else []
    sections += [("claims", "Claims")] if claims else []
    data = {
        "metrics": _metrics(runs),
        "fields": ["label", *(f for f in FIELDS if len(_values(runs, f)) > 1)],
        "rows_by": rows_by(runs),
        "records": runs,
        "claims": list(claims),
    }
    return render(
        "bench.html", data, SCRIPTS, title=title, sections=sections, tiles=_summary(runs, claims)
    )


def rows_by(records: Sequence[Record]) -> list[str]:
    """The label and as many settings as are needed so that no row mixes two configurations."""
    chosen = ["label"]
    for field in FIELDS:
        groups: dict[tuple[Any, ...], set[Any]] = {}
        for record in records:
            key = tuple(_value(record, name) for name in chosen)
            groups.setdefault(key, set()).add(_value(record, field))
        if any(len(values) > 1 for values in groups.values()):
            chosen.append(field)
    return chosen


def _value(record: Record, field: str) -> Any:
    return record.get("label") if field == "label" else record["settings"].get(field)


def _values(records: Sequence[Record], field: str) -> set[Any]:
    return {_value(record, field) for record in records}


def _slim(record: Record) -> dict[str, Any]:
    """The part of a record that the page needs; metrics of single classes are left out."""
    epochs = [_row(row) for row in record.get("epochs") or ()]
    return {
        "label": record.get("label", ""),
        "settings": to_json_types(record["settings"]),
        "diverged": record.get("diverged", ""),
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


def _metrics(records: Sequence[Record]) -> dict[str, dict[str, Any]]:
    """Every metric that occurs in the records, with its label and description."""
    present = {name for record in records for row in record["epochs"] for name in row}
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


def _summary(runs: Sequence[Record], claims: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """The few numbers at the top of the page."""
    unlearned = [r for r in runs if r["settings"].get("model", "unlearned") == "unlearned"]
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
        note = f"of {len(counted)} comparisons"
        tiles.append({"label": "Claims held", "text": str(held), "note": note})
    return tiles
