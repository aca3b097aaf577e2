"""How many files and functions of expunge does one step enter, a run, a request, a benchmark?

    python benchmarks/calls.py [--list]

One FOCUS step around a linear layer of two tensors, traced with ``sys.setprofile``: in a loop of
your own (``Update.backward``), and within ``unlearn``, batches, losses and optimizer included. Then
all of ``unlearn``, a deletion request from ids to its bundle, and a benchmark from a protocol to
its published tables, figures and page, without what they import. A file change is a call from a
function of one file into one of another. ``--list`` names every function.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

import expunge
from expunge.bench._protocol_file import load_protocol
from expunge.bench._publish import publish
from expunge.bench._run import collect, run_planned
from expunge.bench._stages import plan
from expunge.dispatch import InlineEngine
from expunge.engine import Run
from expunge.store import Store

SOURCE = str(Path(expunge.__file__).parent)
Calls = list[tuple[str, str]]


@contextmanager
def traced(calls: Calls) -> Iterator[None]:
    """Note file and name of every function of expunge that is called within."""

    def note(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        file = code.co_filename  # templates are files, too, but nobody reads them as code
        if event == "call" and file.startswith(SOURCE) and file.endswith(".py"):
            calls.append((file[len(SOURCE) + 1 :], code.co_name))

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


def own_loop() -> Calls:
    """The third step of a loop around ``Update``."""
    model, update = nn.Linear(3, 2), expunge.Update("focus")
    x, y = torch.randn(8, 3), torch.arange(8) % 2
    calls: Calls = []
    for _ in range(3):
        calls.clear()
        losses = -cross_entropy(model(x[:4]), y[:4]), cross_entropy(model(x[4:]), y[4:])
        with traced(calls):
            update.backward(*losses, params=model.parameters())
    return calls


def run_unlearn() -> None:
    """A run of a few steps, with the defaults."""
    data = TensorDataset(torch.randn(48, 3), torch.arange(48) % 2)
    forget, retain = torch.utils.data.random_split(data, [16, 32])
    execution = expunge.Execution(progress=False, device="cpu")
    options = {"epochs": 1, "batch_size": 2, "lr": 1e-2, "execution": execution}
    expunge.unlearn(nn.Linear(3, 2), forget=forget, retain=retain, **options)


def run_request(folder: str) -> None:
    """A request for some of 90 points, by the default method."""
    x = torch.randn(90, 3)
    points = TensorDataset(x, (x[:, 0] > 0).long())
    data = torch.utils.data.random_split(points, [40, 25, 25])
    own = {"data": tuple(data), "ids": [1, 5], "out": f"{folder}/requests"}
    with patch.dict(os.environ, {"EXPUNGE_ID_KEY": f"{folder}/id.key"}):
        expunge.forget(model=nn.Linear(3, 2), **own, progress=False, force=True)


PROTOCOL = """\
seeds = [0]
evaluate_at = [1]

[training]
epochs = 1
augment = false

[unlearning]
epochs = 1
batch_size = 8

[[block]]
data = "digits"
limit = 60
test_limit = 80
model = "small-cnn"
width = 0.2
scenarios = ["random:0.3"]
methods = ["SRL"]
addons = ["none", "AND", "FOCUS"]
baselines = ["FT"]
"""


def run_benchmark(folder: str) -> None:
    """A protocol on a few digits, run in this process and published."""
    path = Path(folder) / "tiny.toml"
    path.write_text(PROTOCOL, encoding="utf-8")
    protocol, store = load_protocol(path), Store(f"{folder}/store")
    planned = plan(protocol, device="cpu")
    run_planned(planned, store, engine=InlineEngine(store)).check()
    publish(protocol, collect(planned, store), Path(folder) / "results")


def whole(run: Callable[[], None]) -> Calls:
    """All calls of a run, after one that imports what it needs."""
    run()
    calls: Calls = []
    with traced(calls):
        run()
    return calls


def within_unlearn() -> Calls:
    """The third step of a run."""
    calls: Calls = []
    take_step = Run._take_step

    def traced_step(run: Run) -> bool:
        if run.step != 2:
            return take_step(run)
        with traced(calls):
            return take_step(run)

    with patch.object(Run, "_take_step", traced_step):
        run_unlearn()
    return calls


def in_folders(run: Callable[[str], None]) -> Calls:
    """All calls of a run that writes into a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        return whole(lambda: run(tempfile.mkdtemp(dir=folder)))


MEASURED = {
    "own loop, step": own_loop,
    "unlearn, step": within_unlearn,
    "unlearn": lambda: whole(run_unlearn),
    "request": lambda: in_folders(run_request),
    "benchmark": lambda: in_folders(run_benchmark),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="name every function")
    options = parser.parse_args()
    torch.manual_seed(0)
    print(f"{'':16}{'files':>8}{'changes':>9}{'calls':>8}")
    for name, measure in MEASURED.items():
        calls = measure()
        files = {file for file, _ in calls}
        changes = sum(one[0] != other[0] for one, other in pairwise(calls))
        print(f"{name:16}{len(files):8}{changes:9}{len(calls):8}")
        if options.list:
            for (file, function), count in Counter(calls).most_common():
                print(f"{count:8}  {file}: {function}")


if __name__ == "__main__":
    main()
