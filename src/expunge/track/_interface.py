"""What a tracker can do, and the tag that says which run is which."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Literal, Protocol

Value = str | int | float | bool | None
Status = Literal["finished", "failed"]

KEY = "expunge.key"


class Tracker(Protocol):
    """One run at a time: ``start``, any number of ``log``, ``finish``.

    The tag ``expunge.key`` says which run this is; without it, the name does. To log a run again is
    harmless: a tracker shows each run once, and each value of a step once. Values that are not
    finite numbers are left out.
    """

    def start(self, name: str, params: Mapping[str, Value], tags: Mapping[str, str]) -> None:
        """Open the run, new or known."""

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Write the values of one step that are not there yet."""

    def finish(self, status: Status) -> None:
        """Write out what is left, and close the run."""


def key_of(content: Any) -> str:
    """A short name for plain values: equal values, equal key."""
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
