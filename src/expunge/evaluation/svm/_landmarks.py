"""A kernel SVM on landmark features, solved in the primal: for kernels of low rank.

Nyström: with landmarks ``z`` of the data, ``φ(x) = K_zz^{-1/2} k(z, x)`` gives
``φ(x)·φ(x') ≈ k(x, x')``. The SVM on ``φ`` has as many unknowns as landmarks:

    minimise  ½|w|² + C Σᵢ h(1 − yᵢ(w·φ(xᵢ) + b)),   h the hinge,

which Newton's method solves in a few steps once the corner of the hinge is rounded
(Chapelle, 2007): ``h`` is quadratic on ``(0, width)`` and ``width`` is shrunk step by step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from expunge._arrays import Array


def rbf(a: Array, b: Array, gamma: float) -> Array:
    """``exp(−gamma |a − b|²)`` for all pairs, [len(a), len(b)]."""
    squares = (a * a).sum(1)[:, None] + (b * b).sum(1)[None, :] - 2.0 * (a @ b.T)
    np.maximum(squares, 0.0, out=squares)
    squares *= -gamma
    result: Array = np.exp(squares, out=squares)
    return result


@dataclass(frozen=True, eq=False)
class Landmarks:
    """Landmark points [m, d] and the matrix [m, r] that makes their kernel orthonormal."""

    points: Array
    whiten: Array
    gamma: float

    def features(self, x: Array) -> Array:
        """``φ(x)``, [len(x), r]."""
        result: Array = rbf(x, self.points, self.gamma) @ self.whiten
        return result

    def residual(self, x: Array) -> float:
        """The mean of ``k(x, x) − |φ(x)|²``, in [0, 1]: how much of the kernel is missed."""
        return float(1.0 - (self.features(x) ** 2).sum(1).mean())


def choose_landmarks(
    x: Array, gamma: float, count: int, seed: int, floor: float = 1e-7
) -> Landmarks:
    """``count`` random rows of ``x``; directions below ``floor`` of the largest are dropped."""
    chosen = np.random.default_rng(seed).choice(len(x), min(count, len(x)), replace=False)
    points = x[np.sort(chosen)]
    values, vectors = np.linalg.eigh(rbf(points, points, gamma))
    keep = values > floor * values[-1]
    return Landmarks(points, vectors[:, keep] / np.sqrt(values[keep]), gamma)


def solve_svm(
    features: Array,
    signs: Array,
    cost: float,
    widths: tuple[float, ...] = (4.0, 1.0, 0.3, 0.1, 0.03),
    steps: int = 20,
) -> tuple[Array, float]:
    """Weights and intercept of the linear SVM with labels ±1 and the hinge summed over rows."""
    rows = np.concatenate([features, np.ones((len(features), 1))], axis=1) * signs[:, None]
    ridge = np.ones(rows.shape[1])
    ridge[-1] = 1e-6  # the intercept is free, but for a Hessian that can be inverted
    weights: Array = np.zeros(rows.shape[1])
    for width in widths:
        for _ in range(steps):
            weights, gain = _newton(rows, weights, ridge, cost, width)
            if gain < 1e-6:
                break
    return weights[:-1], float(weights[-1])


def _newton(
    rows: Array, weights: Array, ridge: Array, cost: float, width: float
) -> tuple[Array, float]:
    """One damped Newton step; and the relative gain of the objective."""
    margins = rows @ weights
    slack = 1.0 - margins
    gradient = ridge * weights - cost * (np.clip(slack / width, 0.0, 1.0) @ rows)
    active = rows[(slack > 0.0) & (slack < width)]
    hessian = (cost / width) * (active.T @ active)
    hessian[np.diag_indices_from(hessian)] += ridge + 1e-10 * np.trace(hessian) / len(ridge)
    step = -np.linalg.solve(hessian, gradient)
    moved = rows @ step
    before = _objective(weights, margins, ridge, cost, width)
    slope = float(gradient @ step)
    length = 1.0
    while length > 1e-4:
        after = _objective(weights + length * step, margins + length * moved, ridge, cost, width)
        if after <= before + 1e-4 * length * slope:
            return weights + length * step, (before - after) / max(before, 1e-300)
        length *= 0.5
    return weights, 0.0


def _objective(weights: Array, margins: Array, ridge: Array, cost: float, width: float) -> float:
    slack: Any = 1.0 - margins
    rounded = np.where(slack >= width, slack - width / 2, np.maximum(slack, 0.0) ** 2 / (2 * width))
    return float(0.5 * (ridge * weights * weights).sum() + cost * rounded.sum())
