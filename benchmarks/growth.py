"""How the cost of unlearning grows with parameters, batch size and the size of the forget set.

    python benchmarks/growth.py --out docs/images/growth.png
    python benchmarks/growth.py --out docs/images/growth.png --redraw  # from the numbers beside it

SRL on ResNet18, images of 32x32. Three sweeps, each contender in turn within a round:

- parameters: widths of the net at batches of 64. The step without an add-on and with FOCUS, and the
  part of it that is the add-on's: from two gradients in memory to ``p.grad``, less the same without
  an add-on.
- batch size: the same at width 1/4. The add-on's part does not know how large a batch was.
- forget size: seconds of one epoch of ``expunge.unlearn`` at width 1/8, which is one pass over the
  forget set beside as many batches of the retain set.

Medians over the rounds; bars from the lowest to the highest. A slope is the exponent of a power law
fitted to the medians: 1 is proportional, 0 is constant.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import expunge
from expunge.data import ImageSet
from expunge.models import build_model
from expunge.update import Update
from step import Bench, Clock
from update import Given

Timed = dict[str, list[list[float]]]
WIDTHS = (0.125, 0.25, 0.5, 0.75, 1.0)
BATCHES = (16, 32, 64, 128, 256)
SIZES = (256, 512, 1024, 2048)


def rounds(contenders: dict[str, Callable[[], float]], count: int) -> dict[str, list[float]]:
    """Seconds by contender and round, the first round dropped."""
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for k in range(count + 1):
        for name, run in contenders.items():
            seconds = run()
            if k:
                found[name].append(seconds)
    return found


def timed(work: Callable[[], Any]) -> Callable[[], float]:
    def run() -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    return run


def steps(width: float, batch: int, count: int) -> dict[str, list[float]]:
    """Whole steps without and with FOCUS, and the two updates alone."""
    bench = Bench("resnet18", "SRL", batch, width, Clock())
    params = [nn.Parameter(p.detach().clone()) for p in bench.model.parameters()]
    contenders = {
        "none": timed(lambda: bench.step("none")),
        "FOCUS": timed(lambda: bench.step("FOCUS")),
        "update none": _updating("none", params),
        "update FOCUS": _updating("focus", params),
    }
    return rounds(contenders, count)


def _updating(addon: str, params: list[nn.Parameter]) -> Callable[[], float]:
    update = Update(addon)

    def run() -> float:
        pair = [[torch.randn_like(p).mul_(1e-3) for p in params] for _ in range(2)]
        start = time.perf_counter()
        update.backward(Given.apply(pair[0], *params), Given.apply(pair[1], *params), params=params)
        return time.perf_counter() - start

    return run


def epochs(size: int, count: int) -> dict[str, list[float]]:
    """One epoch over forget sets of that size."""
    model = build_model("resnet18", width=0.125, seed=0)
    forget, retain = _noise(size), _noise(4096)

    def run(addon: str) -> Callable[[], float]:
        def once() -> float:
            result = expunge.unlearn(
                model,
                forget=forget,
                retain=retain,
                addon=addon,
                epochs=1,
                batch_size=64,
                execution=expunge.Execution(progress=False),
            )
            return float(result.history.epochs[0]["seconds"])

        return once

    return rounds({"none": run("none"), "FOCUS": run("focus")}, count)


def _noise(count: int) -> ImageSet:
    generator = torch.Generator().manual_seed(count)
    pixels = torch.randint(0, 256, (count, 3, 32, 32), dtype=torch.uint8, generator=generator)
    return ImageSet(pixels, torch.arange(count) % 10, [str(k) for k in range(10)])


def sweep(
    title: str, points: Sequence[float], measure: Callable[[Any], dict[str, list[float]]]
) -> Timed:
    """Measure every point and print a line for it."""
    print(f"\n{title}")
    found: Timed = {}
    for point in points:
        row = measure(point)
        if "update FOCUS" in row:
            pairs = zip(row.pop("update FOCUS"), row.pop("update none"), strict=True)
            row["add-on alone"] = [with_it - without for with_it, without in pairs]
        ratio = statistics.median(a / b for a, b in zip(row["FOCUS"], row["none"], strict=True))
        cells = "   ".join(f"{name} {statistics.median(v):.4f} s" for name, v in row.items())
        print(f"{point:>12,g}   {cells}   FOCUS / none {ratio:.3f}", flush=True)
        for name, values in row.items():
            found.setdefault(name, []).append(values)
    for name, lists in found.items():
        print(f"  slope of {name}: {slope(points, lists):.2f}")
    return found


def slope(points: Sequence[float], lists: list[list[float]]) -> float:
    """The exponent of a power law through the medians."""
    medians = [max(statistics.median(values), 1e-9) for values in lists]
    return float(np.polyfit(np.log(points), np.log(medians), 1)[0])


def short(count: float) -> str:
    """176402 as 0.18M, 256 as 256."""
    return f"{count / 1e6:.2g}M" if count >= 1e5 else f"{count:g}"


def draw(sweeps: dict[str, tuple[Sequence[float], Timed]], path: Path) -> None:
    """One panel a sweep, both axes logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import LogLocator

    looks = {"none": ("o", "#0072B2", "-"), "FOCUS": ("s", "#D55E00", "--")}
    looks["add-on alone"] = ("^", "#009E73", ":")
    figure, axes = plt.subplots(1, len(sweeps), figsize=(10, 3.2), layout="constrained")
    for axis, (title, (points, found)) in zip(axes, sweeps.items(), strict=True):
        for name, lists in found.items():
            marker, colour, line = looks[name]
            middle = [statistics.median(values) for values in lists]
            spread = [
                [m - min(values) for m, values in zip(middle, lists, strict=True)],
                [max(values) - m for m, values in zip(middle, lists, strict=True)],
            ]
            axis.errorbar(
                points, middle, spread, marker=marker, color=colour, ls=line, ms=5, label=name
            )
        axis.set(xscale="log", yscale="log", xlabel=title)
        axis.set_xticks(points, [short(point) for point in points])
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.tick_params(which="minor", labelbottom=False, labelleft=False)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("seconds a step")
    axes[-1].set_ylabel("seconds an epoch")
    axes[0].legend(frameon=False, fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, help="picture to draw; the numbers go beside it")
    parser.add_argument("--redraw", action="store_true", help="draw numbers measured before")
    options = parser.parse_args()
    if options.redraw:
        if options.out is None:
            parser.error("--redraw goes with --out.")
        draw(json.loads(options.out.with_suffix(".json").read_text()), options.out)
        return
    count = options.rounds
    print(
        f"{platform.machine()}, {torch.get_num_threads()} of {os.cpu_count()} threads, torch "
        f"{torch.__version__}, load {os.getloadavg()[0]:.1f}; {count} rounds"
    )
    sizes = {
        width: sum(p.numel() for p in build_model("resnet18", width=width).parameters())
        for width in WIDTHS
    }
    widths = {size: width for width, size in sizes.items()}
    sweeps = {
        "parameters": (
            list(widths),
            sweep("parameters", list(widths), lambda size: steps(widths[size], 64, count)),
        ),
        "batch size": (
            BATCHES,
            sweep("batch size", BATCHES, lambda batch: steps(0.25, batch, count)),
        ),
        "forget set": (SIZES, sweep("forget set", SIZES, lambda size: epochs(size, count))),
    }
    if options.out:
        draw(sweeps, options.out)
        options.out.with_suffix(".json").write_text(json.dumps(sweeps, indent=1))


if __name__ == "__main__":
    main()
