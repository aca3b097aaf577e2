"""Where in a TOML text a key stands, for messages."""

from __future__ import annotations

import re
from collections.abc import Sequence

_TABLE = re.compile(r"^\s*\[(\[)?\s*([\w.\-\"' ]+?)\s*\]?\]")
_KEY = re.compile(r"^\s*([\w\-\"']+(?:\s*\.\s*[\w\-\"']+)*)\s*=")


def line_of(text: str, path: Sequence[str | int]) -> int:
    """The line, from 1, of the deepest part of ``path`` that is written down; 1 if none is."""
    return find_line(text, path)[0]


def find_line(text: str, path: Sequence[str | int]) -> tuple[int, int]:
    """The line of the deepest part of ``path`` that is written down, and how deep that is.

    A number in the path counts the tables of an array such as ``[[block]]``.

    >>> find_line("a = 1\\n[[b]]\\nc = 2\\n[[b]]\\nc = 3\\n", ["b", 1, "c"])
    (5, 3)
    """
    wanted = [str(part) for part in path]
    best, depth = 1, 0
    table: list[str] = []
    counts: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        header, key = _TABLE.match(line), _KEY.match(line)
        if header:
            table = _opened(header.group(2), array=bool(header.group(1)), counts=counts)
            found = table
        elif key:
            found = table + [part.strip().strip("\"'") for part in key.group(1).split(".")]
        else:
            continue
        if wanted[: len(found)] == found and len(found) > depth:
            best, depth = number, len(found)
    return best, depth


def _opened(name: str, *, array: bool, counts: dict[str, int]) -> list[str]:
    parts = [part.strip().strip("\"'") for part in name.split(".")]
    if array:
        counts[name] = counts.get(name, -1) + 1
        return [*parts, str(counts[name])]
    first = parts[0]
    return [first, str(counts[first]), *parts[1:]] if first in counts else parts
