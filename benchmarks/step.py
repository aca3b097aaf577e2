"""What an add-on costs: whole unlearning steps, side by side, with the memory of each.

    python benchmarks/step.py  # an hour and a half on 2 cores
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
highest; ``best`` is the fastest step of one over the fastest of the other, since what disturbs a
step on a shared machine only ever makes it longer. SalUn needs one more backward pass wherever its
gradient is not the objective's.

Two batches through a net take seconds here, and an add-on a hundredth of one, which is less than a
step varies by. So each step also clocks what comes after its two gradients, up to ``p.grad``: the
column ``own`` is 1 + (that of the contender - that of none) / a step of none, from the same steps.
It leaves out what a contender does elsewhere, such as SalUn's third backward pass.

Between steps the process keeps the memory it freed. By default glibc gives it back, and to fetch it
anew, page by page, takes a time of its own that varies.

Memory is the highest resident set over a step in a process of its own, all that is kept from step
to step being there, less what the process held before the model was made. Freed tensors go back at
once there, so that the set holds nothing else; on an accelerator it is the peak torch reports. With
``--out`` finished rows are kept in a file: a rerun goes on from there, and with more ``--rounds``
adds what is missing.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Normal

from expunge.data._batches import Batch
from expunge.methods import METHODS, Method, Problem
from expunge.models import build_model
from expunge.update import ADDONS, Update
from expunge.update._gradients import Term

Row = dict[str, dict[str, Any]]
"""Of one architecture and method: seconds, own seconds and memory by contender."""
ALPHA, BETA, DECAY, EPS = 0.05, 0.95, 0.999, 1e-8
ARCHS, METHOD_NAMES = ("resnet18", "vgg16"), ("SRL", "NGPlus", "SCRUB")
ADDON_NAMES = {"none": "none", "FOCUS": "focus", "PROB": "prob", "AND": "and", "SalUn": "saliency"}
CONTENDERS = (*ADDON_NAMES, "textbook", "plain")
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_MMAP_MAX = -1, -3, -4


class Clock:
    """Seconds, once the device has done what it was given."""

    def __init__(self, kind: str = "wall", device: str = "cpu") -> None:
        self._read, self._waits = CLOCKS[kind], device != "cpu"

    def __call__(self) -> float:
        if self._waits:
            torch.accelerator.synchronize()
        return self._read()


class ClockedUpdate(Update):
    """An update that knows how long the way from two gradients to one step took."""

    clock: Clock
    own = 0.0

    def _take(self, *args: Any) -> Any:
        start = self.clock()
        step = super()._take(*args)
        self.own = self.clock() - start
        return step


class Bench:
    """One model, two batches, and every contender's way to take a step on them."""

    def __init__(
        self, arch: str, method: str, batch: int, width: float, clock: Clock, device: str = "cpu"
    ) -> None:
        torch.manual_seed(0)
        self.clock = clock
        self.own = 0.0
        """Seconds of the last step between its gradients and ``p.grad``."""
        self.model = build_model(arch, width=width, seed=0).to(device).train()
        self.method: Method = METHODS.resolve(method)
        self.problem = Problem(self.model)
        self.device = device
        self.give(batch)
        self._steps: dict[str, Callable[[], None]] = {}

    def give(self, size: int) -> None:
        """Two new batches."""
        self.forget, self.retain = (
            _batch(size, split, self.device) for split in ("forget", "retain")
        )

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
        update = ClockedUpdate(ADDONS.resolve(addon))
        update.clock = self.clock

        def step() -> None:
            optimizer.zero_grad(set_to_none=True)
            self.problem.needs_saliency = update.addon.needs_saliency
            update.backward(
                objective=iter([self.method.objective(self.problem, self.forget, self.retain)]),
                constraint=(self._constraint() for _ in range(1)),
                params=self.problem.parameters,
            )
            self.own = update.own
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
            start = self.clock()
            for p, u, c, v_u, v_c in zip(params, g_u, g_c, *moments, strict=True):
                phi_u, phi_c = phi(u, v_u), phi(c, v_c)
                focus = phi_u * phi_c + (1 - phi_u) * (1 - phi_c)
                p.grad = focus * (ALPHA * u + BETA * c)
            self.own = self.clock() - start
            optimizer.step()

        return step

    def _plain(self, optimizer: torch.optim.Optimizer) -> Callable[[], None]:
        def step() -> None:
            optimizer.zero_grad()
            (ALPHA * self._objective()).backward()
            (BETA * self._constraint()).backward()
            self.own = 0.0
            optimizer.step()

        return step

    def _objective(self) -> Tensor:
        self.problem.needs_saliency = False
        return _loss(self.method.objective(self.problem, self.forget, self.retain))

    def _constraint(self) -> Tensor:
        return _loss(self.method.constraint(self.problem, self.forget, self.retain))


