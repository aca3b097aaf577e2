"""``python -m tests.fuzz.killed_process WORDS``: a command line that kills itself at a write.

``KILL_AT`` is a count of renames over all of its processes, which share it in ``KILL_COUNT``, a
file; ``KILL_WHOM`` is ``all`` of them, the ``parent`` alone, or the ``writer``, mostly a worker.
Workers import this module, too, as that of the main program.
"""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any


def _count() -> int:
    with Path(os.environ["KILL_COUNT"]).open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        count = int(file.read() or 0) + 1
        file.seek(0)
        file.write(str(count))
    return count


def _counted(move: Callable[..., Any]) -> Callable[..., Any]:
    def tick() -> None:
        if _count() != int(os.environ["KILL_AT"]):
            return
        whom = os.environ["KILL_WHOM"]
        if whom == "all":
            os.killpg(0, signal.SIGKILL)
        os.kill(os.getpgrp() if whom == "parent" else os.getpid(), signal.SIGKILL)

    def moved(path: Path, target: Any) -> Any:
        tick()
        result = move(path, target)
        tick()
        return result

    return moved


for _name in ("replace", "rename") if "KILL_COUNT" in os.environ else ():
    setattr(Path, _name, _counted(getattr(Path, _name)))


if __name__ == "__main__":
    import expunge.audit._report
    import expunge.bench.plots._style
    from expunge.cli import main

    # Matplotlib takes longer than the rest.
    for module in (expunge.audit._report, expunge.bench.plots._style):
        module.save_figure = lambda *_: None  # type: ignore[attr-defined]
    main()
