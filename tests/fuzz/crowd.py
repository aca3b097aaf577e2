"""Several requests at once in one folder: one is at work, the others are told to wait."""

from __future__ import annotations

import os
from pathlib import Path

from expunge.ledger._ledger import Ledger
from expunge.request import verify
from tests.fuzz.counts import Counts
from tests.fuzz.killed_commands import make_forget
from tests.fuzz.kills import REFUSED, in_child

CROWD = 4


def check_crowd(root: Path, rounds: int) -> tuple[Counts, list[str]]:
    """Start four requests at the same moment, those that were refused again, until all are done."""
    wrong = []
    for number in range(rounds):
        place = root / f"crowd {number}"
        waiting, codes = list(range(CROWD)), []
        while waiting and len(codes) <= CROWD:
            codes.append(_start_together(root, place, waiting))
            waiting = [k for k, code in zip(waiting, codes[-1], strict=True) if code]
        if any(0 not in each or {*each} - {0, REFUSED} for each in codes):
            wrong.append(f"round {number}: the exit codes are {codes}")
        elif len(Ledger.read(place).entries) != CROWD or not all(e.ok for e in verify(place)):
            wrong.append(f"round {number}: the ledger does not hold")
    return Counts(f"forget, {CROWD} at once in a folder", rounds, len(wrong)), wrong


def _start_together(root: Path, place: Path, requests: list[int]) -> list[int]:
    """The exit codes of requests that wait for each other before they start."""
    reading, writing = os.pipe()
    children = []
    for k in requests:
        child = os.fork()
        if child == 0:
            os.close(writing)
            os.read(reading, 1)  # ends when the parent closes the pipe
            os._exit(in_child(make_forget(root, place, range(k, 48, 8)))[0])
        children.append(child)
    os.close(reading)
    os.close(writing)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