def _loss(term: Tensor | Term) -> Tensor:
    return term.loss if isinstance(term, Term) else term


def _batch(size: int, split: str, device: str) -> Batch:
    seed = ("forget", "retain").index(split)
    random = torch.Generator().manual_seed(seed)
    pixels = torch.randint(0, 256, (size, 3, 32, 32), generator=random, dtype=torch.uint8)
    labels = torch.randint(0, 10, (size,), generator=random)
    return Batch(pixels.to(device), labels.to(device), split)  # type: ignore[arg-type]


def compare(arch: str, method: str, rounds: int, options: argparse.Namespace) -> Row:
    """Seconds of every contender in every round, after one to warm up."""
    clock = Clock(options.clock, options.device)
    bench = Bench(arch, method, options.batch, options.width, clock, options.device)
    row: Row = {kind: {name: [] for name in options.contenders} for kind in ("seconds", "own")}
    for k in range(rounds + 1):
        # Each round starts elsewhere, so that no contender always follows the same one.
        shift = k % len(options.contenders)
        for name in (*options.contenders[shift:], *options.contenders[:shift]):
            start = clock()
            bench.step(name)
            if k:
                row["seconds"][name].append(clock() - start)
                row["own"][name].append(bench.own)
    return row


def keep_freed_memory() -> None:
    """Have the C library keep what the process frees, for the next step; glibc only."""
    if hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(M_MMAP_MAX, 0)
        libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def memory_of(arch: str, method: str, contender: str, options: argparse.Namespace) -> float:
    """Peak of the resident set in a process of its own, in MiB."""
    command = [sys.executable, __file__, "--measure", contender, "--arch", arch]
    command += ["--method", method, "--batch", str(options.batch), "--width", str(options.width)]
    command += ["--device", options.device]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(run.stdout.split()[-1])


def measure_memory(contender: str, options: argparse.Namespace) -> None:
    """In a process of its own: print the MiB that a step takes at its peak."""
    arch, method, device = options.arch[0], options.method[0], options.device
    # Libraries loaded, the kernel compiled.
    Bench("small-cnn", method, 4, 0.25, Clock(), device).step(contender)
    before = _start_peak(device)
    bench = Bench(arch, method, 2, options.width, Clock(), device)
    bench.step(contender)  # on two examples: makes all that is kept
    bench.give(options.batch)
    bench.step(contender)
    peak = _resident()["VmHWM"] if device == "cpu" else torch.cuda.max_memory_allocated()
    print((peak - before) / 2**20)


def _start_peak(device: str) -> int:
    """Forget the old peak; how much is held now."""
    if device != "cpu":
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()
    libc = ctypes.CDLL(None)
    libc.mallopt(M_MMAP_THRESHOLD, 2**16)
    libc.malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return _resident()["VmRSS"]


def _resident() -> dict[str, int]:
    lines = Path("/proc/self/status").read_text().splitlines()
    pairs = (line.split(":", 1) for line in lines)
    return {name: int(text.split()[0]) * 1024 for name, text in pairs if name in ("VmRSS", "VmHWM")}


def ratios(row: Row, base: str = "none") -> dict[str, list[float]]:
    """Contender / base, round by round."""
    return {
        name: [mine / its for mine, its in zip(values, row["seconds"][base], strict=True)]
        for name, values in row["seconds"].items()
    }


def best_ratio(row: Row, name: str, base: str = "none") -> float:
    """The fastest step, over that of the base."""
    fastest: float = min(row["seconds"][name]) / min(row["seconds"][base])
    return fastest


