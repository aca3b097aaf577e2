"""Values inside a page: as JSON that no browser can take for markup."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from markupsafe import Markup

ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}
"""In JSON these letters stand in strings alone, where an escape means the same."""


def embed(value: Any) -> Markup:
    """``value`` as JSON for a ``<script type="application/json">``.

    >>> embed({"id": "</script>"})
    Markup('{"id":"\\\\u003c/script\\\\u003e"}')
    """
    text = json.dumps(plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(_without_surrogates(text).translate(ESCAPES))


def plain(value: Any) -> Any:
    """``value`` in the types of JSON; numbers that it does not have become null."""
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, PurePath):
        return str(value)
    return value


def _without_surrogates(text: str) -> str:
    """Half letters, as in file names that are no UTF-8, cannot be written to a file."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
