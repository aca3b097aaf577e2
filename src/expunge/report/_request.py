"""The page of a deletion request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from expunge._durations import format_duration
from expunge.report._embed import plain
from expunge.report._facts import facts
from expunge.report._page import render
from expunge.report._words import number, share

SECTIONS = (
    ("verdict", "Verdict", ""),
    ("metrics", "Before, after, target", "metrics"),
    ("epochs", "Over the epochs", ""),
    ("scores", "Threshold", "scores"),
    ("attacks", "Attacks", "attacks"),
    ("examples", "Records", "examples"),
    ("classes", "Classes", "classes"),
    ("steps", "Steps", "steps"),
    ("preflight", "Preflight", "preflight"),
    ("earlier", "Earlier requests", "earlier"),
    ("cost", "Cost", "cost"),
    ("limits", "Limits", "limits"),
    ("reproduce", "Reproduce", "commands"),
    ("record", "For the record", ""),
)
"""Id, name, and the part of the evidence without which there is no such section."""

SCRIPTS = (
    "metrics.js",
    "epochs.js",
    "scores.js",
    "attacks.js",
    "examples.js",
    "classes.js",
    "steps.js",
    "cost.js",
)

STEP_CHARTS = (
    ("feasible", ("feasible",), "Feasible steps", "share of each epoch's steps"),
    ("cosine", ("cosine",), "Cosine of the two gradients", "below 0 they are in conflict"),
    ("agreement", ("agreement",), "Agreement", "mean chance that both gradients agree in sign"),
    ("moved", ("moved",), "Parameters moved", "share with a weight above zero"),
    (
        "alignment",
        ("objective_alignment", "constraint_alignment"),
        "Alignment of the step",
        "with both gradients; feasible when neither is above 0",
    ),
)


def render_request(evidence: Mapping[str, Any]) -> str:
    """The whole page of one request as HTML; parts that the evidence does not have are left out."""
    found = plain(evidence)
    return render(
        "request.html",
        found,
        SCRIPTS,
        evidence=found,
        sections=[(id, name) for id, name, needs in SECTIONS if not needs or _has(found, needs)],
        tiles=_tiles(found),
        places=[_place(metric) for metric in found.get("metrics") or ()],
        preflight=[f for f in facts(_without_warnings(found)) if f["label"] != "Warnings"],
        step_charts=[
            (id, name, about)
            for id, needs, name, about in STEP_CHARTS
            if any(_known((found.get("steps") or {}).get(n)) for n in needs)
        ],
    )


def _has(evidence: Mapping[str, Any], part: str) -> bool:
    found = evidence.get(part)
    if part == "scores":
        return any((found or {}).get(side) for side in ("before", "after"))
    if part == "steps":
        return any(_known(values) for values in (found or {}).values())
    return bool(found)


def _known(values: Any) -> bool:
    return isinstance(values, list) and any(value is not None for value in values)


def _without_warnings(evidence: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in (evidence.get("preflight") or {}).items() if k != "warnings"}


def _place(metric: Mapping[str, Any]) -> str:
    """Where the value after stands to the target."""
    target, value = metric.get("target") or {}, (metric.get("after") or {}).get("value")
    if value is None or target.get("low") is None or target.get("high") is None:
        return ""
    if value < target["low"]:
        return "below the target"
    return "above the target" if value > target["high"] else "inside the target"


def _tiles(evidence: Mapping[str, Any]) -> list[dict[str, str]]:
    """The few numbers that everyone asks for."""
    request, cost = evidence.get("request") or {}, evidence.get("cost") or {}
    metrics: Sequence[Mapping[str, Any]] = evidence.get("metrics") or ()
    tiles = [
        {
            "label": "Records forgotten" if _achieved(evidence) else "Records asked for",
            "text": number(request.get("records")),
            "note": f"{share(request.get('share'))} of the training data",
        }
    ]
    known = {metric["name"]: metric for metric in metrics}
    chosen = [known[name] for name in ("ua", "ta", "va") if name in known][:2]
    tiles += [_metric_tile(metric) for metric in chosen]
    if cost.get("unlearning_seconds") is not None:
        against = cost.get("retraining_seconds")
        note = "" if against is None else f"retraining: about {format_duration(against)}"
        tiles.append(
            {
                "label": "Time taken",
                "text": format_duration(cost["unlearning_seconds"]),
                "note": note,
            }
        )
    return tiles


def _achieved(evidence: Mapping[str, Any]) -> bool:
    return bool((evidence.get("verdict") or {}).get("status") == "achieved")


def _metric_tile(metric: Mapping[str, Any]) -> dict[str, str]:
    unit, target = metric.get("unit") or "", metric.get("target") or {}
    before, after = ((metric.get(side) or {}).get("value") for side in ("before", "after"))
    note = f"before: {number(before, unit)}"
    if target.get("value") is not None:
        note += f", target: {number(target['value'], unit)}"
    sign = f" {unit}" if unit == "%" and after is not None else ""
    return {"label": metric["label"], "text": number(after, unit) + sign, "note": note}
