"""A stage may tell its progress at every step; few of these words are worth sending."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from expunge.dispatch._engine import Progress


class Throttle:
    """A :data:`~expunge.dispatch._context.Teller` that sends once in ``pause`` seconds at most."""

    def __init__(self, send: Callable[[Progress], object], key: str, pause: float = 0.1) -> None:
        self.send = send
        self.key = key
        self.pause = pause
        self._next = 0.0
        self._guard = threading.Lock()

    def __call__(self, done: float, total: float | None, text: str) -> None:
        now = time.monotonic()
        with self._guard:
            if now >= self._next:
                self._next = now + self.pause
                self.send(Progress(self.key, done, total, text))
