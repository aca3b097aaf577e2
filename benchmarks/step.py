"""What an add-on costs: whole unlearning steps, side by side, with the memory of each.

    python benchmarks/step.py                                   # all of it, about half an hour
    python benchmarks/step.py --arch vgg16 --method SRL --rounds 3 --no-memory

For each architecture (width 1, batches of 256 images of 32x32) and each method, all contenders take
a step in turn, round after round, on the same model and the same batches, each from two batches in
memory to moved weights (Adam):

- none: the method without add-on, as the library runs it. What the ratios refer to.
- FOCUS, PROB, AND, SalUn: with the add-on, its diagnostics included, as by default.
- textbook: a focus vector as one would write it, two ``backward`` calls, ``Normal(0, 1).cdf`` and
  plain temporaries, parameter by parameter.
- plain: no library, one ``backward`` for α·U and one for β·C into ``p.grad``, then the optimizer.

The ratio is the median over the rounds of contender / none within a round, with its lowest and
highest. SalUn needs one more backward pass wherever its gradient is not the objective's.

Memory is the highest resident set over three steps in a process of its own, less what the process
held before the model was made. With ``--out`` finished rows are kept in a file, and a rerun goes
on from there.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.distributions import Normal

from expunge.data.batches import Batch
from expunge.methods import METHODS, Method, Problem
from expunge.models import build_model
from expunge.update import ADDONS, Update
from expunge.update.gradients import Term

ALPHA, BETA, DECAY, EPS = 0.05, 0.95, 0.999, 1e-8
ARCHS, METHOD_NAMES = ("resnet18", "vgg16"), ("SRL", "NGPlus", "SCRUB")
ADDON_NAMES = {"none": "none", "FOCUS": "focus", "PROB": "prob", "AND": "and", "SalUn": "saliency"}
CONTENDERS = (*ADDON_NAMES, "textbook", "plain")
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


class Bench:
    """One model, two batches, and every contender's way to take a step on them."""

    def __init__(self, arch: str, method: str, batch: int, width: float) -> None:
        torch.manual_seed(0)
        self.model = build_model(arch, width=width, seed=0).train()
        self.method: Method = METHODS.resolve(method)
        self.problem = Problem(self.model)
        self.forget, self.retain = (_batch(batch, split) for split in ("forget", "retain"))
        self._steps: dict[str, Callable[[], None]] = {}

    def step(self, contender: str) -> None:
        """Take one step."""
        if contender not in self._steps:
            optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-6)
            makers = {"textbook": self._textbook, "plain": self._plain}
            self._steps[contender] = (
                self._updating(ADDON_NAMES[contender], optimizer)
                if contender in ADDON_NAMES
                else makers[contender](optimizer)
            )
        self._steps[contender]()

    def _updating(self, addon: str, optimizer: torch.optim.Optimizer) -> Callable[[], None]:
        update = Update(ADDONS.resolve(addon))

        def step() -> None:
            optimizer.zero_grad(set_to_none=True)
            self.problem.ranks = update.addon.ranks
            update.backward(
                objective=iter([self.method.objective(self.problem, self.forget, self.retain)]),
                constraint=(self._constraint() for _ in range(1)),
                params=self.problem.parameters,
            )
            update.step(optimizer)

        return step

    def _textbook(self, optimizer: torch.optim.Optimizer) -> Callable[[], None]:
        normal = Normal(0.0, 1.0)
        params = list(self.model.parameters())
        moments = [[torch.zeros_like(p) for p in params] for _ in range(2)]
        count = 0

        def gradient(loss: Tensor) -> list[Tensor]:
            optimizer.zero_grad()
            loss.backward()
            return [p.grad.clone() for p in params if p.grad is not None]

        def phi(g: Tensor, moment: Tensor) -> Tensor:
            moment.mul_(DECAY).add_((1 - DECAY) * g**2)
            return normal.cdf(g / torch.sqrt(moment / (1 - DECAY**count) + EPS))

        def step() -> None:
            nonlocal count
            count += 1
            g_u, g_c = gradient(self._objective()), gradient(self._constraint())
            for p, u, c, v_u, v_c in zip(params, g_u, g_c, *moments, strict=True):
                phi_u, phi_c = phi(u, v_u), phi(c, v_c)
                focus = phi_u * phi_c + (1 - phi_u) * (1 - phi_c)
                p.grad = focus * (ALPHA * u + BETA * c)
            optimizer.step()

        return step

    def _plain(self, optimizer: torch.optim.Optimizer) -> Callable[[], None]:
        def step() -> None:
            optimizer.zero_grad()
            (ALPHA * self._objective()).backward()
            (BETA * self._constraint()).backward()
            optimizer.step()

        return step

    def _objective(self) -> Tensor:
        self.problem.ranks = False
        return _loss(self.method.objective(self.problem, self.forget, self.retain))

    def _constraint(self) -> Tensor:
        return _loss(self.method.constraint(self.problem, self.forget, self.retain))


def _loss(term: Tensor | Term) -> Tensor:
    return term.loss if isinstance(term, Term) else term


def _batch(size: int, split: str) -> Batch:
    seed = ("forget", "retain").index(split)
    random = torch.Generator().manual_seed(seed)
    pixels = torch.randint(0, 256, (size, 3, 32, 32), generator=random, dtype=torch.uint8)
    return Batch(pixels, torch.randint(0, 10, (size,), generator=random), split)  # type: ignore[arg-type]


