"""Processes in a gloo group that stay, so that many tests share the price of starting them."""

from __future__ import annotations

import multiprocessing
import os
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

PRELOADED = [
    "tests.team_runs",
    "expunge.engine._run",
    "expunge.methods._scrub",
    "torch._dynamo",
]
PATIENCE = 600.0
"""Seconds to wait for an answer: a hundred times what an idle machine takes."""


class Team:
    """Call a function in all processes of one group, and get their answers."""

    def __init__(self, size: int = 2) -> None:
        # Torch and the package are imported once, by the server that all processes are forked from.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        self._folder = tempfile.TemporaryDirectory()
        meeting = Path(self._folder.name) / "meeting"
        self._connections: list[Connection] = []
        self._processes = []
        for rank in range(size):
            ours, theirs = context.Pipe()
            arguments = (rank, size, str(meeting), theirs)
            process = context.Process(target=_serve, args=arguments, daemon=True)
            process.start()
            theirs.close()
            self._connections.append(ours)
            self._processes.append(process)

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """What ``function(*arguments)`` returned in process 0, 1, …; raises if any did."""
        for connection in self._connections:
            connection.send((function, arguments))
        answers = [self._answer(connection) for connection in self._connections]
        failed = [text for ok, text in answers if not ok]
        assert not failed, "\n".join(failed)
        return [answer for _, answer in answers]

    def _answer(self, connection: Connection) -> tuple[bool, Any]:
        if not connection.poll(PATIENCE):
            self.close()
            raise AssertionError("The processes wait for each other.")
        answer: tuple[bool, Any] = connection.recv()
        return answer

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.join()
        self._folder.cleanup()


def _serve(rank: int, size: int, meeting: str, connection: Connection) -> None:
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group(
        "gloo",
        init_method=f"file://{meeting}",
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=500),
    )
    while True:
        try:
            function, arguments = connection.recv()
        except EOFError:
            return
        try:
            answer = (True, function(*arguments))
        except BaseException:
            answer = (False, traceback.format_exc())
        connection.send(answer)
