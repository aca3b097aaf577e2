"""The letter to the person who asked: what was done and measured, in words for everybody.

``templates/letter.md`` has the words. They address somebody where ids are people (``id_column``) or
a request was received; otherwise nobody has asked.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from expunge._durations import format_duration
from expunge.report._formatting import date_and_time
from expunge.report._page import templates

if TYPE_CHECKING:
    from expunge.evidence import Check, CheckResult, Evidence

KINDS = {"# ": "title", "## ": "heading", "- ": "point"}
"""What a block of the letter is, by how it starts; the rest are paragraphs."""
UNITS = {"s": "seconds", "min": "minutes", "h": "hours"}


def render_letter(
    evidence: Evidence, fingerprint: str, form: str = "html", *, person: str = "", records: int = 0
) -> str:
    """The letter as ``html`` or ``md``; ``fingerprint`` is the hash of ``evidence.json``.

    One to a ``person`` states the number of their ``records``.
    """
    values = _values(evidence, fingerprint) | {"person": person, "own": records}
    text = templates().get_template("letter.md").render(values)
    # Blocks are separated by blank lines; how lines are wrapped in the template does not matter.
    blocks = [" ".join(block.split()) for block in re.split(r"\n\s*\n", text)]
    parts = [(kind, list(group)) for kind, group in groupby(filter(None, blocks), key=_kind_of)]
    if form == "md":
        return (
            "\n\n".join(("\n" if kind == "point" else "\n\n").join(group) for kind, group in parts)
            + "\n"
        )
    shown = [(k, [re.sub(r"^(#+|-) |\*\*", "", block) for block in group]) for k, group in parts]
    return templates().get_template("letter.html").render(parts=shown)


def _kind_of(block: str) -> str:
    if block.startswith("**"):
        return "summary"
    return next((kind for mark, kind in KINDS.items() if block.startswith(mark)), "paragraph")


def _values(evidence: Evidence, fingerprint: str) -> dict[str, object]:
    """What the words of the letter depend on."""
    config, request = evidence.config, evidence.request
    metrics = {metric.name: metric for metric in evidence.metrics}
    method = "exact" if config.get("exact") else str(config.get("method", ""))
    return {
        "evidence": evidence,
        "request": request,
        "status": evidence.status,
        "date": date_and_time(request.when).partition(",")[0],
        "fingerprint": fingerprint,
        "people": bool(config.get("id_column")) and request.ids > 1,
        "asked": bool(config.get("id_column") or request.received),
        "day": lambda text: date_and_time(text).partition(",")[0],
        "changed": bool(evidence.stopped.epoch),
        "method": "refresh" if method.startswith("refresh") else method,
        "kept_copies": evidence.preflight.duplicates.in_retain,
        "ua": metrics.get("ua"),
        "ta": metrics.get("ta"),
        "attacks": [check for check in evidence.checks if check.is_attack],
        "checks": partial(_checks, evidence),
        "taken": None if evidence.seconds is None else evidence.seconds.wall.total,
        "retraining": evidence.preflight.cost.retraining_seconds,
        "records": _records,
        "share": _share,
        "percent": lambda interval: f"{interval.value:.0f} %",
        "of_100": _of_100,
        "at_most": lambda checks: _of_100(max(check.right_at_most for check in checks)),
        "at_least": _at_least,
        "too_few": _too_few,
        "duration": _duration,
        "times": lambda ratio: f"{ratio:.1f} times" if ratio < 10 else f"{ratio:,.0f} times",
    }


def _checks(evidence: Evidence, name: str, result: CheckResult) -> list[Check]:
    """The checks with this ``result`` whose names start with ``name``."""
    return [c for c in evidence.checks if c.result == result and c.name.startswith(name)]


def _too_few(checks: Sequence[Check]) -> str:
    records, needed = checks[0].records, [check.needed or 0 for check in checks]
    text = f"{_records(records)} {'is' if records == 1 else 'are'} too few to measure that."
    return f"{text} About {max(needed):,} would be enough." if all(needed) else text


def _of_100(share: float) -> int:
    """A share of pairs as a number of 100, rounded up."""
    return math.ceil(round(100 * share, 6))


def _at_least(checks: Sequence[Check]) -> int:
    """Lower bound on the pairs, of 100, that an attack or its reverse gets right."""
    least = max(max(check.low, 1.0 - check.high) for check in checks)
    return math.floor(round(100 * least, 6))


def _share(fraction: float) -> str:
    """A share in percent, in as many digits as mean something.

    >>> _share(0.1), _share(0.00123), _share(0.000001)
    ('10 %', '0.12 %', 'less than 0.01 %')
    """
    return "less than 0.01 %" if fraction < 1e-4 else f"{100 * fraction:.2g} %"


def _records(count: int) -> str:
    return "one record" if count == 1 else f"{count:,} records"


def _duration(seconds: float) -> str:
    """A duration in words, in the unit that suits its size.

    >>> _duration(75), _duration(7300), _duration(200_000)
    ('75 seconds', '2.0 hours', '2.3 days')
    """
    value, _, unit = format_duration(seconds).partition(" ")
    return f"{value} {UNITS.get(unit, unit)}"
