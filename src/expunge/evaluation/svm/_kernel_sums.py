"""Sums over an RBF kernel that is too large to keep: computed tile by tile."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from expunge._arrays import Array

_ROWS, _COLUMNS = 128, 2048  # a tile of the kernel fits the cache
_SINGLE = 1e3
"""Exponents of up to this size are float32, right to 1e-4."""
Single = NDArray[np.float32]
Factor = NDArray[np.floating[Any]]


def kernel_sums(a: Array, b: Array, weights: Array, gamma: float) -> Array:
    """``Σⱼ weightsⱼ exp(−gamma |aᵢ − bⱼ|²)`` for every row of ``a``, tile by tile, in float32."""
    left, right = exponents(a, b, gamma)
    weights = weights.astype(np.float32)

    def block(start: int) -> Array:
        rows = left[start : start + _ROWS]
        total = np.zeros(len(rows))
        for column in range(0, right.shape[1], _COLUMNS):
            tile = exponentials(rows, right[:, column : column + _COLUMNS])
            total += tile @ weights[column : column + _COLUMNS]
        return total

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return np.concatenate(list(pool.map(block, range(0, len(left), _ROWS))))


def own_kernel_sums(x: Array, weights: Array, gamma: float) -> Array:
    """``kernel_sums(x, x, weights, gamma)`` from half the kernel, as it is symmetric."""
    left, right = exponents(x, x, gamma)
    weights = weights.astype(np.float32)

    def block(start: int) -> Array:
        stop = min(start + _ROWS, len(x))
        rows, row_weights = left[start:stop], weights[start:stop]
        total = np.zeros(len(x) - start)
        for column in range(start, len(x), _COLUMNS):
            end = min(column + _COLUMNS, len(x))
            tile = exponentials(rows, right[:, column:end])
            total[: stop - start] += tile @ weights[column:end]
            first = max(column, stop)  # what lies left of it was counted just now
            total[first - start : end - start] += row_weights @ tile[:, first - column :]
        return total

    result = np.zeros(len(x))
    starts = range(0, len(x), _ROWS)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for start, total in zip(starts, pool.map(block, starts), strict=True):
            result[start:] += total
    return result


def exponents(a: Array, b: Array, gamma: float) -> tuple[Factor, Factor]:
    """Factors whose product is ``−gamma |aᵢ − bⱼ|²``: [len(a), d + 2] and [d + 2, len(b)].

    The product is a difference of large numbers where points are far from their middle (logits of a
    model that diverged), which float32 does not hold: those factors are float64.
    """
    middle = b.mean(0)
    a, b = a - middle, b - middle
    sizes = [gamma * (points * points).sum(1) for points in (a, b)]
    left = np.column_stack([2.0 * gamma * a, -sizes[0], np.ones(len(a))])
    right = np.column_stack([b, np.ones(len(b)), -sizes[1]])
    exact = max(size.max(initial=0.0) for size in sizes) <= _SINGLE
    kind = np.float32 if exact else np.float64
    return left.astype(kind), np.ascontiguousarray(right.T, dtype=kind)


def exponentials(left: Factor, right: Factor) -> Single:
    """``exp(left @ right)`` of the factors that :func:`exponents` returns, in float32."""
    kernel: Single = (left @ right).astype(np.float32, copy=False)
    return np.exp(kernel, out=kernel)
