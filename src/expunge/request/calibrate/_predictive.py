"""The predictive distribution of an accuracy: how many of n_f unseen examples will be right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from expunge._errors import InvalidInput
from expunge.evaluation import Predictions
from expunge.evaluation.svm._landmarks import Array

PRIOR = 2.0
"""Pseudo-examples that pull each class towards the accuracy on all of val."""


@dataclass(frozen=True, eq=False)
class Counts:
    """By class: val examples, those of them that are right, forget examples, share retained."""

    val: NDArray[np.int64]
    right: NDArray[np.int64]
    forget: NDArray[np.int64]
    kept: Array

    @staticmethod
    def of(val: Predictions, forget: Tensor, retain: Tensor | None) -> Counts:
        """From predictions on val and the labels of forget and retain."""
        width = val.logits.shape[1]
        if forget.ndim != 1 or len(forget) == 0:
            raise InvalidInput("The forget set should not be empty.")
        if int(forget.min()) < 0 or int(forget.max()) >= width:
            raise InvalidInput(
                f"Labels to forget should be in 0..{width - 1}, the model's classes."
            )
        hits = val.labels[val.classes == val.labels]
        asked = _count(forget, width)
        kept = np.ones(width)
        if retain is not None:
            rest = _count(retain, width)
            kept = np.where(asked > 0, rest / np.maximum(rest + asked, 1), 1.0)
        return Counts(_count(val.labels, width), _count(hits, width), asked, kept)

    @property
    def size(self) -> int:
        """Forget examples."""
        return int(self.forget.sum())

    @property
    def weights(self) -> Array:
        """The share of each class in the forget set."""
        result: Array = self.forget / self.forget.sum()
        return result

    @property
    def raw_errors(self) -> Array:
        """The error on val by class; that on all of val where a class has no example."""
        pooled = 1.0 - self.right.sum() / self.val.sum()
        result: Array = np.where(self.val > 0, 1.0 - self.right / np.maximum(self.val, 1), pooled)
        return result

    def mean_accuracy(self, errors: Array) -> float:
        """Σ w_c (1 − e_c)."""
        return float((self.weights * (1.0 - errors)).sum())


def grown_error(errors: Array, counts: Counts, exponent: float) -> Array:
    """e_c r_c^-b, at most 1; 1 where nothing of a class is retained."""
    kept = np.where(counts.kept > 0.0, counts.kept, 1.0)
    result: Array = np.where(counts.kept > 0.0, np.minimum(errors * kept**-exponent, 1.0), 1.0)
    return result


def predicted_interval(
    counts: Counts, exponents: Sequence[float], level: float
) -> tuple[float, float]:
    """An interval that the share of right answers falls into with probability ``level``.

    The accuracy of class c is Beta(k_c + 2p, n_c − k_c + 2(1 − p)) for k_c of n_c right on val and
    p = (k + ½)/(n + 1) over all classes; its mean error then grows by r_c^-b. Given it, the right
    answers among the m_c forgotten examples are binomial. So their number is beta-binomial: the
    sum over classes is a convolution, and over the exponents a mean.
    """
    mass = np.mean([_masses(counts, exponent) for exponent in exponents], axis=0)
    tail = (1.0 - level) / 2.0
    below = np.cumsum(mass)
    above = np.cumsum(mass[::-1])[::-1]
    low = int(np.searchsorted(below, tail, side="right"))
    high = int(np.flatnonzero(above > tail)[-1])
    return min(low, counts.size) / counts.size, high / counts.size


def _masses(counts: Counts, exponent: float) -> Array:
    """P(S = s) for s = 0..n_f."""
    from scipy.signal import fftconvolve
    from scipy.stats import betabinom

    centre = (counts.right.sum() + 0.5) / (counts.val.sum() + 1.0)
    weight = counts.val + PRIOR
    errors = grown_error(
        (counts.val - counts.right + PRIOR * (1.0 - centre)) / weight, counts, exponent
    )
    mass = np.ones(1)
    for label in np.flatnonzero(counts.forget):
        size, error = int(counts.forget[label]), float(errors[label])
        own = np.zeros(size + 1)
        if error >= 1.0:
            own[0] = 1.0
        else:
            a, b = (1.0 - error) * weight[label], error * weight[label]
            own = betabinom.pmf(np.arange(size + 1), size, a, b)
        mass = fftconvolve(mass, own).clip(0.0)
    result: Array = mass / mass.sum()
    return result


def _count(labels: Tensor, width: int) -> NDArray[np.int64]:
    result: NDArray[np.int64] = torch.bincount(labels.long().cpu(), minlength=width).numpy()
    return result
