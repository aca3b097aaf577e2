"""The page of a deletion request."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from expunge._durations import format_duration
from expunge.evaluation import BENIGN_STEPS
from expunge.evidence import NOT_ADVICE, REQUIREMENTS, claims_of
from expunge.report._formatting import facts, number, share
from expunge.report._page import render

if TYPE_CHECKING:
    from expunge.evidence import Check, Cost, Evidence, Interval, MetricRow, Seconds

SECTIONS = (
    ("verdict", "Verdict", ""),
    ("checks", "Checks", "checks"),
    ("metrics", "Accuracy", "metrics"),
    ("epochs", "Over the epochs", ""),
    ("exposure", "Records", "exposure"),
    ("classes", "Classes", "classes"),
    ("preflight", "Preflight", ""),
    ("earlier", "Earlier requests", "earlier"),
    ("derived", "Derived models", "derived"),
    ("cost", "Cost", "seconds"),
    ("requirements", "Requirements", ""),
    ("reproduce", "Reproduce", "commands"),
    ("record", "For the record", ""),
)
"""Id and name of each section, in the order of the page, and the evidence that it needs."""

SCRIPTS = (
    "metrics.js",
    "checks.js",
    "epochs.js",
    "classes.js",
    "cost.js",
)

VERDICT_STYLES = {
    "achieved": ("good", "✓", "Forgetting achieved", "Records forgotten"),
    "not achieved": ("bad", "✕", "Forgetting not achieved", "Records requested"),
    "inconclusive": ("open", "?", "Inconclusive", "Records unlearned"),
}
"""Style, mark and title of each verdict, and what its records are called."""


def render_request(evidence: Evidence) -> str:
    """The page of one request as HTML; parts that the evidence does not have are left out."""
    data, claims = evidence.as_json(), claims_of(evidence)
    return render(
        "request.html",
        data,
        SCRIPTS,
        evidence=data,
        look=dict(zip(("style", "mark", "title"), VERDICT_STYLES[evidence.status], strict=False)),
        discarded=evidence.discarded,
        after="Discarded" if evidence.discarded else "After",
        benign_steps=BENIGN_STEPS,
        sections=[each[:2] for each in SECTIONS if not each[2] or getattr(evidence, each[2])],
        tiles=_tiles(evidence),
        attacks=any(check.is_attack for check in evidence.checks),
        checks=_checks(evidence),
        # Warnings have a place of their own, and what is empty needs none.
        preflight=facts({k: v for k, v in data["preflight"].items() if v and k != "warnings"}),
        requirements=[
            rule._asdict() | (claims[rule.claim]._asdict() if rule.claim in claims else {})
            for rule in REQUIREMENTS
        ],
        not_advice=NOT_ADVICE,
    )


def _checks(evidence: Evidence) -> list[dict[str, Any]]:
    """The checks as rows of a table; those of single classes only if they are not inside."""
    return [
        _check(check, evidence.discarded)
        for check in evidence.checks
        if check.result != "inside" or not check.name.startswith("lost_")
    ]


def _check(check: Check, discarded: bool) -> dict[str, Any]:
    """A row: its bounds and limits, and which of them decide."""
    unit = "AUC" if check.is_attack else check.unit
    label = f"attack that {check.label}" if check.is_attack else check.label
    least = 1.0 - check.margin if check.is_attack else -check.margin
    if check.name.startswith("lost"):
        least = -math.inf
    # The limit that a bound comes nearest to, or exceeds most; only the other bound is beyond it
    # if the whole interval is.
    upper = check.high - check.margin >= least - check.low
    return {
        "label": label[:1].upper() + label[1:],
        "unit": unit,
        "moment": "discarded" if discarded and check.moment == "as delivered" else check.moment,
        "value": number(check.value, unit),
        "low": number(check.low, unit),
        "high": number(check.high, unit),
        "least": "" if math.isinf(least) else number(least, unit),
        "most": number(check.margin, unit),
        "upper": upper,
        "low_decides": (check.result == "outside") == upper,
        "result": check.result,
        "needed": check.needed,
    }


def _tiles(evidence: Evidence) -> list[dict[str, str]]:
    """The few numbers at the top that everyone asks for."""
    request = evidence.request
    tiles = [
        {
            "label": VERDICT_STYLES[evidence.status][-1],
            "text": number(request.records),
            "note": f"{share(request.share)} of the training data",
        }
    ]
    metrics = {metric.name: metric for metric in evidence.metrics}
    shown = [metrics[name] for name in ("ua", "ta", "va") if name in metrics][:2]
    tiles += [_metric_tile(metric, evidence.discarded) for metric in shown]
    attacks = [check for check in evidence.checks if check.is_attack]
    if attacks and not evidence.discarded:
        bound, margin = max(check.right_at_most for check in attacks), attacks[0].margin
        tiles.append(
            {
                "label": "Attacks are right on",
                "text": f"≤ {100 * bound:.0f} %",
                "note": f"of pairs; guessing: 50 %, margin: {100 * margin:.0f} %",
            }
        )
    if evidence.seconds is not None:
        tiles.append(_cost_tile(evidence.seconds, evidence.preflight.cost))
    return tiles


def _cost_tile(seconds: Seconds, cost: Cost) -> dict[str, str]:
    """The whole request against retraining."""
    note = f"{format_duration(seconds.processor.total)} of processor time; "
    if cost.retraining_seconds is None:
        note += "retraining: unknown, --training-epochs tells"
    else:
        note += f"retraining: about {format_duration(cost.retraining_seconds)}"
        if cost.retraining_epochs is not None:
            note += f" for {cost.retraining_epochs} epochs"
    return {"label": "Time taken", "text": format_duration(seconds.wall.total), "note": note}


def _metric_tile(metric: MetricRow, discarded: bool) -> dict[str, str]:
    """The accuracy of the delivered model, and in a note those to compare it with."""
    delivered, other = metric.after, metric.before
    if discarded:
        delivered, other = other, delivered
    notes = [f"{'of the discarded model' if discarded else 'before'}: {_value(metric, other)}"]
    if metric.target is not None and not discarded:
        notes.append(f"on unseen data alike: {_value(metric, metric.target)}")
    return {"label": metric.label, "text": _value(metric, delivered), "note": ", ".join(notes)}


def _value(metric: MetricRow, interval: Interval) -> str:
    percent = metric.unit == "%" and not math.isnan(interval.value)
    return number(interval.value, metric.unit) + (" %" if percent else "")
