"""Interrupt a command at every write, resume it, and compare with a run that nobody disturbed.

Every file that stays comes to its place by a rename: ``Path.replace`` or ``Path.rename``. In a
forked child these count, and at the n-th the process kills itself, before or after the rename; or
the rename fails, as on a full disk.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args

from expunge._errors import ExpungeError
from tests.fuzz.counts import KILLS, Counts, write_counts

COMMANDS = ("unlearn", "forget", "bench run", "audit --shadows")
How = Literal["killed", "disk full"]
REFUSED = 3
"""Exit code of a child that ended with an error of this package."""


class InterruptAt:
    """Counts renames twice, before and after; interrupts this process at count ``n``, from 1."""

    def __init__(self, n: int | None, how: How) -> None:
        self.n, self.how, self.seen = n, how, 0
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
        if self.seen == self.n and self.how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.seen == self.n:
            raise OSError(errno.ENOSPC, "No space left on device")


def in_child(
    work: Callable[[], None], n: int | None = None, how: How = "killed"
) -> tuple[int, int]:
    """Run ``work`` in a forked process: its exit status, and how many points it passed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reading)
            counter = InterruptAt(n, how)
            nowhere = io.StringIO()
            with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
                work()
            os.write(writing, str(counter.seen).encode())
            code = 0
        except ExpungeError:
            code = REFUSED
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


def check_command(name: str, root: Path, sample: int | None, how: How) -> tuple[Counts, list[str]]:
    """Interrupt a command at each of the points: how many there were, and what went wrong."""
    from tests.fuzz import killed_commands

    make: Callable[[Path, Path], Callable[[], None]] = getattr(
        killed_commands, f"make_{name.replace(' ', '_').replace('--', '')}"
    )
    whole = root / "whole"
    work = make(root, whole)
    code, count = in_child(work)
    if code or not count:
        return Counts(f"{name}, {how}", 1, 1), [f"undisturbed, it ends with {code} after {count}"]
    expected = killed_commands.outcome(whole)
    # On a full disk, a rename fails before it takes place: at the odd counts.
    chosen = [n for n in points(count, sample) if how == "killed" or n % 2]
    wrong = []
    for n in chosen:
        again = root / f"{how} {n}"
        work = make(root, again)
        code, _ = in_child(work, n, how)
        if code not in ((-signal.SIGKILL,) if how == "killed" else (0, REFUSED)):
            wrong.append(f"at {n} of {count}: ends with {code}")
            continue
        code, _ = in_child(work)
        found = killed_commands.outcome(again)
        if code:
            wrong.append(f"at {n} of {count}: the same command ends with {code}")
        elif found != expected:
            different = {
                k for k in expected.keys() | found.keys() if expected.get(k) != found.get(k)
            }
            wrong.append(f"at {n} of {count}: {sorted(different)[:5]} differ")
        shutil.rmtree(again, ignore_errors=True)
    return Counts(f"{name}, {how}", len(chosen), len(wrong)), wrong


def main() -> int:
    """``python -m tests.fuzz.kills [POINTS]``: all points of every command, or so many of each.

    Commands in several processes are slower: of these, half as many points, or four.
    """
    import torch

    from tests.fuzz import killed_commands
    from tests.fuzz.crowd import check_crowd
    from tests.fuzz.process_kills import check_processes
    from tests.fuzz.runner import folder_of_its_own

    torch.set_num_threads(1)  # no pool of threads that a fork would lose
    sample = int(sys.argv[1]) if len(sys.argv) > 1 else None
    rows: list[Counts] = []
    with folder_of_its_own() as folder:
        killed_commands.prepare(folder)

        def check_all() -> Iterator[tuple[Counts, list[str]]]:
            for name in COMMANDS:
                for how in get_args(How):
                    root = folder / f"{name} {how}"
                    root.mkdir()
                    yield check_command(name, root, sample, how)
            yield check_crowd(folder / f"{COMMANDS[1]} killed", 4 if sample is None else 1)
            yield from check_processes(folder, 4 if sample is None else sample // 2)

        for counts, wrong in check_all():
            for line in (*(f"BAD {line}" for line in wrong), counts):
                print(line, flush=True)
            rows.append(counts)
    if sample is None:
        write_counts(rows, KILLS)
    return int(any(row.bad for row in rows))


if __name__ == "__main__":
    sys.exit(main())
