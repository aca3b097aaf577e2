"""How fast is one update, and how much memory does it take?

    python benchmarks/update.py --params 11e6 100e6 --repeat 7

All contenders run interleaved in one process, each from two gradients in memory to ``p.grad``:

- textbook: the paper's formulas as one would write them, ``Normal(0, 1).cdf`` and plain
  temporaries, on one flat vector of all parameters, and parameter by parameter (kinder to caches
  and to the allocator);
- compiled and blocked: ``Update.backward`` with and without a compiler, FOCUS with Adam moments and
  the linear aggregation, with its diagnostics (the default) and without;
- foreach: the same without diagnostics, by torch's ``_foreach_`` functions over all tensors, one
  pass over memory per operation;
- copy: the four buffers an update must touch (g_U, g_C, v_U, v_C: 16 bytes a parameter), copied
  once. The update itself reads these 16 bytes and writes 12 (v_U, v_C and the step).

Memory is the growth of the resident set at its peak over one step, in a process of its own that
already holds the parameters and one gradient, compiler and libraries loaded.

On a machine with other work, ``--clock cpu --threads 1`` counts processor time instead.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Normal

from expunge.update import Update

ALPHA, BETA, DECAY, EPS = 0.05, 0.95, 0.999, 1e-8
Shapes = list[tuple[int, ...]]
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
clock = CLOCKS["wall"]


def shapes_for(params: float) -> Shapes:
    """ResNet18's list, wider or narrower, up to 50 M parameters; above, 2048 x 2048 matrices."""
    if params >= 50e6:
        return [(2048, 2048)] * round(params / 2048**2)
    width = max(1, round(64 * math.sqrt(params / 11.17e6)))
    shapes: Shapes = [(width, 3, 3, 3), (width,), (width,)]
    fan_in = width
    for stage in range(4):
        out = width * 2**stage
        for block in range(2):
            shapes += [(out, fan_in, 3, 3), (out,), (out,), (out, out, 3, 3), (out,), (out,)]
            if block == 0 and stage > 0:
                shapes += [(out, fan_in, 1, 1), (out,), (out,)]
            fan_in = out
    return [*shapes, (10, fan_in), (10,)]


def noise(shapes: Shapes) -> list[Tensor]:
    return [torch.randn(shape).mul_(1e-3) for shape in shapes]


class Given(torch.autograd.Function):
    """A loss whose gradients are given, so that ``backward`` costs the update and nothing else."""

    @staticmethod
    def forward(ctx: Any, gradients: list[Tensor], *params: Tensor) -> Tensor:
        ctx.gradients = gradients
        return params[0].new_zeros(())

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> Any:  # type: ignore[override]
        gradients = tuple(ctx.gradients)
        ctx.gradients.clear()  # the parameters become their only owners
        return None, *gradients


def textbook(g_u: Sequence[Tensor], g_c: Sequence[Tensor], state: dict[str, Any]) -> list[Tensor]:
    """Algorithm 1 as one would write it."""
    normal = Normal(0.0, 1.0)
    state["step"] += 1
    correction = 1 - DECAY ** state["step"]
    steps = []
    for u, c, v_u, v_c in zip(g_u, g_c, state["v_u"], state["v_c"], strict=True):
        v_u.mul_(DECAY).add_((1 - DECAY) * u**2)
        v_c.mul_(DECAY).add_((1 - DECAY) * c**2)
        phi_u = normal.cdf(u / torch.sqrt(v_u / correction + EPS))
        phi_c = normal.cdf(c / torch.sqrt(v_c / correction + EPS))
        focus = phi_u * phi_c + (1 - phi_u) * (1 - phi_c)
        steps.append(focus * (ALPHA * u + BETA * c))
    return steps


class Bench:
    """The contenders for one list of shapes; ``run`` times one step of one of them."""

    def __init__(self, shapes: Shapes) -> None:
        torch.manual_seed(0)
        self.params = [nn.Parameter(torch.zeros(shape)) for shape in shapes]
        self.g_u, self.g_c = noise(shapes), noise(shapes)
        self.moments = {
            "step": 0,
            "v_u": [torch.zeros(s) for s in shapes],
            "v_c": [torch.zeros(s) for s in shapes],
        }
        self.contenders: dict[str, Callable[[], float]] = {
            "textbook, one vector": self.run_flat,
            "textbook, each": self.run_textbook,
            "blocked": self.updating(compile=False, diagnostics=True),
            "blocked, no diagnostics": self.updating(compile=False, diagnostics=False),
            "compiled": self.updating(compile=True, diagnostics=True),
            "compiled, no diagnostics": self.updating(compile=True, diagnostics=False),
            "foreach, no diagnostics": self.run_foreach,
            "copy": self.run_copy,
        }

    def run_textbook(self) -> float:
        start = clock()
        for p, step in zip(self.params, textbook(self.g_u, self.g_c, self.moments), strict=True):
            p.grad = step
        return self.clear(clock() - start)

    def run_flat(self) -> float:
        u, c, v_u, v_c = (torch.cat([t.flatten() for t in side]) for side in self.buffers())
        state = {"step": self.moments["step"], "v_u": [v_u], "v_c": [v_c]}
        start = clock()
        textbook([u], [c], state)
        return clock() - start

    def updating(self, **options: bool) -> Callable[[], float]:
        update = Update("focus", **options)
        # One set of buffers for all contenders: at 100 M parameters each set is 0.8 GB.
        update.state.moments_u, update.state.moments_c = self.moments["v_u"], self.moments["v_c"]

        def run() -> float:
            u, c = ([g.clone() for g in side] for side in (self.g_u, self.g_c))
            start = clock()
            update.backward(
                Given.apply(u, *self.params), Given.apply(c, *self.params), params=self.params
            )
            return self.clear(clock() - start)

        return run

    def run_foreach(self) -> float:
        u, c = ([g.clone() for g in side] for side in (self.g_u, self.g_c))
        start = clock()
        self.moments["step"] += 1
        correction = 1 - DECAY ** self.moments["step"]
        confidences = []
        for gradients, moments in ((u, self.moments["v_u"]), (c, self.moments["v_c"])):
            torch._foreach_mul_(moments, DECAY)
            torch._foreach_addcmul_(moments, gradients, gradients, 1 - DECAY)
            ratio = torch._foreach_mul(moments, 2 / correction)
            torch._foreach_add_(ratio, 2 * EPS)
            torch._foreach_rsqrt_(ratio)
            torch._foreach_mul_(ratio, gradients)
            torch._foreach_erf_(ratio)
            confidences.append(ratio)
        focus, other = confidences
        torch._foreach_mul_(focus, other)
        torch._foreach_mul_(focus, 0.5)
        torch._foreach_add_(focus, 0.5)
        torch._foreach_mul_(c, BETA)
        torch._foreach_add_(c, u, alpha=ALPHA)
        torch._foreach_mul_(c, focus)
        for p, step in zip(self.params, c, strict=True):
            p.grad = step
        return self.clear(clock() - start)

    def run_copy(self) -> float:
        targets = [torch.zeros_like(g) for g in self.g_u]
        seconds = 0.0
        for side in self.buffers():
            start = clock()
            torch._foreach_copy_(targets, side)
            seconds += clock() - start
        return seconds

    def buffers(self) -> tuple[list[Tensor], ...]:
        return self.g_u, self.g_c, self.moments["v_u"], self.moments["v_c"]

    def clear(self, seconds: float) -> float:
        for p in self.params:
            p.grad = None
        return seconds


