"""Durations as people read them."""

from __future__ import annotations

UNITS = (
    (120, 1, "s"),
    (7_200, 60, "min"),
    (172_800, 3_600, "h"),
    (63_072_000, 86_400, "days"),
)
"""For durations below this many seconds: the unit's length in seconds, and its name."""


def format_duration(seconds: object) -> str:
    """A duration in the unit that suits its size; a dash for what is not a number."""
    if not isinstance(seconds, (int, float)):
        return "–"
    for limit, length, unit in UNITS:
        if seconds < limit:
            value = seconds / length
            return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"
    return f"{seconds / 31_536_000:.0f} years"
