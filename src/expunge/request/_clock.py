"""How long each part of a request took."""

from __future__ import annotations

import time


class Clock:
    """Wall time by part; what was spent before a kill is not counted."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._parts: dict[str, float] = {}
        self._name, self._since = "", 0.0

    def __call__(self, name: str) -> Clock:
        """Time the block that follows, under ``name``."""
        self._name = name
        return self

    def __enter__(self) -> None:
        self._since = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._parts[self._name] = round(time.perf_counter() - self._since, 3)

    def seconds(self) -> dict[str, float]:
        """Seconds by part, and in all."""
        return self._parts | {"total": round(time.perf_counter() - self._began, 3)}
