"""How long a run took, its callbacks and checkpoints apart."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """Seconds by the clock, and of the processor, while it runs.

    >>> watch = Stopwatch()
    >>> watch.start()
    >>> with watch.paused():
    ...     before = watch.seconds
    ...     time.sleep(0.01)
    ...     watch.stop()  # it stands still: nothing to count
    ...     watch.seconds == before
    True
    """

    def __init__(self) -> None:
        self.seconds = self.processor_seconds = 0.0
        self._since: tuple[float, float] | None = None

    def start(self) -> None:
        """Count from now on."""
        self._since = time.perf_counter(), time.process_time()

    def stop(self) -> None:
        """Count up to here; nothing where it stands still."""
        if self._since is not None:
            self.seconds += time.perf_counter() - self._since[0]
            self.processor_seconds += time.process_time() - self._since[1]
            self._since = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """What happens inside is not counted."""
        self.stop()
        try:
            yield
        finally:
            self.start()
