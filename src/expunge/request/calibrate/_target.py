"""The target: how a model that never saw the forgotten records would do on them.

To such a model they are unseen data, so its accuracy on them is that on validation data of the
same class mix. Nothing is retrained: the accuracy of the initial model on val stands in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from expunge._errors import InvalidInput
from expunge.engine._predict import check_predictions
from expunge.evaluation import Estimate, Predictions
from expunge.evaluation.attacks._features import confidence, entropy
from expunge.evaluation.attacks._roc import UNDEFINED
from expunge.evaluation.svm._landmarks import Array

EXPONENTS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""How fast errors may grow as data are removed: error ∝ (data left)^-b, every b equally likely.

0 is no growth, 1 the rate of learners that fit their data exactly. Measured on CIFAR-10 (VGG16 of
width 1/4, 45,000 to 40,500 images): 0.4.
"""
PRIOR = 2.0
"""Pseudo-examples that pull each class towards the accuracy on all of val."""
FEW = 10
"""A note is made of classes with fewer val examples than this."""


@dataclass(frozen=True)
class Target:
    """The ideal model's predicted behaviour on the forget set.

    Args:
        accuracy: in percent, with the interval that contains its accuracy on *this* forget set
            with probability ``level``.
        confidence, entropy: means of p_y and of the entropy in nats without the classes in
            ``lost``; NaN if there are no others.
        weights: the fraction of each class in the forget set.
        lost: classes of the forget set without any example in retain: the ideal model never
            predicts them, so its accuracy on them is 0.
        notes: what the estimate had to assume, in sentences.
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
        """All quantities as plain values; the accuracy as ``value``, ``low`` and ``high``."""
        return {
            **self.accuracy._asdict(),
            "confidence": self.confidence._asdict(),
            "entropy": self.entropy._asdict(),
            "n_val": self.n_val,
            "n_forget": self.n_forget,
            "weights": {str(label): weight for label, weight in self.weights.items()},
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
    """Estimate the target from the initial model's predictions on val and the labels of both sets.

    The value is Σ w_c (1 − e_c r_c^-b), averaged over the ``exponents`` b: w_c is the fraction of
    class c in forget, e_c the error on val, r_c the fraction of the class's training examples that
    are retained. The interval accounts for the sampling of val, the sampling of the forget set, and
    the exponent; see :func:`predicted_interval`.

    It ignores that two trainings differ by chance, and that classes influence each other. Without
    ``retain`` no class counts as lost, and b is 0.

    >>> import torch
    >>> logits = torch.eye(2).repeat(50, 1)
    >>> val = Predictions(logits, torch.arange(100) % 2)
    >>> estimate_target(val, torch.zeros(20, dtype=torch.int64)).accuracy.value
    100.0
    """
    if not 0.0 < level < 1.0:
        raise InvalidInput(f"`level` should be in (0, 1). (got {level})")
    check_predictions(val, "the validation set")
    counts = ClassCounts.of(val, forget, retain)
    growth = tuple(exponents) if retain is not None else (0.0,)

    # Accuracy, and the interval of what may be observed on the forget set.
    errors = counts.val_errors
    values = [counts.mean_accuracy(grown_error(errors, counts, b)) for b in growth]
    value = float(np.mean(values))
    if val.of_texts:
        reach = _mean_reach(val.right.numpy(), val.labels.numpy(), counts, level)
        low, high = max(min(values) - reach, 0.0), min(max(values) + reach, 1.0)
    else:
        low, high = predicted_interval(counts, growth, level)

    # Mean confidence and entropy of the classes that are left.
    present = np.flatnonzero(counts.forget)
    lost = tuple(int(c) for c in present if counts.kept[c] == 0.0)
    means = [
        _matched_mean(feature(val)[:, 0], val.labels.numpy(), counts, lost, level)
        for feature in (confidence, entropy)
    ]
    return Target(
        accuracy=Estimate(100.0 * value, 100.0 * min(low, value), 100.0 * max(high, value)),
        confidence=means[0],
        entropy=means[1],
        n_val=len(val.labels),
        n_forget=counts.size,
        weights={int(c): float(counts.weights[c]) for c in present},
        lost=lost,
        level=level,
        notes=tuple(_notes(counts, growth if retain is not None else None)),
    )


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """Per class: val examples, correct val examples, forget examples, fraction retained.

    Of texts, whose classes are strata, ``correct`` adds up shares of right tokens.
    """

    val: NDArray[np.int64]
    correct: Array
    forget: NDArray[np.int64]
    kept: Array

    @staticmethod
    def of(val: Predictions, forget: Tensor, retain: Tensor | None) -> ClassCounts:
        """Count predictions on val and the labels of forget and retain."""
        classes = val.logits.shape[1]
        if forget.ndim != 1 or len(forget) == 0:
            raise InvalidInput("The forget set should not be empty.")
        if int(forget.min()) < 0 or int(forget.max()) >= classes:
            raise InvalidInput(
                f"Labels to forget should be in 0..{classes - 1}, the model's classes."
            )
        forget_counts = _count(forget, classes)
        kept = np.ones(classes)
        if retain is not None:
            rest = _count(retain, classes)
            kept = np.where(forget_counts > 0, rest / np.maximum(rest + forget_counts, 1), 1.0)
        right = val.right.numpy().astype(np.float64)
        correct = np.bincount(val.labels.numpy(), right, minlength=classes).astype(np.float64)
        return ClassCounts(_count(val.labels, classes), correct, forget_counts, kept)

    @property
    def size(self) -> int:
        """Number of forget examples."""
        return int(self.forget.sum())

    @property
    def weights(self) -> Array:
        """The fraction of each class in the forget set."""
        result: Array = self.forget / self.forget.sum()
        return result

    @property
    def val_errors(self) -> Array:
        """The error on val per class; that on all of val for a class without examples."""
        pooled = 1.0 - self.correct.sum() / self.val.sum()
        result: Array = np.where(self.val > 0, 1.0 - self.correct / np.maximum(self.val, 1), pooled)
        return result

    def mean_accuracy(self, errors: Array) -> float:
        """Σ w_c (1 − e_c)."""
        return float((self.weights * (1.0 - errors)).sum())


def grown_error(errors: Array, counts: ClassCounts, exponent: float) -> Array:
    """e_c r_c^-b, at most 1; 1 where nothing of a class is retained."""
    kept = np.where(counts.kept > 0.0, counts.kept, 1.0)
    result: Array = np.where(counts.kept > 0.0, np.minimum(errors * kept**-exponent, 1.0), 1.0)
    return result


def predicted_interval(
    counts: ClassCounts, exponents: Sequence[float], level: float
) -> tuple[float, float]:
    """An interval that contains the fraction of correct predictions with probability ``level``.

    The accuracy of class c is Beta(k_c + 2p, n_c − k_c + 2(1 − p)) for k_c of n_c correct on val
    and p = (k + ½)/(n + 1) over all classes; its mean error then grows by r_c^-b. Given it, the
    number correct among the m_c forgotten examples is binomial. So it is beta-binomial: the sum
    over classes is a convolution, and over the exponents a mean.
    """
    mass = np.mean([_number_correct(counts, exponent) for exponent in exponents], axis=0)
    tail = (1.0 - level) / 2.0
    below = np.cumsum(mass)
    above = np.cumsum(mass[::-1])[::-1]
    low = int(np.searchsorted(below, tail, side="right"))
    high = int(np.flatnonzero(above > tail)[-1])
    return min(low, counts.size) / counts.size, high / counts.size


def _number_correct(counts: ClassCounts, exponent: float) -> Array:
    """P(S = s) for s = 0..n_f, the number of forget examples predicted correctly."""
    from scipy.signal import fftconvolve
    from scipy.stats import betabinom

    centre = (counts.correct.sum() + 0.5) / (counts.val.sum() + 1.0)
    weight = counts.val + PRIOR
    errors = grown_error(
        (counts.val - counts.correct + PRIOR * (1.0 - centre)) / weight, counts, exponent
    )
    mass = np.ones(1)
    for label in np.flatnonzero(counts.forget):
        size, error = int(counts.forget[label]), float(errors[label])
        class_mass = np.zeros(size + 1)
        if error >= 1.0:
            class_mass[0] = 1.0
        else:
            a, b = (1.0 - error) * weight[label], error * weight[label]
            class_mass = betabinom.pmf(np.arange(size + 1), size, a, b)
        mass = fftconvolve(mass, class_mass).clip(0.0)
    result: Array = mass / mass.sum()
    return result


def _matched_mean(
    values: Array,
    labels: np.ndarray[Any, Any],
    counts: ClassCounts,
    lost: Sequence[int],
    level: float,
) -> Estimate:
    """A class-matched mean with the interval of :func:`_mean_reach`."""
    weights = np.where(np.isin(np.arange(len(counts.weights)), lost), 0.0, counts.weights)
    if not weights.sum():
        return UNDEFINED
    weights = weights / weights.sum()
    means = [
        float(values[labels == label].mean() if (labels == label).any() else values.mean())
        for label in range(len(weights))
    ]
    total = float(np.dot(weights, means))
    reach = _mean_reach(values, labels, counts, level, weights)
    return Estimate(total, total - reach, total + reach)


def _mean_reach(
    values: Array,
    labels: np.ndarray[Any, Any],
    counts: ClassCounts,
    level: float,
    weights: Array | None = None,
) -> float:
    """Half a normal interval of the class-matched mean of a forget set.

    Its variance is Σ w_c² s_c²/n_c + Σ w_c s_c²/n_f: val and the forget set are both samples.
    """
    from scipy.stats import norm

    weights = counts.weights if weights is None else weights
    overall_variance, variance = float(values.var()), 0.0
    for label in np.flatnonzero(weights):
        of_class = values[labels == label]
        size = len(of_class)
        # Two pseudo-examples of the whole val set, so that a class of few has a spread too.
        class_variance = (
            (of_class.var() * size + 2.0 * overall_variance) / (size + 2.0)
            if size
            else overall_variance
        )
        variance += class_variance * (
            weights[label] ** 2 / max(size, 1) + weights[label] / counts.size
        )
    return float(norm.ppf(0.5 + level / 2.0)) * math.sqrt(variance)


def _notes(counts: ClassCounts, growth: Sequence[float] | None) -> list[str]:
    """What the estimate assumes; ``growth`` is None if the retained data are not known."""
    notes = []
    present = np.flatnonzero(counts.forget)
    lost = [int(c) for c in present if counts.kept[c] == 0.0]
    absent = [int(c) for c in present if counts.val[c] == 0]
    few = [int(c) for c in present if 0 < counts.val[c] < FEW]
    if lost:
        notes.append(
            f"No example of {_classes(lost)} is retained: a model trained without "
            "such examples never predicts it, so 0 % is expected there."
        )
    if absent:
        notes.append(
            f"Val has no example of {_classes(absent)}: the accuracy on all of val stands in."
        )
    if few:
        notes.append(f"Val has fewer than {FEW} examples of {_classes(few)}.")
    if growth is None:
        notes.append(
            "The estimate does not account for the ideal model being trained on less data."
        )
    else:
        notes.append(
            "The ideal model is trained on less data. Its error is taken to grow as (data left)^-b "
            f"with b between {min(growth):g} and {max(growth):g}: an assumption, which is "
            "weaker the more is forgotten."
        )
        worst = min((counts.kept[c] for c in present if counts.kept[c] > 0.0), default=1.0)
        if worst < 0.75:
            notes.append(
                f"Of one class only {100 * worst:.0f} % is retained: the target may be too high."
            )
    notes.append("The interval does not include that two trainings differ by chance.")
    return notes


def _classes(labels: Sequence[int]) -> str:
    shown = ", ".join(str(label) for label in labels[:10])
    return f"class{'es' if len(labels) > 1 else ''} {shown}{' …' if len(labels) > 10 else ''}"


def _count(labels: Tensor, classes: int) -> NDArray[np.int64]:
    result: NDArray[np.int64] = torch.bincount(labels.long().cpu(), minlength=classes).numpy()
    return result
