"""The support vector classifier of the membership attacks: as published, but faster.

As published: RBF kernel, C = 3, gamma = 1 / number of features, on the raw features. libsvm takes
time quadratic in the examples, so more than :data:`SMALL` of them are made a smaller problem:

- few distinct rows (a binary feature): each row once, its multiplicity as a weight (C_i = C n_i) —
  the same optimisation problem;
- one number per example: :data:`BINS` bins of equal counts, each at the mean of what it holds,
  weighted by how many members and non-members it holds;
- vectors: the dual in the form libsvm solves it, with signs yᵢ = ±1 and f(x) = Σᵢ αᵢ yᵢ k(xᵢ, x),

      minimise  ½ Σᵢⱼ αᵢαⱼyᵢyⱼk(xᵢ, xⱼ) − Σᵢ αᵢ,   0 ≤ αᵢ ≤ C,   Σᵢ yᵢαᵢ = 0,

  from the α of separate fits to the examples of each largest entry. Where members and non-members
  overlap, nine in ten α sit at C and stay there, so these α are nearly right: one pass over the
  kernel tells which are not, and sequential minimal optimisation (Fan, Chen and Lin, 2005:
  second-order working sets) moves those.

``benchmarks/evaluate.py`` compares this with scikit-learn's SVC: equal decisions for 99.8 %.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from expunge._arrays import Array
from expunge._errors import InvalidInput

COST = 3.0
BINS = 256
SMALL = 2000
"""Up to this many examples the plain fit is used, as it takes no time."""
LARGEST_PART = 3000
"""Examples of a separate fit; their kernel is kept whole."""
MOST_MOVED = 8000
"""Examples that a round of refinement moves; their kernel is kept whole."""
TILE = (128, 2048)
"""Rows and columns of a kernel that is not kept: they fit the cache."""
KERNEL_CACHE = 1000
"""MiB that libsvm may keep of the kernel; with its 200, many examples take twice as long."""
LARGEST_SINGLE = 1e3
"""Exponents of up to this size are float32, right to 1e-4."""

Decide = Callable[[Array], Array]
Flags = NDArray[np.bool_]
Factor = NDArray[np.floating[Any]]


def fit_svc(x: Array, members: Flags, seed: int = 0, *, quick: bool = False) -> Decide:
    """A decision function that is above zero where a row looks like a member's.

    ``x`` are features [N, d]; ``members`` [N] says which rows are members', and both kinds should
    occur. ``seed`` chooses the parts of a separate fit; ``quick`` computes in single precision.
    """
    if members.all() or not members.any():
        raise InvalidInput(
            "A membership attack needs members and non-members to learn from. "
            f"(got {int(members.sum())} members, {int((~members).sum())} non-members)"
        )
    if len(x) <= SMALL:
        return _plain(x, members, quick=quick)
    rows, where = np.unique(x, axis=0, return_inverse=True)
    if len(rows) <= BINS:
        return _weighted(rows, where.reshape(-1), members, quick=quick)
    if x.shape[1] == 1:
        return _weighted(*_bins(x[:, 0]), members, quick=quick)
    return _in_parts(x, members, seed)


def _plain(
    x: Array, members: Flags, weights: Array | None = None, *, quick: bool = False
) -> Decide:
    """scikit-learn's SVC; its decision function, or ten times as fast in single precision."""
    from sklearn.svm import SVC  # slow to load, and only attacks need it

    model: Any = SVC(C=COST, gamma="auto", kernel="rbf", cache_size=KERNEL_CACHE)
    model.fit(x, members.astype(np.int64), sample_weight=weights)
    decide: Decide = model.decision_function
    if not quick:
        return decide
    support, alphas, gamma = model.support_vectors_, model.dual_coef_[0], 1.0 / x.shape[1]
    return lambda targets: kernel_sums(targets, support, alphas, gamma) + model.intercept_[0]


def _weighted(
    rows: Array, where: NDArray[np.intp], members: Flags, *, quick: bool = False
) -> Decide:
    """Every distinct row twice: as members and as non-members, with the number of each."""
    counts = [np.bincount(where[kind], minlength=len(rows)) for kind in (members, ~members)]
    x = np.concatenate([rows[count > 0] for count in counts])
    weights = np.concatenate([count[count > 0] for count in counts]).astype(np.float64)
    flags = np.arange(len(x)) < int((counts[0] > 0).sum())
    return _plain(x, flags, weights, quick=quick)