def compare(arch: str, method: str, options: argparse.Namespace) -> dict[str, list[float]]:
    """Seconds of every contender in every round; the first round warms up and is dropped."""
    clock = CLOCKS[options.clock]
    bench = Bench(arch, method, options.batch, options.width)
    times: dict[str, list[float]] = {name: [] for name in options.contenders}
    for k in range(options.rounds + 1):
        # Each round starts elsewhere, so that no contender always follows the same one.
        shift = k % len(options.contenders)
        for name in (*options.contenders[shift:], *options.contenders[:shift]):
            start = clock()
            bench.step(name)
            if k:
                times[name].append(clock() - start)
    return times


def memory_of(arch: str, method: str, contender: str, options: argparse.Namespace) -> float:
    """Peak of the resident set in a process of its own, in MiB."""
    command = [sys.executable, __file__, "--measure", contender, "--arch", arch]
    command += ["--method", method, "--batch", str(options.batch), "--width", str(options.width)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(run.stdout.split()[-1])


def measure_memory(arch: str, method: str, contender: str, batch: int, width: float) -> None:
    """In a process of its own: print the MiB that three steps take at their peak."""
    Bench("small-cnn", method, 4, 0.25).step(contender)  # libraries loaded, the kernel compiled
    ctypes.CDLL(None).malloc_trim(0)
    before = _resident()["VmRSS"]
    Path("/proc/self/clear_refs").write_text("5")  # forget the old peak
    bench = Bench(arch, method, batch, width)
    for _ in range(3):
        bench.step(contender)
    print((_resident()["VmHWM"] - before) / 2**20)


def _resident() -> dict[str, int]:
    lines = Path("/proc/self/status").read_text().splitlines()
    pairs = (line.split(":", 1) for line in lines)
    return {name: int(text.split()[0]) * 1024 for name, text in pairs if name in ("VmRSS", "VmHWM")}


def ratios(times: dict[str, list[float]], base: str = "none") -> dict[str, list[float]]:
    """Contender / base, round by round."""
    return {
        name: [mine / its for mine, its in zip(values, times[base], strict=True)]
        for name, values in times.items()
    }


def show(arch: str, method: str, row: dict[str, dict[str, float] | dict[str, list[float]]]) -> None:
    """Print one table."""
    times: dict[str, list[float]] = row["seconds"]  # type: ignore[assignment]
    memory: dict[str, float] = row.get("memory", {})  # type: ignore[assignment]
    rounds = len(times["none"])
    print(f"\n{arch}, {method}, {rounds} rounds")
    print(f"{'':12}{'step':>9}{'ratio':>8}{'low':>7}{'high':>7}{'peak MiB':>10}{'ratio':>7}")
    for name, found in ratios(times).items():
        line = f"{name:12}{statistics.median(times[name]):8.3f}s{statistics.median(found):8.3f}"
        line += f"{min(found):7.3f}{max(found):7.3f}"
        if name in memory:
            line += f"{memory[name]:10.0f}{memory[name] / memory['none']:7.2f}"
        print(line, flush=True)


def summarise(rows: dict[str, dict[str, dict[str, list[float]]]]) -> None:
    """Print the geometric mean of the ratios over all tables."""
    print(f"\ngeometric mean over {len(rows)} pairs of architecture and method, of median ratios")
    found = [
        {name: statistics.median(values) for name, values in ratios(row["seconds"]).items()}
        for row in rows.values()
    ]
    for name in found[0]:
        mean = math.exp(statistics.fmean(math.log(row[name]) for row in found))
        worst = max(row[name] for row in found)
        print(f"{name:12}{mean:8.3f}   worst {worst:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", nargs="+", choices=ARCHS, default=list(ARCHS))
    parser.add_argument("--method", nargs="+", choices=METHOD_NAMES, default=list(METHOD_NAMES))
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--width", type=float, default=1.0)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--threads", type=int, help="of torch; all cores unless given")
    parser.add_argument("--no-memory", dest="memory", action="store_false")
    parser.add_argument("--out", type=Path, help="JSON file of finished rows, to go on from")
    parser.add_argument("--measure", choices=CONTENDERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    if options.measure:
        arch, method = options.arch[0], options.method[0]
        measure_memory(arch, method, options.measure, options.batch, options.width)
        return
    print(
        f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}, "
        f"{torch.get_num_threads()} of {os.cpu_count()} threads, torch {torch.__version__}, "
        f"{options.clock} clock, load {os.getloadavg()[0]:.1f}; batch {options.batch}, width "
        f"{options.width:g}"
    )
    rows = json.loads(options.out.read_text()) if options.out and options.out.exists() else {}
    for arch in options.arch:
        for method in options.method:
            row = rows.setdefault(f"{arch} {method}", {})
            if "seconds" not in row:
                row["seconds"] = compare(arch, method, options)
                _keep(options.out, rows)
            if options.memory and "memory" not in row:
                row["memory"] = {
                    name: memory_of(arch, method, name, options) for name in options.contenders
                }
                _keep(options.out, rows)
            show(arch, method, row)
    summarise(rows)


def _keep(path: Path | None, rows: dict[str, object]) -> None:
    if path is not None:
        scratch = path.with_suffix(".part")
        scratch.write_text(json.dumps(rows, indent=1))
        scratch.replace(path)


if __name__ == "__main__":
    main()
