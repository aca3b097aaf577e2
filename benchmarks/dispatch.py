"""The overhead of the machinery: stages that do nothing, on the local engine.

    python benchmarks/dispatch.py [--stages 1000] [--workers 2] [--root FOLDER]

The target is under 20 ms a stage, with every result fsynced. Workers are warmed up first: starting
one takes seconds of imports, once.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from expunge._environment import cores, environment, hardware
from expunge.dispatch import Context, LocalEngine, run
from expunge.store import Stage, Store

TARGET = 20.0


def nothing(context: Context) -> None:
    """The stage."""


def stages(count: int, name: str) -> list[Stage]:
    """A first stage, and the others on it: most of a graph is wide."""
    work = f"{Path(__file__).stem}:nothing"
    first = Stage("nothing", {"name": name}, run=work)
    rest = [Stage("nothing", {"name": name, "n": n}, (first,), run=work) for n in range(count - 1)]
    return [first, *rest]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--stages", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=cores())
    parser.add_argument("--root", type=Path, default=None)
    chosen = parser.parse_args()
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{hardware()['processor']}, {cores()} cores, {hardware()['system']}, load {load}")
    print(", ".join(f"{name} {version}" for name, version in environment()["versions"].items()))
    with tempfile.TemporaryDirectory(dir=chosen.root) as root:
        store = Store(root)
        engine = LocalEngine(store, chosen.workers)
        began = time.perf_counter()
        run(stages(2 * chosen.workers, "warm-up"), store, engine=engine).check()
        print(f"start of {chosen.workers} workers: {time.perf_counter() - began:.1f} s")
        graph = stages(chosen.stages, "measured")
        first = run(graph, store, engine=engine).check()
        again = run(graph, store, engine=engine).check()
        engine.close()
    each = 1000 * first.seconds / chosen.stages
    verdict = "under" if each < TARGET else "OVER"
    print(f"{first}")
    print(f"{each:.2f} ms a stage, {verdict} the target of {TARGET:.0f} ms")
    print(f"second run, everything verified and nothing done: {again.seconds:.2f} s")


if __name__ == "__main__":
    main()