def _bins(values: Array) -> tuple[Array, NDArray[np.intp]]:
    """Bins of equal counts: the mean of each, [B, 1], and which one every value is in."""
    edges = np.unique(np.quantile(values, np.linspace(0.0, 1.0, BINS + 1)[1:-1]))
    where = np.searchsorted(edges, values, side="right")
    _, where = np.unique(where, return_inverse=True)
    means = np.bincount(where, weights=values) / np.bincount(where)
    return means[:, None], where


def _in_parts(x: Array, members: Flags, seed: int) -> Decide:
    """Separate fits to parts, then refined into one; the plain fit where that does not settle."""
    signs = np.where(members, 1.0, -1.0)
    gamma = 1.0 / x.shape[1]
    order = np.random.default_rng(seed).permutation(len(x))
    group = x.argmax(1)[order]
    alphas = np.zeros(len(x))
    for name in np.unique(group):
        mine = order[group == name]
        for part in np.array_split(mine, -(-len(mine) // LARGEST_PART)):
            alphas[part] = optimise(x[part], signs[part], gamma).alphas
    dual = refine(x, signs, alphas, gamma)
    if not dual.settled:
        return _plain(x, members)
    known = dual.alphas > 0
    support, weights = x[known], (dual.alphas * signs)[known]

    def decide(targets: Array) -> Array:
        return kernel_sums(targets, support, weights, gamma) + dual.intercept

    return decide


class Dual(NamedTuple):
    """``alphas`` [N] and the intercept: the decision function is f(x) + intercept."""

    alphas: Array
    intercept: float
    settled: bool = True
    """Whether the optimum was reached within the tolerance."""


def refine(
    x: Array, signs: Array, alphas: Array, gamma: float, *, rounds: int = 200, tol: float = 0.02
) -> Dual:
    """Improve ``alphas`` (with Σ yα = 0) until hardly any example is wrong by more than ``tol``."""
    alphas = alphas.copy()
    wanted = signs - kernel_sums(x, x, alphas * signs, gamma)  # the intercept each implies
    intercept = _intercept(wanted, signs, alphas)
    settled = False
    for _ in range(rounds):
        # How wrong each example is.
        margins = signs * (intercept - wanted)  # y (f + b) − 1
        free = (alphas > 0) & (alphas < COST)
        wrong = np.where(alphas >= COST, margins, np.where(alphas <= 0, -margins, abs(margins)))
        settled = bool((wrong > tol).mean() < 4e-3)
        if settled:
            break
        # Move those that are furthest off, and all that are free to move.
        chosen = _worst(np.where(free, np.maximum(wrong, tol), wrong), wanted > intercept, tol)
        moved = optimise(
            x[chosen], signs[chosen], gamma, alphas=alphas[chosen], wanted=wanted[chosen], tol=tol
        )
        # What that changes for all others.
        change = moved.alphas - alphas[chosen]
        active = change != 0
        alphas[chosen], intercept = moved.alphas, moved.intercept
        steps = (change * signs[chosen])[active]
        wanted -= kernel_sums(x, x[chosen[active]], steps, gamma)
    return Dual(alphas, _intercept(wanted, signs, alphas), settled)


def _worst(wrong: Array, up: Flags, tol: float) -> NDArray[np.intp]:
    """Examples wrong by ``tol`` or more; of too many, the worst that want each way."""
    chosen = np.flatnonzero(wrong >= tol)
    if len(chosen) <= MOST_MOVED:
        return chosen
    chosen = chosen[np.argsort(-wrong[chosen], kind="stable")]
    ways = [chosen[up[chosen] == way][: MOST_MOVED // 2] for way in (True, False)]
    return np.sort(np.concatenate(ways))


def optimise(
    x: Array,
    signs: Array,
    gamma: float,
    *,
    alphas: Array | None = None,
    wanted: Array | None = None,
    tol: float = 0.05,
) -> Dual:
    """The problem in a few examples, by at most 20 steps an example.

    ``alphas`` are where to start, ``wanted`` is y − f(x) there (all other examples held): zero and
    y by default.
    """
    alphas = np.zeros(len(x)) if alphas is None else alphas.copy()
    wanted = (signs if wanted is None else wanted).astype(np.float32)
    kernel = _exponentials(*_exponents(x, x, gamma))
    # An example may raise y α (up) or lower it (down); −inf and +inf bar it.
    up = np.where(np.where(signs > 0, alphas < COST, alphas > 0), 0.0, -np.inf).astype(np.float32)
    down = np.where(np.where(signs > 0, alphas > 0, alphas < COST), 0.0, np.inf).astype(np.float32)
    for _ in range(20 * len(x)):
        # The pair that gains most: i wants up most, j down, relative to the curvature.
        i = int(np.argmax(wanted + up))
        gaps = wanted[i] - (wanted + down)
        if not gaps.max() > tol:
            break
        curvature = np.maximum(2.0 - 2.0 * kernel[i], 1e-6)
        j = int(np.argmax(np.where(gaps > 0, gaps, 0.0) ** 2 / curvature))
        # Move both as far as the optimum or a bound.
        room_i = COST - alphas[i] if signs[i] > 0 else alphas[i]
        room_j = alphas[j] if signs[j] > 0 else COST - alphas[j]
        step = min(float(gaps[j] / curvature[j]), room_i, room_j)
        alphas[i] = _snap(alphas[i] + signs[i] * step)
        alphas[j] = _snap(alphas[j] - signs[j] * step)
        wanted -= np.float32(step) * (kernel[i] - kernel[j])
        for k in (i, j):
            rises = alphas[k] < COST if signs[k] > 0 else alphas[k] > 0
            falls = alphas[k] > 0 if signs[k] > 0 else alphas[k] < COST
            up[k], down[k] = 0.0 if rises else -np.inf, 0.0 if falls else np.inf
    return Dual(alphas, _intercept(wanted.astype(np.float64), signs, alphas))


def _intercept(wanted: Array, signs: Array, alphas: Array) -> float:
    """The median that free examples want; without any, the middle of what the bounds allow."""
    free = (alphas > 0) & (alphas < COST)
    if free.any():
        return float(np.median(wanted[free]))
    low = wanted[(signs > 0) == (alphas <= 0)]
    high = wanted[(signs > 0) != (alphas <= 0)]
    ends = [*([low.max()] if len(low) else []), *([high.min()] if len(high) else [])]
    return float(np.mean(ends))


def _snap(value: float) -> float:
    """Onto a bound that rounding would miss."""
    return 0.0 if value < 1e-9 * COST else COST if value > (1 - 1e-9) * COST else value


def kernel_sums(a: Array, b: Array, weights: Array, gamma: float) -> Array:
    """``Σⱼ weightsⱼ exp(−gamma |aᵢ − bⱼ|²)`` for every row of ``a``, tile by tile, in float32."""
    left, right = _exponents(a, b, gamma)
    weights = weights.astype(np.float32)
    height, width = TILE

    def block(start: int) -> Array:
        rows = left[start : start + height]
        total = np.zeros(len(rows))
        for column in range(0, right.shape[1], width):
            tile = _exponentials(rows, right[:, column : column + width])
            total += tile @ weights[column : column + width]
        return total

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return np.concatenate(list(pool.map(block, range(0, len(left), height))))


def _exponents(a: Array, b: Array, gamma: float) -> tuple[Factor, Factor]:
    """Factors whose product is ``−gamma |aᵢ − bⱼ|²``: [len(a), d + 2] and [d + 2, len(b)].

    The product is a difference of large numbers where points are far from their middle (logits of a
    model that diverged), which float32 does not hold: those factors are float64.
    """
    middle = b.mean(0)
    a, b = a - middle, b - middle
    sizes = [gamma * (points * points).sum(1) for points in (a, b)]
    left = np.column_stack([2.0 * gamma * a, -sizes[0], np.ones(len(a))])
    right = np.column_stack([b, np.ones(len(b)), -sizes[1]])
    exact = max(size.max(initial=0.0) for size in sizes) <= LARGEST_SINGLE
    kind = np.float32 if exact else np.float64
    return left.astype(kind), np.ascontiguousarray(right.T, dtype=kind)


def _exponentials(left: Factor, right: Factor) -> NDArray[np.float32]:
    """``exp(left @ right)`` of the factors that :func:`_exponents` returns."""
    kernel: NDArray[np.float32] = (left @ right).astype(np.float32, copy=False)
    return np.exp(kernel, out=kernel)
