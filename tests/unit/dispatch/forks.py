"""Run a function in a child that may be killed, and get its answer if it lives."""

from __future__ import annotations

import os
import pickle
import signal
import time
import traceback
from collections.abc import Callable
from typing import Any


class Fork:
    """A forked child; cheap, as it imports nothing."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.end, theirs = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:  # whatever happens, the child does not go on with the tests
                os.write(theirs, _answer(function))
            finally:
                os._exit(0)
        os.close(theirs)

    def kill_after(self, seconds: float) -> bool:
        """Kill the child then; True if it was still alive."""
        time.sleep(seconds)
        os.kill(self.pid, signal.SIGKILL)
        return self.wait() == -signal.SIGKILL

    def wait(self) -> int:
        os.close(self.end)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def answer(self) -> Any:
        """What the function returned, or the text of its traceback."""
        with os.fdopen(os.dup(self.end), "rb") as file:
            data = file.read()
        self.wait()
        return pickle.loads(data)


def _answer(function: Callable[[], Any]) -> bytes:
    # A shell starts what runs in its background deaf to SIGINT; tests send it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return pickle.dumps(function())
    except BaseException:
        return pickle.dumps(traceback.format_exc())