def compare(params: float, repeat: int) -> None:
    """Print the table of times for one size."""
    shapes = shapes_for(params)
    count = sum(math.prod(shape) for shape in shapes)
    bench = Bench(shapes)
    times: dict[str, list[float]] = {name: [] for name in bench.contenders}
    for _ in range(repeat + 1):  # the first round compiles and warms up
        for name, run in bench.contenders.items():
            times[name].append(run())
    medians = {name: statistics.median(values[1:]) for name, values in times.items()}
    print(f"\n{count / 1e6:.1f} M parameters in {len(shapes)} tensors, {repeat} interleaved rounds")
    print(f"{'':26}{'median':>9}{'min':>9}{'max':>9}{'vs one':>9}{'vs each':>9}{'x copy':>8}")
    for name, values in times.items():
        low, high = min(values[1:]), max(values[1:])
        print(
            f"{name:26}{medians[name]:8.4f}s{low:8.4f}s{high:8.4f}s"
            f"{medians['textbook, one vector'] / medians[name]:8.1f}x"
            f"{medians['textbook, each'] / medians[name]:8.1f}x"
            f"{medians[name] / medians['copy']:8.1f}"
        )
    print(
        "vs one, vs each: how many times faster than the textbook on one vector, or on each tensor"
    )


def resident() -> tuple[int, int]:
    """The resident set now and at its peak, in bytes."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    now, peak = (int(fields[key].split()[0]) * 1024 for key in ("VmRSS", "VmHWM"))
    return now, peak


def measure_memory(contender: str, params: float) -> None:
    """In a process of its own: print the bytes a parameter that the first step adds at its peak."""
    shapes = shapes_for(params)
    count = sum(math.prod(shape) for shape in shapes)
    Bench([(1 << 15,), (7,)]).contenders[contender]()  # compile and load libraries
    weights = [nn.Parameter(torch.ones(shape)) for shape in shapes]
    g_u = noise(shapes)
    ctypes.CDLL(None).malloc_trim(0)
    before, _ = resident()
    Path("/proc/self/clear_refs").write_text("5")  # forget the old peak
    g_c = noise(shapes)
    if contender.startswith("textbook, each"):
        zeros = [[torch.zeros(s) for s in shapes] for _ in range(2)]
        textbook(g_u, g_c, {"step": 0, "v_u": zeros[0], "v_c": zeros[1]})
    else:
        update = Update("focus", compile=contender.startswith("compiled"))
        update.backward(Given.apply(g_u, *weights), Given.apply(g_c, *weights), params=weights)
    _, peak = resident()
    print((peak - before) / count)


def memory(params: float) -> None:
    """Print the table of memory for one size."""
    print(f"\npeak growth of one step beyond parameters and one gradient, {params / 1e6:.0f} M")
    print("expected: the other gradient 4, two moments 8, together 12 bytes a parameter")
    for contender in ("textbook, each", "blocked", "compiled"):
        command = [sys.executable, __file__, "--measure", contender, "--params", str(params)]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        growth = float(run.stdout.split()[-1])
        extra = (growth - 12) * params / 2**20
        print(f"{contender:26}{growth:8.2f} bytes a parameter (12 and {extra:.0f} MiB of scratch)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--params", type=float, nargs="+", default=[11e6, 100e6])
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--threads", type=int, help="of torch; all cores unless given")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    global clock
    clock = CLOCKS[arguments.clock]
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    if arguments.measure:
        measure_memory(arguments.measure, arguments.params[0])
        return
    model = next(
        (line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        f": {platform.processor()}",
    )
    print(
        f"{model.split(':')[1].strip()}, {torch.backends.cpu.get_cpu_capability()}, "
        f"{torch.get_num_threads()} of {os.cpu_count()} threads, torch {torch.__version__}, "
        f"{arguments.clock} clock, load {os.getloadavg()[0]:.1f}"
    )
    for params in arguments.params:
        compare(params, arguments.repeat)
        memory(params)


if __name__ == "__main__":
    main()
