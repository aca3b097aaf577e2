"""What an update costs in a loop of one's own around a small model, step by step.

    python benchmarks/small.py --rounds 100

Two models of 0.7 M parameters: a perceptron of 6 tensors, and ResNet18 at width 1/4, of 62. All
contenders take turns, each from two losses to ``p.grad``, forward passes not counted:

- plain: ``backward`` of α·U and of β·C into the same ``p.grad``: two passes and an addition;
- none: ``Update`` without an add-on, with its diagnostics (the default) and without;
- textbook: FOCUS as one would write it: two passes with a copy of each gradient,
  ``Normal(0, 1).cdf`` and plain temporaries, parameter by parameter;
- FOCUS: ``Update`` with it, with its diagnostics (the default) and without.

The ratio is the median over the rounds of contender / base within a round, with its quartiles.
``--clock cpu --threads 1`` counts processor time, for a machine with other work.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.distributions import Normal
from torch.nn.functional import cross_entropy

from expunge.models import build_model
from expunge.update import Update

ALPHA, BETA, DECAY, EPS = 0.05, 0.95, 0.999, 1e-8
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
COMPARISONS = (
    ("none", "plain"),
    ("none, no diagnostics", "plain"),
    ("textbook", "FOCUS"),
    ("textbook", "FOCUS, no diagnostics"),
)
Step = Callable[[Tensor, Tensor], None]


def perceptron() -> nn.Module:
    """0.67 M parameters in 6 tensors, for images of 28x28."""
    sizes = (784, 640, 256, 10)
    layers = [nn.Linear(a, b) for a, b in pairwise(sizes)]
    return nn.Sequential(nn.Flatten(), layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "perceptron": (perceptron, (64, 1, 28, 28)),
    "resnet18": (lambda: build_model("resnet18", width=0.25, seed=0), (4, 3, 32, 32)),
}


def contenders(params: list[nn.Parameter]) -> dict[str, Step]:
    """Every way from two losses to ``p.grad``."""
    return {
        "plain": _plain,
        "none": _updating(Update("none"), params),
        "none, no diagnostics": _updating(Update("none", diagnostics=False), params),
        "textbook": _textbook(params),
        "FOCUS": _updating(Update("focus"), params),
        "FOCUS, no diagnostics": _updating(Update("focus", diagnostics=False), params),
    }


def _plain(loss_u: Tensor, loss_c: Tensor) -> None:
    (ALPHA * loss_u).backward()
    (BETA * loss_c).backward()


def _updating(update: Update, params: list[nn.Parameter]) -> Step:
    return lambda loss_u, loss_c: update.backward(loss_u, loss_c, params=params)


def _textbook(params: list[nn.Parameter]) -> Step:
    normal = Normal(0.0, 1.0)
    moments = [[torch.zeros_like(p) for p in params] for _ in range(2)]
    count = 0

    def gradient(loss: Tensor) -> list[Tensor]:
        for p in params:
            p.grad = None
        loss.backward()
        return [p.grad.clone() for p in params if p.grad is not None]

    def phi(g: Tensor, moment: Tensor) -> Tensor:
        moment.mul_(DECAY).add_((1 - DECAY) * g**2)
        return normal.cdf(g / torch.sqrt(moment / (1 - DECAY**count) + EPS))

    def step(loss_u: Tensor, loss_c: Tensor) -> None:
        nonlocal count
        count += 1
        g_u, g_c = gradient(loss_u), gradient(loss_c)
        with torch.no_grad():
            for p, u, c, v_u, v_c in zip(params, g_u, g_c, *moments, strict=True):
                phi_u, phi_c = phi(u, v_u), phi(c, v_c)
                focus = phi_u * phi_c + (1 - phi_u) * (1 - phi_c)
                p.grad = focus * (ALPHA * u + BETA * c)

    return step


def measure(name: str, rounds: int, clock: Callable[[], float]) -> dict[str, list[float]]:
    """Seconds of every contender in every round, after five to warm up."""
    torch.manual_seed(0)
    make, shape = MODELS[name]
    model = make()
    params = list(model.parameters())
    steps = contenders(params)
    images = [torch.rand(shape) for _ in range(2)]
    labels = torch.arange(shape[0]) % 10
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for k in range(-5, rounds):
        for contender, step in steps.items():
            for p in params:
                p.grad = None
            losses = [cross_entropy(model(x), labels) for x in images]
            start = clock()
            step(*losses)
            if k >= 0:
                seconds[contender].append(clock() - start)
    return seconds


def show(name: str, seconds: dict[str, list[float]]) -> None:
    """Print the medians and the comparisons."""
    print(f"\n{name}, {len(seconds['plain'])} interleaved rounds")
    for contender, values in seconds.items():
        low, middle, high = statistics.quantiles(values, n=4)
        print(f"{contender:24}{1e3 * middle:9.2f} ms   quartiles {1e3 * low:.2f}, {1e3 * high:.2f}")
    for above, below in COMPARISONS:
        found = [a / b for a, b in zip(seconds[above], seconds[below], strict=True)]
        low, middle, high = statistics.quantiles(found, n=4)
        print(f"{above} / {below}: {middle:.2f} [{low:.2f}, {high:.2f}]")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--threads", type=int, help="of torch; all cores unless given")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    print(
        f"{torch.backends.cpu.get_cpu_capability()}, {torch.get_num_threads()} of "
        f"{os.cpu_count()} threads, torch {torch.__version__}, {options.clock} clock, "
        f"load {os.getloadavg()[0]:.1f}"
    )
    for name in options.models:
        show(name, measure(name, options.rounds, CLOCKS[options.clock]))


if __name__ == "__main__":
    main()
