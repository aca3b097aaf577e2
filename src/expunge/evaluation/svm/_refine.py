"""Refine an SVM solved in parts into the SVM of the whole: a warm start, then its errors.

The dual in the form libsvm solves it, with signs yᵢ = ±1 and f(x) = Σᵢ αᵢ yᵢ k(xᵢ, x):

    minimise  ½ Σᵢⱼ αᵢαⱼyᵢyⱼk(xᵢ, xⱼ) − Σᵢ αᵢ,   0 ≤ αᵢ ≤ C,   Σᵢ yᵢαᵢ = 0.

Where members and non-members overlap, as in a membership attack, nine in ten α sit at C and stay
there. So the α of separate fits are nearly right: one pass over the kernel tells which are not, and
sequential minimal optimisation (Fan, Chen and Lin, 2005: second-order working sets) moves those.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from expunge._arrays import Array
from expunge.evaluation.svm._kernel_sums import (
    exponentials,
    exponents,
    kernel_sums,
    own_kernel_sums,
)


class Dual(NamedTuple):
    """``alphas`` [N] and the intercept: the decision function is f(x) + intercept."""

    alphas: Array
    intercept: float
    settled: bool = True
    """Whether the optimum was reached within the tolerance."""


def refine(
    x: Array,
    signs: Array,
    alphas: Array,
    cost: float,
    gamma: float,
    *,
    rounds: int = 30,
    tol: float = 0.02,
    most: int = 8000,
) -> Dual:
    """Improve ``alphas`` (with Σ yα = 0) until hardly any example is wrong by more than ``tol``.

    A round moves at most ``most`` examples, the furthest off: their kernel is kept whole.
    """
    alphas = alphas.copy()
    wanted = signs - own_kernel_sums(x, alphas * signs, gamma)  # the intercept each implies
    intercept = _intercept(wanted, signs, alphas, cost)
    settled = False
    for _ in range(rounds):
        margins = signs * (intercept - wanted)  # y (f + b) − 1
        free = (alphas > 0) & (alphas < cost)
        wrong = np.where(alphas >= cost, margins, np.where(alphas <= 0, -margins, abs(margins)))
        settled = bool((wrong > tol).mean() < 4e-3)
        if settled:
            break
        chosen = _worst(
            np.where(free, np.maximum(wrong, tol), wrong), wanted > intercept, tol, most
        )
        moved = optimise(
            x[chosen],
            signs[chosen],
            cost,
            gamma,
            alphas=alphas[chosen],
            wanted=wanted[chosen],
            tol=tol,
        )
        change = moved.alphas - alphas[chosen]
        active = change != 0
        alphas[chosen], intercept = moved.alphas, moved.intercept
        steps = (change * signs[chosen])[active]
        wanted -= kernel_sums(x, x[chosen[active]], steps, gamma)
    return Dual(alphas, _intercept(wanted, signs, alphas, cost), settled)


def _worst(wrong: Array, up: NDArray[np.bool_], tol: float, most: int) -> NDArray[np.intp]:
    """Examples wrong by ``tol`` or more; at most half of ``most`` that want each way."""
    chosen = np.flatnonzero(wrong >= tol)
    if len(chosen) <= most:
        return chosen
    chosen = chosen[np.argsort(-wrong[chosen], kind="stable")]
    ways = [chosen[up[chosen] == way][: most // 2] for way in (True, False)]
    return np.sort(np.concatenate(ways))


def optimise(
    x: Array,
    signs: Array,
    cost: float,
    gamma: float,
    *,
    alphas: Array | None = None,
    wanted: Array | None = None,
    tol: float = 0.05,
) -> Dual:
    """The problem in a few examples, by at most 20 steps an example; their kernel is kept whole.

    ``alphas`` are where to start, ``wanted`` is y − f(x) there (all other examples held): zero and
    y by default.
    """
    alphas = np.zeros(len(x)) if alphas is None else alphas.copy()
    wanted = (signs if wanted is None else wanted).astype(np.float32)
    kernel = exponentials(*exponents(x, x, gamma))
    # An example may raise y α (up) or lower it (down); −inf and +inf bar it.
    up = np.where(np.where(signs > 0, alphas < cost, alphas > 0), 0.0, -np.inf).astype(np.float32)
    down = np.where(np.where(signs > 0, alphas > 0, alphas < cost), 0.0, np.inf).astype(np.float32)
    for _ in range(20 * len(x)):
        i = int(np.argmax(wanted + up))
        gaps = wanted[i] - (wanted + down)
        if not gaps.max() > tol:
            break
        curvature = np.maximum(2.0 - 2.0 * kernel[i], 1e-6)
        j = int(np.argmax(np.where(gaps > 0, gaps, 0.0) ** 2 / curvature))
        room_i = cost - alphas[i] if signs[i] > 0 else alphas[i]
        room_j = alphas[j] if signs[j] > 0 else cost - alphas[j]
        step = min(float(gaps[j] / curvature[j]), room_i, room_j)
        alphas[i] = _snap(alphas[i] + signs[i] * step, cost)
        alphas[j] = _snap(alphas[j] - signs[j] * step, cost)
        wanted -= np.float32(step) * (kernel[i] - kernel[j])
        for k in (i, j):
            rises = alphas[k] < cost if signs[k] > 0 else alphas[k] > 0
            falls = alphas[k] > 0 if signs[k] > 0 else alphas[k] < cost
            up[k], down[k] = 0.0 if rises else -np.inf, 0.0 if falls else np.inf
    return Dual(alphas, _intercept(wanted.astype(np.float64), signs, alphas, cost))


def _intercept(wanted: Array, signs: Array, alphas: Array, cost: float) -> float:
    """The mean that free examples want; without any, the middle of what the bounds allow."""
    free = (alphas > 0) & (alphas < cost)
    if free.any():
        return float(np.median(wanted[free]))
    low = wanted[(signs > 0) == (alphas <= 0)]
    high = wanted[(signs > 0) != (alphas <= 0)]
    ends = [*([low.max()] if len(low) else []), *([high.min()] if len(high) else [])]
    return float(np.mean(ends))


def _snap(value: float, cost: float) -> float:
    """Onto a bound that rounding would miss."""
    return 0.0 if value < 1e-9 * cost else cost if value > (1 - 1e-9) * cost else value
