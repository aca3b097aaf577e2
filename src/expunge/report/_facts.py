"""Findings of any shape, laid out for reading: the page need not know every name in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from expunge._durations import format_duration
from expunge.report._words import label, number, share

SENTENCES = ("sentence", "words")
"""Names of what is said in a sentence: it comes first and needs no label."""
COPY = ["Forgotten record", "Copy in", "At", "Similarity"]
MOST = 20
"""Items of a list that are shown; the rest is counted."""


def facts(value: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """One entry an item: label, and ``text``, ``list``, ``pairs``, ``table`` or ``facts``.

    >>> facts({"train": {"value": 99.0, "low": 98.0, "high": 100.0}})[0]["text"]
    '99.0 (98.0 to 100.0)'
    """
    items = sorted((value or {}).items(), key=lambda item: item[0] not in SENTENCES)
    return [{"label": "" if k in SENTENCES else label(k), **_shape(k, v)} for k, v in items]


def _shape(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        if "value" in value and "low" in value:
            return {"text": _estimate(value)}
        if value and all(isinstance(v, (int, float)) for v in value.values()):
            return {"pairs": [(str(k), _scalar(name, v)) for k, v in value.items()]}
        return {"facts": facts(value)} if value else {"text": "none"}
    if isinstance(value, (list, tuple)):
        return _many(name, value)
    return {"text": _scalar(name, value)}


def _many(name: str, values: list[Any] | tuple[Any, ...]) -> dict[str, Any]:
    if not values:
        return {"text": "none"}
    shown, rest = values[:MOST], max(0, len(values) - MOST)
    if all(isinstance(v, Mapping) for v in values):
        names = list(dict.fromkeys(str(k) for v in shown for k in v))
        rows = [[_cell(n, v.get(n)) for n in names] for v in shown]
        return {"table": {"head": [label(n) for n in names], "rows": rows}, "rest": rest}
    if all(isinstance(v, (list, tuple)) for v in values):
        head = COPY if name in ("exact", "near") else []
        rows = [[_cell("", c) for c in v] for v in shown]
        return {"table": {"head": head, "rows": rows}, "rest": rest}
    return {"list": [_scalar("", v) for v in shown], "rest": rest}


def _estimate(value: Mapping[str, Any]) -> str:
    unit = str(value.get("unit", "%" if abs(value.get("value") or 0) > 1 else ""))
    low, high = value.get("low"), value.get("high")
    text = number(value.get("value"), unit)
    return text if low is None else f"{text} ({number(low, unit)} to {number(high, unit)})"


def _cell(name: str, value: Any) -> str:
    """As elsewhere, but whole numbers, which are places in the data, without commas."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if whole else _scalar(name, value)


def _scalar(name: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return (
            _estimate(value)
            if "value" in value
            else ", ".join(f"{k} {v}" for k, v in value.items())
        )
    if isinstance(value, (list, tuple)):
        return ", ".join(_scalar("", v) for v in value)
    if isinstance(value, float) and name.endswith("seconds"):
        return format_duration(value) if value >= 0.1 else f"{1000 * value:.3g} ms"
    if isinstance(value, float) and name.endswith("share"):
        return share(value)
    if isinstance(value, float):
        return f"{value:.4g}".replace("-", "−")
    return "–" if value is None else number(value)
