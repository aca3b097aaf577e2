"""What to aim at: how a model that never saw the forgotten records would do on them.

To such a model they are unseen data, so its accuracy on them is that on validation data of the
same class mix. Nothing is retrained: the accuracy of the given model on val stands in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from expunge._errors import InvalidInput
from expunge.evaluation import Estimate, Predictions
from expunge.evaluation._predict import check_predictions
from expunge.evaluation.attacks._features import confidence, entropy
from expunge.evaluation.attacks._roc import UNDEFINED
from expunge.evaluation.svm._landmarks import Array
from expunge.request.calibrate._predictive import Counts, grown_error, predicted_interval

EXPONENTS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""How fast errors may grow when data go: error ∝ (data left)^-b, each b as likely as the others.

0 is no growth, 1 the rate of learners that fit their data exactly. Measured on CIFAR-10 (VGG16 of
width 1/4, 45,000 to 40,500 images): 0.4.
"""
FEW = 10
"""Fewer val examples of a class than this are worth a note."""


@dataclass(frozen=True)
class Target:
    """The ideal model's predicted behaviour on the forget set.

    Args:
        accuracy: in percent, with the interval that its accuracy on *this* forget set falls into
            with probability ``level``.
        confidence, entropy: means of p_y and of the entropy in nats; classes in ``lost`` are left
            out, and NaN is left where there are no others.
        weights: the share of each class in the forget set.
        lost: classes of the forget set that retain has no example of: the ideal never predicts
            them, so its accuracy on them is 0.
        notes: what the estimate had to assume, in plain words.
    """

    accuracy: Estimate
    confidence: Estimate
    entropy: Estimate
    n_val: int
    n_forget: int
    weights: Mapping[int, float]
    lost: tuple[int, ...]
    level: float
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; the accuracy as ``value``, ``low`` and ``high``."""
        return {
            **self.accuracy._asdict(),
            "confidence": self.confidence._asdict(),
            "entropy": self.entropy._asdict(),
            "n_val": self.n_val,
            "n_forget": self.n_forget,
            "weights": {str(label): share for label, share in self.weights.items()},
            "lost": list(self.lost),
            "level": self.level,
            "notes": list(self.notes),
        }


def estimate_target(
    val: Predictions,
    forget: Tensor,
    retain: Tensor | None = None,
    *,
    level: float = 0.95,
    exponents: Sequence[float] = EXPONENTS,
) -> Target:
    """The target, from the given model's predictions on val and the labels of both sets.

    The value is Σ w_c (1 − e_c r_c^-b), the mean over the ``exponents`` b: w_c is the share of
    class c in forget, e_c the error on val, r_c the share of the class's training examples that
    are retained. The interval holds the sampling of val, the sampling of the forget set, and the
    exponent; see :func:`~expunge.request.calibrate._predictive.predicted_interval`.

    It ignores that two trainings differ by chance, and that classes lean on each other. Without
    ``retain`` nothing is known to be lost, and b is 0.

    >>> import torch
    >>> logits = torch.eye(2).repeat(50, 1)
    >>> val = Predictions(logits, torch.arange(100) % 2)
    >>> estimate_target(val, torch.zeros(20, dtype=torch.int64)).accuracy.value
    100.0
    """
    if not 0.0 < level < 1.0:
        raise InvalidInput(f"`level` should be in (0, 1). (got {level})")
    check_predictions(val, "the validation set")
    counts = Counts.of(val, forget, retain)
    growth = tuple(exponents) if retain is not None else (0.0,)
    errors = counts.raw_errors
    value = float(np.mean([counts.mean_accuracy(grown_error(errors, counts, b)) for b in growth]))
    low, high = predicted_interval(counts, growth, level)
    present = np.flatnonzero(counts.forget)
    lost = tuple(int(c) for c in present if counts.kept[c] == 0.0)
    weights = {int(c): float(counts.weights[c]) for c in present}
    means = [
        _mean(feature(val)[:, 0], val.labels.numpy(), counts, lost, level)
        for feature in (confidence, entropy)
    ]
    return Target(
        Estimate(100.0 * value, 100.0 * min(low, value), 100.0 * max(high, value)),
        means[0],
        means[1],
        len(val.labels),
        int(counts.forget.sum()),
        weights,
        lost,
        level,
        tuple(_notes(counts, retain is not None, growth)),
    )


def _mean(
    values: Array, labels: np.ndarray[Any, Any], counts: Counts, lost: Sequence[int], level: float
) -> Estimate:
    """A class-matched mean; normal interval with Σ w_c² s_c²/n_c + Σ w_c s_c²/n_f."""
    from scipy.stats import norm

    pooled, spread = float(values.mean()), float(values.var())
    shares = np.where(np.isin(np.arange(len(counts.weights)), lost), 0.0, counts.weights)
    if not shares.sum():
        return UNDEFINED
    shares = shares / shares.sum()
    total = variance = 0.0
    for label in np.flatnonzero(shares):
        own = values[labels == label]
        size = len(own)
        # Two examples' worth of the whole val set, so that a class of few has a spread too.
        here = (own.var() * size + 2.0 * spread) / (size + 2.0) if size else spread
        total += shares[label] * (own.mean() if size else pooled)
        variance += here * (shares[label] ** 2 / max(size, 1) + shares[label] / counts.size)
    reach = float(norm.ppf(0.5 + level / 2.0)) * math.sqrt(variance)
    return Estimate(float(total), float(total) - reach, float(total) + reach)


def _notes(counts: Counts, known: bool, growth: Sequence[float]) -> list[str]:
    notes = []
    present = np.flatnonzero(counts.forget)
    gone = [int(c) for c in present if counts.kept[c] == 0.0]
    absent = [int(c) for c in present if counts.val[c] == 0]
    few = [int(c) for c in present if 0 < counts.val[c] < FEW]
    if gone:
        notes.append(
            f"No example of {_classes(gone)} is retained: a model trained without them never "
            "predicts it, so 0 % is expected there."
        )
    if absent:
        notes.append(
            f"Val has no example of {_classes(absent)}: the accuracy on all of val stands in."
        )
    if few:
        notes.append(f"Val has fewer than {FEW} examples of {_classes(few)}.")
    if not known:
        notes.append("That the ideal model is trained on less data is not allowed for.")
    else:
        notes.append(
            "The ideal model is trained on less data. Its error is taken to grow as (data left)^-b "
            f"with b between {min(growth):g} and {max(growth):g}: an assumption, and the weaker "
            "the more is forgotten."
        )
        worst = min((counts.kept[c] for c in present if counts.kept[c] > 0.0), default=1.0)
        if worst < 0.75:
            notes.append(
                f"Of one class only {100 * worst:.0f} % is retained: the target may be too high."
            )
    notes.append("That two trainings differ by chance is not in the interval.")
    return notes


def _classes(labels: Sequence[int]) -> str:
    shown = ", ".join(str(label) for label in labels[:10])
    return f"class{'es' if len(labels) > 1 else ''} {shown}{' …' if len(labels) > 10 else ''}"
