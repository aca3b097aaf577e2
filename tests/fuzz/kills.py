"""Kill a command at every write, resume it, and compare with a run that nobody killed.

Every file that stays comes to its place by a rename: ``Path.replace`` or ``Path.rename``. In a
forked child these count, and at the n-th the process kills itself, before or after the rename.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

COMMANDS = ("unlearn", "forget", "bench run")


class KillAt:
    """Counts renames twice, before and after; kills this process at count ``n``, from 1."""

    def __init__(self, n: int | None) -> None:
        self.n, self.seen = n, 0
        for name in ("replace", "rename"):
            setattr(Path, name, self._counted(getattr(Path, name)))

    def _counted(self, move: Callable[..., Any]) -> Callable[..., Any]:
        def moved(path: Path, target: Any) -> Any:
            self._tick()
            result = move(path, target)
            self._tick()
            return result

        return moved

    def _tick(self) -> None:
        self.seen += 1
        if self.seen == self.n:
            os.kill(os.getpid(), signal.SIGKILL)


def in_child(work: Callable[[], None], n: int | None = None) -> tuple[int, int]:
    """Run ``work`` in a forked process: its exit status, and how many points it passed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reading)
            counter = KillAt(n)
            nowhere = io.StringIO()
            with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
                work()
            os.write(writing, str(counter.seen).encode())
            code = 0
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as file:
        seen = int(file.read() or 0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), seen


def points(count: int, sample: int | None) -> list[int]:
    """The points to kill at: all, or so many spread evenly, the first and the last included."""
    if sample is None or count <= sample:
        return list(range(1, count + 1))
    return sorted({1 + round(k * (count - 1) / (sample - 1)) for k in range(sample)})


def check_command(name: str, root: Path, sample: int | None) -> Iterator[str]:
    """What differs after a kill at each of the points, as lines; the last line counts them."""
    from tests.fuzz import killed_commands

    make: Callable[[Path, Path], Callable[[], None]] = getattr(
        killed_commands, f"make_{name.replace(' ', '_')}"
    )
    whole = root / "whole"
    work = make(root, whole)
    code, count = in_child(work)
    if code or not count:
        yield f"BAD {name}: the run that nobody kills ended with {code} after {count} points"
        return
    expected = killed_commands.outcome(whole)
    chosen = points(count, sample)
    for n in chosen:
        again = root / f"killed-{n}"
        work = make(root, again)
        code, _ = in_child(work, n)
        if code != -signal.SIGKILL:
            yield f"BAD {name} at {n} of {count}: ended with {code} instead of being killed"
            continue
        code, _ = in_child(work)
        found = killed_commands.outcome(again)
        if code:
            yield f"BAD {name} at {n} of {count}: the same command ended with {code}"
        elif found != expected:
            different = {
                k for k in expected.keys() | found.keys() if expected.get(k) != found.get(k)
            }
            yield f"BAD {name} at {n} of {count}: {sorted(different)[:5]} differ"
        shutil.rmtree(again, ignore_errors=True)
    yield f"{name}: killed at {len(chosen)} of {count} points"


def main() -> int:
    """``python -m tests.fuzz.kills [POINTS]``: all points of every command, or so many of each."""
    import torch

    from tests.fuzz import killed_commands
    from tests.fuzz.runner import folder_of_its_own

    torch.set_num_threads(1)  # no pool of threads that a fork would lose
    sample = int(sys.argv[1]) if len(sys.argv) > 1 else None
    bad = False
    with folder_of_its_own() as folder:
        killed_commands.prepare(folder)
        for name in COMMANDS:
            root = folder / name.replace(" ", "-")
            root.mkdir()
            for line in check_command(name, root, sample):
                print(line, flush=True)
                bad = bad or line.startswith("BAD")
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