def own_ratio(row: Row, name: str, base: str = "none") -> float | None:
    """1 + what lies between gradients and step, over that of the base; None where it is not all."""
    if name in (base, "SalUn", "plain"):
        return None
    pairs: Any = zip(row["own"][name], row["own"][base], row["seconds"][base], strict=True)
    return statistics.median(1 + (mine - its) / step for mine, its, step in pairs)


def show(arch: str, method: str, row: Row) -> None:
    """Print one table."""
    times, memory = row["seconds"], row.get("memory", {})
    print(f"\n{arch}, {method}, {len(times['none'])} rounds")
    heads = {"step": 9, "ratio": 8, "low": 7, "high": 7, "best": 7, "own": 8, "MiB": 8, "": 7}
    print(f"{'':10}" + "".join(f"{head:>{width}}" for head, width in heads.items()))
    for name, found in ratios(row).items():
        line = f"{name:10}{statistics.median(times[name]):8.3f}s{statistics.median(found):8.3f}"
        line += f"{min(found):7.3f}{max(found):7.3f}{best_ratio(row, name):7.3f}"
        own = own_ratio(row, name)
        line += f"{'-':>8}" if own is None else f"{own:8.4f}"
        if name in memory:
            line += f"{memory[name]:8.0f}{memory[name] / memory['none']:7.2f}"
        print(line, flush=True)


def summarise(rows: dict[str, Row]) -> None:
    """Print what all tables say together."""
    count = len(rows)
    print(
        f"\nover {count} pairs of architecture and method: the median of all rounds, with its 95 %"
    )
    print("interval; geometric mean of best and own, with the worst")
    print(f"{'':10}{'ratio':>7}{'from':>7}{'to':>7}{'best':>9}{'worst':>7}{'own':>9}{'worst':>8}")
    for name in next(iter(rows.values()))["seconds"]:
        found = np.concatenate([ratios(row)[name] for row in rows.values()])
        low, high = interval(found)
        line = f"{name:10}{np.median(found):7.3f}{low:7.3f}{high:7.3f}"
        best = [best_ratio(row, name) for row in rows.values()]
        line += f"{statistics.geometric_mean(best):9.3f}{max(best):7.3f}"
        own = [value for row in rows.values() if (value := own_ratio(row, name)) is not None]
        if own:
            line += f"{statistics.geometric_mean(own):9.4f}{max(own):8.4f}"
        print(line)


def interval(found: np.ndarray, draws: int = 10_000) -> tuple[float, float]:
    """Bootstrapped 95 % interval of the median."""
    drawn = np.random.default_rng(0).choice(found, (draws, len(found)))
    low, high = np.quantile(np.median(drawn, axis=1), (0.025, 0.975))
    return float(low), float(high)


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
    parser.add_argument("--device", default="cpu", help="such as cuda (default: cpu)")
    parser.add_argument("--no-memory", dest="memory", action="store_false")
    parser.add_argument("--out", type=Path, help="JSON file of finished rows, to go on from")
    parser.add_argument("--measure", choices=CONTENDERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if "none" not in options.contenders:
        parser.error("--contenders should include none: it is what the others are compared with.")
    if options.threads:
        torch.set_num_threads(options.threads)
    if options.measure:
        measure_memory(options.measure, options)
        return
    keep_freed_memory()
    print(
        f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}, "
        f"{torch.get_num_threads()} of {os.cpu_count()} threads, torch {torch.__version__}, "
        f"{options.clock} clock, load {os.getloadavg()[0]:.1f}; batch {options.batch}, width "
        f"{options.width:g}, {options.device}"
    )
    rows = json.loads(options.out.read_text()) if options.out and options.out.exists() else {}
    for arch in options.arch:
        for method in options.method:
            row = rows.setdefault(f"{arch} {method}", {})
            missing = options.rounds - len(row.get("seconds", {}).get("none", ()))
            if missing > 0:
                for kind, more in compare(arch, method, missing, options).items():
                    kept = row.setdefault(kind, {})
                    for name, seconds in more.items():
                        kept[name] = kept.get(name, []) + seconds
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
