"""How long the search for near duplicates takes, and how much memory.

    python benchmarks/duplicates.py --records 100000 --width 512 --forgotten 1000

Three ways to the best match of every remaining record among the forgotten ones, in turns:

- blocked: ``nearest_neighbours``, as a preflight runs it, 16 MiB of the table at a time;
- table: all cosines at once, then their maxima;
- product: the product of the two matrices alone, block by block, which no exact search can avoid.

Memory is the growth of the resident set at its peak (Linux), over what holds the features.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from expunge.request.preflight._features import nearest_neighbours

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def table(queries: Tensor, references: Tensor) -> tuple[Tensor, Tensor]:
    """All cosines at once."""
    value, index = (F.normalize(queries, dim=1) @ F.normalize(references, dim=1).T).max(dim=1)
    return value, index


def product(queries: Tensor, references: Tensor) -> None:
    """The arithmetic of the cosines, without looking at them."""
    for part in queries.split(1024):
        part @ references.T


def resident(field: str) -> int:
    """A field of the process's memory, in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) // 1024


def peak_of(run: Callable[[], object]) -> int:
    """MiB that a run adds to the resident set at its peak."""
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    run()
    return resident("VmHWM") - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--forgotten", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, help="of torch; all cores unless given")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    clock = CLOCKS[options.clock]
    torch.manual_seed(0)
    queries = torch.randn(options.records, options.width)
    references = torch.randn(options.forgotten, options.width)
    contenders: dict[str, Callable[[], object]] = {
        "blocked": lambda: nearest_neighbours(queries, references),
        "table": lambda: table(queries, references),
        "product": lambda: product(queries, references),
    }
    found, expected = nearest_neighbours(queries, references), table(queries, references)
    torch.testing.assert_close(found[0], expected[0])
    memory = {name: peak_of(run) for name, run in contenders.items()}
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(options.rounds):
        for name, run in contenders.items():
            start = clock()
            run()
            seconds[name].append(clock() - start)
    print(
        f"{torch.get_num_threads()} of {os.cpu_count()} threads, torch {torch.__version__}, "
        f"{options.clock} clock, load {os.getloadavg()[0]:.1f}; {options.records} x "
        f"{options.width} features, {options.forgotten} forgotten, {options.rounds} rounds"
    )
    for name, values in seconds.items():
        ratios = [a / b for a, b in zip(values, seconds["product"], strict=True)]
        print(
            f"{name:10}{statistics.median(values):8.2f} s {statistics.median(ratios):6.2f} times "
            f"the product [{min(ratios):.2f}, {max(ratios):.2f}]{memory[name]:8} MiB"
        )


if __name__ == "__main__":
    main()
