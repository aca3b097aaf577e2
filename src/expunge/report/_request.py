"""The page of a deletion request."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from expunge._durations import format_duration
from expunge.report._formatting import facts, number, share
from expunge.report._page import render

if TYPE_CHECKING:
    from expunge.request.evidence._schema import Evidence
    from expunge.request.evidence._sections import MetricRow, SplitScores
    from expunge.request.evidence._times_and_cost import CostComparison

SECTIONS = (
    ("verdict", "Verdict"),
    ("metrics", "Before, after, target"),
    ("epochs", "Over the epochs"),
    ("scores", "Threshold"),
    ("attacks", "Attacks"),
    ("examples", "Records"),
    ("classes", "Classes"),
    ("steps", "Steps"),
    ("preflight", "Preflight"),
    ("earlier", "Earlier requests"),
    ("cost", "Cost"),
    ("limits", "Limits"),
    ("reproduce", "Reproduce"),
    ("record", "For the record"),
)
"""Id and name of each section, in the order of the page."""

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
    (
        "agreement",
        ("agreement",),
        "Agreement",
        "mean probability that both gradients have the same sign",
    ),
    ("moved", ("moved",), "Parameters moved", "share of parameters with a weight above zero"),
    (
        "alignment",
        ("objective_alignment", "constraint_alignment"),
        "Alignment of the step",
        "with both gradients; feasible when neither is above 0",
    ),
)


LOOKS = {
    "achieved": ("good", "✓", "Forgetting achieved"),
    "not achieved": ("bad", "✕", "Forgetting not achieved"),
    "cannot be told": ("open", "?", "Whether it was forgotten cannot be told"),
}
"""Style, mark and title of each verdict."""
RECORDS = {
    "achieved": "Records forgotten",
    "not achieved": "Records requested",
    "cannot be told": "Records unlearned",
}


def render_request(evidence: Evidence, examples: Sequence[Mapping[str, Any]] = ()) -> str:
    """The page of one request as HTML; parts that the evidence does not have are left out.

    ``examples`` are the forgotten records one by one, with their images, if they are to be shown.
    """
    data = evidence.as_json() | {"examples": list(examples)}
    return render(
        "request.html",
        data,
        SCRIPTS,
        evidence=data,
        look=dict(zip(("style", "mark", "title"), LOOKS[evidence.status], strict=True)),
        sections=[
            (id, name)
            for id, name in SECTIONS
            if _has(evidence, id) or (id == "examples" and examples)
        ],
        tiles=_tiles(evidence),
        places=[_place(metric) for metric in evidence.metrics],
        preflight=_preflight(data),
        step_charts=[
            (id, name, about)
            for id, columns, name, about in STEP_CHARTS
            if any(_has_values(evidence.steps.get(column, [])) for column in columns)
        ],
    )


def _has(evidence: Evidence, section: str) -> bool:
    """Whether there is something to show in a section."""
    scores = evidence.scores
    needs = {
        "metrics": evidence.metrics,
        "scores": scores is not None and any(map(_has_scores, (scores.before, scores.after))),
        "attacks": evidence.attacks,
        "examples": evidence.exposure,
        "classes": evidence.classes,
        "steps": any(map(_has_values, evidence.steps.values())),
        "preflight": evidence.preflight.model_fields_set,
        "earlier": evidence.earlier,
        "cost": evidence.cost,
        "limits": evidence.limits,
        "reproduce": evidence.commands,
    }
    return bool(needs.get(section, True))


def _has_scores(scores: SplitScores) -> bool:
    return bool(scores.forget or scores.val or scores.retain)


def _has_values(column: Sequence[float | None]) -> bool:
    return any(value is not None for value in column)


def _preflight(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The findings laid out; warnings have a place of their own."""
    findings = data.get("preflight", {}).items()
    return facts({name: value for name, value in findings if name != "warnings"})


def _place(metric: MetricRow) -> str:
    """Where the value after lies relative to the target."""
    value, target = metric.after.value, metric.target
    if target is None or any(map(math.isnan, (value, target.low, target.high))):
        return ""
    return f"{target.locate(value)} the target"


def _tiles(evidence: Evidence) -> list[dict[str, str]]:
    """The few numbers at the top that everyone asks for."""
    request, cost = evidence.request, evidence.cost
    tiles = [
        {
            "label": RECORDS[evidence.status],
            "text": number(request.records),
            "note": f"{share(request.share)} of the training data",
        }
    ]
    metrics = {metric.name: metric for metric in evidence.metrics}
    shown = [metrics[name] for name in ("ua", "ta", "va") if name in metrics][:2]
    tiles += [_metric_tile(metric) for metric in shown]
    if cost is not None:
        tiles.append(_cost_tile(cost))
    return tiles


def _cost_tile(cost: CostComparison) -> dict[str, str]:
    """The whole request against retraining."""
    taken, note = cost.unlearning_seconds, ""
    if cost.request_seconds is not None:
        taken = cost.request_seconds
    if cost.request_processor_seconds is not None:
        note = f"{format_duration(cost.request_processor_seconds)} of processor time; "
    if cost.retraining_seconds is None:
        note += "retraining: unknown, --training-epochs tells"
    else:
        note += f"retraining: about {format_duration(cost.retraining_seconds)}"
        if cost.retraining_epochs is not None:
            note += f" for {cost.retraining_epochs} epochs"
    return {"label": "Time taken", "text": format_duration(taken), "note": note}


def _metric_tile(metric: MetricRow) -> dict[str, str]:
    note = f"before: {number(metric.before.value, metric.unit)}"
    if metric.target is not None:
        note += f", target: {number(metric.target.value, metric.unit)}"
    percent = metric.unit == "%" and not math.isnan(metric.after.value)
    text = number(metric.after.value, metric.unit) + (" %" if percent else "")
    return {"label": metric.label, "text": text, "note": note}
