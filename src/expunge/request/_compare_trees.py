"""Compare two trees of plain values, field by field: what is stated with what was computed again.

Everything should be equal except for rounding: another processor, or another number of threads,
adds numbers in another order.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

RELATIVE, ABSOLUTE = 1e-3, 2e-4
"""By how much of itself a number with a fraction may differ, or by how much in any case."""
_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?: ?%)?")
_MISSING = object()


@dataclass(frozen=True)
class Difference:
    """A field that is not the same in both trees, by its path; None stands for a missing one."""

    path: str
    stated: Any
    found: Any

    def __str__(self) -> str:
        return f"{self.path} is {_shown(self.found)}, not {_shown(self.stated)}"


def compare_trees(
    stated: Any, found: Any, leave_out: Collection[str] = (), path: str = ""
) -> Iterator[Difference]:
    """The fields that differ; ``leave_out`` are paths.

    >>> stated = {"n": 3, "rows": [{"auc": 0.5, "when": 1}], "why": "UA is 41.3 %."}
    >>> found = {"n": 3, "rows": [{"auc": 0.50004, "when": 2}], "why": "UA is 41.4 %."}
    >>> list(compare_trees(stated, found, ["rows.0.when"]))
    []
    >>> print(*compare_trees(stated, found | {"n": 4}, ["rows"]))
    n is 4, not 3
    """
    if path in leave_out:
        return
    if isinstance(stated, Mapping) and isinstance(found, Mapping):
        for key in [*stated, *(key for key in found if key not in stated)]:
            pair = stated.get(key, _MISSING), found.get(key, _MISSING)
            yield from compare_trees(*pair, leave_out, f"{path}.{key}" if path else str(key))
    elif isinstance(stated, list) and isinstance(found, list):
        for position, pair in enumerate(zip_longest(stated, found, fillvalue=_MISSING)):
            yield from compare_trees(*pair, leave_out, f"{path}.{position}")
    elif not _same(stated, found):
        yield Difference(path, *(None if value is _MISSING else value for value in (stated, found)))


def _same(stated: Any, found: Any) -> bool:
    if isinstance(stated, str) and isinstance(found, str):
        return stated == found or _same_text(stated, found)
    if isinstance(stated, bool) or isinstance(found, bool) or _MISSING in (stated, found):
        return stated is found
    if isinstance(stated, float) or isinstance(found, float):
        if not (isinstance(stated, int | float) and isinstance(found, int | float)):
            return False
        if math.isnan(stated) and math.isnan(found):
            return True
        return math.isclose(stated, found, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    return type(stated) is type(found) and bool(stated == found)


def _same_text(stated: str, found: str) -> bool:
    """Whether two texts are the same but for the last digit of fractions and percentages."""
    if _NUMBER.split(stated) != _NUMBER.split(found):
        return False
    return all(map(_close, _NUMBER.findall(stated), _NUMBER.findall(found)))


def _close(stated: str, found: str) -> bool:
    """Whether two numbers in a text are the same, but for rounding.

    >>> _close("41.3 %", "41.4 %"), _close("0.50", "0.52"), _close("3", "4"), _close("3 %", "4 %")
    (True, False, False, True)
    """
    if stated == found:
        return True
    digits = [len(text.rstrip(" %").partition(".")[2]) for text in (stated, found)]
    if digits[0] != digits[1] or stated.endswith("%") != found.endswith("%"):
        return False
    if not digits[0] and not stated.endswith("%"):
        return False
    values = [float(text.rstrip(" %").replace(",", "")) for text in (stated, found)]
    return abs(values[0] - values[1]) < 1.5 * 0.1 ** digits[0]


def _shown(value: Any) -> str:
    text = "missing" if value is None else repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"
