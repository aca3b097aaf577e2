"""Stage functions for the tests; workers import them by name."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from expunge.dispatch import Context
from expunge.store import Stage


def stage(function: str, *parents: Stage, **config: Any) -> Stage:
    """A stage that runs a function of this module."""
    settings = {name: config.pop(name) for name in ("options", "cost", "title") if name in config}
    return Stage(
        "test", {"function": function, **config}, parents, run=f"{__name__}:{function}", **settings
    )


def log(context: Context, text: str) -> None:
    """Append a line to the file that the options name; short appends are atomic."""
    if path := context.options.get("log"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")


def wait_for(condition: Callable[[], object], seconds: float = 250) -> None:
    """Wait until ``condition`` holds; the limit is for tests that fail."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.01)


def add(context: Context) -> None:
    """Its own number and its parents' sum.

    With the option ``until``, wait for that file; with ``company``, for that many lines in the log.
    """
    log(context, str(context.config.get("n")))
    time.sleep(context.options.get("sleep", 0))
    if until := context.options.get("until"):
        wait_for(Path(until).exists)
    if company := context.options.get("company"):
        wait_for(lambda: len(Path(context.options["log"]).read_text().split()) >= company)
    total = sum(json.loads(parent.path("sum.json").read_text()) for parent in context.parents)
    (context.folder / "sum.json").write_text(json.dumps(total + context.config["n"]))


def fail(context: Context) -> None:
    print("about to fail")
    raise ValueError("it was not meant to be")


def leave(context: Context) -> None:
    sys.exit(3)


def die(context: Context) -> None:
    """Die at the first ``deaths`` attempts."""
    (context.folder / "tries").open("a").write("x")
    print("about to die")
    if len((context.folder / "tries").read_text()) <= context.config["deaths"]:
        os.kill(os.getpid(), signal.SIGKILL)


def die_with_a_child(context: Context) -> None:
    """Die at the first attempt, and leave a process behind that holds every open file."""
    if (context.folder / "child").exists():
        return
    child = os.fork()
    if child == 0:
        time.sleep(600)
        os._exit(0)
    (context.folder / "child").write_text(str(child))
    os.kill(os.getpid(), signal.SIGKILL)


def count(context: Context) -> None:
    """Twenty steps, each kept at once, so that a kill loses one step at most."""
    state = context.folder / ".state"
    drawn: list[float] = json.loads(state.read_text()) if state.exists() else []
    while len(drawn) < 20:
        log(context, str(len(drawn)))
        drawn.append(random.Random(len(drawn)).random())
        scratch = state.with_suffix(".tmp")
        scratch.write_text(json.dumps(drawn))
        scratch.replace(state)
        context.progress(len(drawn), 20, f"step {len(drawn)}")
        time.sleep(context.options.get("pause", 0.002))
    (context.folder / "deep").mkdir(exist_ok=True)
    (context.folder / "deep" / "drawn.json").write_text(json.dumps(drawn))


def count_and_die(context: Context) -> None:
    """As ``count``, but killed halfway at the first attempt."""
    state, here = context.folder / ".state", os.getpid()

    def watch() -> None:
        while not state.exists() or len(json.loads(state.read_text())) < 10:
            time.sleep(0.001)
        os.kill(here, signal.SIGKILL)

    if not state.exists():
        threading.Thread(target=watch, daemon=True).start()
        context = replace(context, options={**context.options, "pause": 0.02})
    count(context)


def sleep(context: Context) -> None:
    """Log the process id, then sleep until killed."""
    log(context, str(os.getpid()))
    time.sleep(600)


def report_until(context: Context) -> None:
    """Report progress until the file that the options name exists."""
    steps = 0
    while not Path(context.options["until"]).exists():
        steps += 1
        context.progress(steps)
        time.sleep(0.01)


def tell(context: Context) -> None:
    """What a worker is like."""
    facts = {
        "threads": torch.get_num_threads(),
        "pool": os.environ.get("MKL_NUM_THREADS"),
        "allocator": os.environ.get("GLIBC_TUNABLES"),
        "terminal": sys.stderr.isatty(),
        "children": subprocess.run([sys.executable, "-c", "print(1)"], check=True).returncode,
        "drawn": [random.random(), float(np.random.rand()), float(torch.rand(()))],  # noqa: NPY002
    }
    (context.folder / "facts.json").write_text(json.dumps(facts))


def write_reserved(context: Context) -> None:
    (context.folder / "config.json").write_text("{}")


def write_link(context: Context) -> None:
    (context.folder / "link").symlink_to("/etc/passwd")


def write_large(context: Context) -> None:
    (context.folder / "large.bin").write_bytes(bytes(context.config["size"]))
