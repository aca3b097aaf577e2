"""The support vector classifier of the membership attacks: as published, or fast and the same.

As published: RBF kernel, C = 3, gamma = 1 / number of features, on the raw features. libsvm takes
time quadratic in the examples, so the fast way makes the problem smaller without changing it:

- few distinct rows (a binary feature): each row once, its multiplicity as a weight (C_i = C n_i) —
  the same optimisation problem;
- one number per example: :data:`BINS` bins of equal counts, each at the mean of what it holds,
  weighted by how many members and non-members it holds;
- vectors under a smooth kernel (probabilities): :mod:`~expunge.evaluation.svm._landmarks`;
- vectors under a narrow kernel (logits): separate fits to the examples of each largest entry, whose
  dual variables :mod:`~expunge.evaluation.svm._refine` then turns into those of the whole problem.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from expunge._arrays import Array
from expunge._errors import InvalidInput
from expunge.evaluation.svm._kernel_sums import kernel_sums
from expunge.evaluation.svm._landmarks import Landmarks, choose_landmarks, solve_svm
from expunge.evaluation.svm._refine import optimise, refine

COST = 3.0
BINS = 256
LANDMARKS = 128
SMALL = 2000
"""Up to this many examples the plain fit is used, as it takes no time."""

Decide = Callable[[Array], Array]
Flags = NDArray[np.bool_]


def fit_svc(x: Array, members: Flags, *, exact: bool = False, seed: int = 0) -> Decide:
    """A decision function that is above zero where a row looks like a member's.

    Args:
        x: features, [N, d].
        members: which rows are members', [N]; both kinds should occur.
        exact: fit scikit-learn's ``SVC(C=3, gamma="auto")`` to all rows.
        seed: chooses the landmarks and the parts.
    """
    if members.all() or not members.any():
        raise InvalidInput(
            "A membership attack needs members and non-members to learn from. "
            f"(got {int(members.sum())} members, {int((~members).sum())} non-members)"
        )
    if exact or len(x) <= SMALL:
        return _plain(x, members)
    rows, where = np.unique(x, axis=0, return_inverse=True)
    if len(rows) <= BINS:
        return _weighted(rows, where.reshape(-1), members)
    if x.shape[1] == 1:
        return _weighted(*_bins(x[:, 0]), members)
    gamma = 1.0 / x.shape[1]
    landmarks = choose_landmarks(x, gamma, LANDMARKS, seed)
    if landmarks.residual(x[:: max(1, len(x) // 1000)]) < 1e-3:
        return _on_landmarks(landmarks, x, members)
    return _in_parts(x, members, gamma, seed)


def _plain(x: Array, members: Flags, weights: Array | None = None) -> Decide:
    from sklearn.svm import SVC  # slow to load, and only attacks need it

    model: Any = SVC(C=COST, gamma="auto", kernel="rbf")
    model.fit(x, members.astype(np.int64), sample_weight=weights)
    decide: Decide = model.decision_function
    return decide


def _weighted(rows: Array, where: NDArray[np.intp], members: Flags) -> Decide:
    """Every distinct row twice: as members and as non-members, with the number of each."""
    counts = [np.bincount(where[kind], minlength=len(rows)) for kind in (members, ~members)]
    x = np.concatenate([rows[count > 0] for count in counts])
    weights = np.concatenate([count[count > 0] for count in counts]).astype(np.float64)
    flags = np.arange(len(x)) < int((counts[0] > 0).sum())
    return _plain(x, flags, weights)


def _bins(values: Array) -> tuple[Array, NDArray[np.intp]]:
    """Bins of equal counts: the mean of each, [B, 1], and which one every value is in."""
    edges = np.unique(np.quantile(values, np.linspace(0.0, 1.0, BINS + 1)[1:-1]))
    where = np.searchsorted(edges, values, side="right")
    _, where = np.unique(where, return_inverse=True)
    means = np.bincount(where, weights=values) / np.bincount(where)
    return means[:, None], where


def _on_landmarks(landmarks: Landmarks, x: Array, members: Flags) -> Decide:
    signs = np.where(members, 1.0, -1.0)
    weights, intercept = solve_svm(landmarks.features(x), signs, COST)

    def decide(targets: Array) -> Array:
        result: Array = landmarks.features(targets) @ weights + intercept
        return result

    return decide


def _in_parts(x: Array, members: Flags, gamma: float, seed: int, largest: int = 3000) -> Decide:
    """Fits to parts of at most ``largest`` examples, then refined into one."""
    signs = np.where(members, 1.0, -1.0)
    order = np.random.default_rng(seed).permutation(len(x))
    group = x.argmax(1)[order]
    parts = [
        part
        for name in np.unique(group)
        for part in np.array_split(order[group == name], -(-int((group == name).sum()) // largest))
    ]
    alphas = np.zeros(len(x))
    for part in parts:
        alphas[part] = optimise(x[part], signs[part], COST, gamma).alphas
    dual = refine(x, signs, alphas, COST, gamma)
    if not dual.settled:
        return _plain(x, members)
    known = dual.alphas > 0
    support, weights = x[known], (dual.alphas * signs)[known]

    def decide(targets: Array) -> Array:
        return kernel_sums(targets, support, weights, gamma) + dual.intercept

    return decide
