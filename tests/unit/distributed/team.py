"""Processes in a gloo group that stay, so that many tests share the price of starting them."""

from __future__ import annotations

import multiprocessing
import tempfile
import traceback
import warnings
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

PATIENCE = 280.0


class Team:
    """Call a function in all processes of one group, and get their answers."""

    def __init__(self, size: int = 2) -> None:
        context = multiprocessing.get_context("spawn")
        self._folder = tempfile.TemporaryDirectory()
        meeting = Path(self._folder.name) / "meeting"
        self._ends: list[Connection] = []
        self._processes = []
        for rank in range(size):
            ours, theirs = context.Pipe()
            given = (rank, size, str(meeting), theirs)
            process = context.Process(target=_serve, args=given, daemon=True)
            process.start()
            theirs.close()
            self._ends.append(ours)
            self._processes.append(process)

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """What ``function(*arguments)`` returned in process 0, 1, …; raises if any did."""
        for end in self._ends:
            end.send((function, arguments))
        answers = [self._answer(end) for end in self._ends]
        failed = [text for ok, text in answers if not ok]
        assert not failed, "\n".join(failed)
        return [answer for _, answer in answers]

    def _answer(self, end: Connection) -> tuple[bool, Any]:
        if not end.poll(PATIENCE):
            self.close()
            raise AssertionError("The processes wait for each other.")
        answer: tuple[bool, Any] = end.recv()
        return answer

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.join()
        self._folder.cleanup()


def _serve(rank: int, size: int, meeting: str, end: Connection) -> None:
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{meeting}",
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=250),
    )
    while True:
        try:
            function, arguments = end.recv()
        except EOFError:
            return
        try:
            answer = (True, function(*arguments))
        except BaseException:
            answer = (False, traceback.format_exc())
        end.send(answer)
