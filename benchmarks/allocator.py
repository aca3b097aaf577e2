"""What it gains that workers keep the memory they have freed.

    python benchmarks/allocator.py --rounds 5

Two kinds of process take turns, with the allocator settings that workers have, and without them:
predictions and a training step on batches of 256 images of 32x32, for the networks of `paper-mini`.
The ratio is that of processor times within a round, its median and range over the rounds; beside it
the peak memory of the processes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch

from expunge.dispatch._local import ALLOCATOR
from expunge.models import build_model

MODELS = ("resnet18", "vgg16")
BATCH, REPEAT = 256, 8


def measure() -> dict[str, float]:
    """Processor seconds of predictions and of a training step, and the peak memory in MiB."""
    torch.set_num_threads(1)
    images = torch.randn(BATCH, 3, 32, 32).to(memory_format=torch.channels_last)
    labels = torch.randint(10, (BATCH,))
    found = {}
    for name in MODELS:
        model = build_model(name, width=0.125, seed=0).to(memory_format=torch.channels_last)

        def predict(model: torch.nn.Module = model) -> None:
            with torch.inference_mode():
                model.eval()(images)

        def step(model: torch.nn.Module = model) -> None:
            model.zero_grad(set_to_none=True)
            torch.nn.functional.cross_entropy(model.train()(images), labels).backward()

        found[f"{name}, predictions"] = _median_time(predict)
        found[f"{name}, training step"] = _median_time(step)
    found["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found


def _median_time(work: Callable[[], None]) -> float:
    times = []
    for _ in range(REPEAT + 2):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return statistics.median(times[2:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure()))
        return
    rounds = []
    for _ in range(options.rounds):
        pair = []
        for settings in ({}, ALLOCATOR):
            environment = {k: v for k, v in os.environ.items() if k not in ALLOCATOR} | settings
            command = [sys.executable, __file__, "--measure"]
            run = subprocess.run(command, env=environment, check=True, capture_output=True)
            pair.append(json.loads(run.stdout))
        rounds.append(pair)
    for name in rounds[0][0]:
        ratios = [kept[name] / default[name] for default, kept in rounds]
        base = statistics.median(default[name] for default, _ in rounds)
        size = f"{base:.0f} MiB" if name == "peak" else f"{base * 1e3:.0f} ms"
        median, low, high = statistics.median(ratios), min(ratios), max(ratios)
        print(f"{name:26}{size:>9}  x {median:.2f} [{low:.2f}, {high:.2f}]")


if __name__ == "__main__":
    main()
