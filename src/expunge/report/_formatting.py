"""Numbers, names and nested values in readable form.

``js/common.js`` writes numbers in the same way.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup, escape

from expunge._durations import format_duration

DECIMALS = {"%": 1, "points": 1, "s": 1, "AUC": 2}
LABELS = {
    "fit": "Fit of model and data",
    "fits": "The model fits the data",
    "ids": "What was requested",
    "asked": "Ids requested",
    "records": "Training records they stand for",
    "share": "Share of the training data",
    "train": "Training data",
    "val": "Validation data",
    "test": "Test data",
    "forget": "Data to forget",
    "duplicates": "Duplicates of the records to forget",
    "exact": "With the same bytes",
    "hardness": "How well the model knows the data to forget",
    "training_step": "Training step, per example",
    "epoch_seconds": "Epoch of the request",
    "unlearning_seconds": "Its epochs in all",
    "request_seconds": "The whole request",
    "retraining_epoch_seconds": "Epoch of retraining",
    "retraining_seconds": "Retraining",
    "retraining_processor_seconds": "Retraining, in processor time",
    "accuracy": "Accuracy, %",
    "chance": "Accuracy of guessing, %",
    "twice": "Ids listed more than once",
    "skipped": "Ids without a training record, left out",
    "unmapped": "Training records that belong to no id",
    "left_out": "Records of these ids in validation and test data, left out",
    "earlier": "Forgotten by earlier requests",
    "in_retain": "In the retained data",
    "auc": "How often a record to forget gets more confidence than a validation record",
    "lr": "Learning rate",
    "classes": "By class",
    "val_fraction": "Share held out",
}
SENTENCE = "sentence"
"""The key of a sentence, which comes first and needs no label."""
MAX_ITEMS = 20
"""Items of a list that are shown; the rest is counted."""


def number(value: Any, unit: str = "") -> str:
    """Format a number with the decimals of its unit; a dash if it is missing or undefined.

    >>> number(87.126, "%"), number(0.5), number(42), number(None)
    ('87.1', '0.500', '42', '–')
    """
    if not isinstance(value, (int, float)):
        return str(value or "–")
    if value != value:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    small = unit not in DECIMALS and value != 0 and abs(value) < 0.001
    text = f"{value:.3g}" if small else f"{value:,.{DECIMALS.get(unit, 3)}f}"
    return text.replace("-", "−")


def share(value: float) -> str:
    """Format a fraction as a percentage: ``share(0.035)`` is ``3.5 %``."""
    return f"{100 * value:.1f} %"


def date_and_time(text: Any) -> str:
    """Format an ISO 8601 time for reading; anything else stays as it is."""
    try:
        when = datetime.datetime.fromisoformat(str(text))
    except ValueError:
        return str(text or "")
    zone = " UTC" if when.utcoffset() == datetime.timedelta(0) else ""
    return f"{when.day} {when:%B %Y, %H:%M}{zone}"


def prose(text: Any) -> Markup:
    """A sentence as HTML: numbers stay on one line with their percent sign, commands are code.

    >>> prose("87 % of <5>: see `expunge audit`")
    Markup('87\\xa0% of &lt;5&gt;: see <code>expunge audit</code>')
    """
    html = re.sub(r"(?<=\d) %", "\N{NO-BREAK SPACE}%", escape(str(text)))
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", html))


def label(name: str) -> str:
    """A readable label for a key of the evidence.

    >>> label("step_seconds"), label("val")
    ('Step seconds', 'Validation data')
    """
    text = name.replace("_", " ").replace("-", " ").strip()
    return LABELS.get(name, text[:1].upper() + text[1:])


def facts(value: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Lay out nested values of any shape, so that the page need not know their names.

    Returns one entry per item: its ``label``, and ``text``, ``list``, ``pairs``, ``table`` or
    ``facts``, by the shape of the value.

    >>> facts({"train": {"value": 99.0, "low": 98.0, "high": 100.0}})[0]["text"]
    '99.0 (98.0 to 100.0)'
    """
    items = sorted((value or {}).items(), key=lambda item: item[0] != SENTENCE)
    return [{"label": "" if k == SENTENCE else label(k), **_shape(k, v)} for k, v in items]


def _shape(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        if _is_estimate(value):
            return {"text": _estimate(value)}
        if value and all(isinstance(v, (int, float)) for v in value.values()):
            return {"pairs": [(LABELS.get(k, k), _scalar(name, v)) for k, v in value.items()]}
        return {"facts": facts(value)} if value else {"text": "none"}
    if not isinstance(value, (list, tuple)):
        return {"text": _scalar(name, value)}
    if not value:
        return {"text": "none"}
    shown, rest = value[:MAX_ITEMS], max(0, len(value) - MAX_ITEMS)
    if not all(isinstance(v, Mapping) for v in value):
        return {"list": [_scalar("", v) for v in shown], "rest": rest}
    names = list(dict.fromkeys(str(k) for v in shown for k in v))
    rows = [[_cell(n, v.get(n)) for n in names] for v in shown]
    return {"table": {"head": [label(n) for n in names], "rows": rows}, "rest": rest}


def _is_estimate(value: Mapping[str, Any]) -> bool:
    return value.keys() == {"value", "low", "high"}


def _estimate(value: Mapping[str, Any]) -> str:
    middle, low, high = value["value"], value["low"], value["high"]
    unit = "%" if isinstance(middle, int | float) and abs(middle) > 1 else ""
    text = number(middle, unit)
    return text if low is None else f"{text} ({number(low, unit)} to {number(high, unit)})"


def _cell(name: str, value: Any) -> str:
    """Format a table cell; integers are indices into the data and have no commas."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if whole else _scalar(name, value)


def _scalar(name: str, value: Any) -> str:
    if isinstance(value, Mapping):
        if _is_estimate(value):
            return _estimate(value)
        return ", ".join(f"{k} {v}" for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(_scalar("", v) for v in value)
    if isinstance(value, float) and name.endswith(("seconds", "step")):
        return format_duration(value) if value >= 0.1 else f"{1000 * value:.3g} ms"
    if isinstance(value, float) and name.endswith("share"):
        return share(value)
    if isinstance(value, float):
        return f"{value:.4g}".replace("-", "−")
    return "–" if value is None else number(value)
