"""Floors: whether forgetting broke something else, class by class, on val and on test."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import torch
from scipy.special import ndtri, stdtrit
from torch import Tensor

from expunge.evaluation import Predictions
from expunge.evaluation.svm._landmarks import Array
from expunge.request.calibrate._target import EXPONENTS, PRIOR, ClassCounts, grown_error
from expunge.request.evidence._sections import FloorCheck

CheckedSplit = Literal["val", "test", "retain"]


def check_floors(
    classes: Sequence[str],
    counts: ClassCounts,
    splits: Mapping[CheckedSplit, tuple[Predictions, Predictions]],
    *,
    floor: float,
    level: float = 0.95,
) -> list[FloorCheck]:
    """All classes together and each class, on every split; the losses are in points.

    ``splits`` has the predictions of the model before and after; ``counts`` are those of the model
    before. Of n examples predicted by both models, b are right before and wrong after, and c the
    other way round; the loss is (b − c)/n. It is too large if the lower end of its one-sided
    interval (see :func:`least_loss`) exceeds ``floor`` plus what a retrained model is expected to
    lose: its error grows as in the target, with the largest exponent. The intervals are not
    corrected for the number of classes: the floor leaves room for chance, and a class that broke
    should be seen. Classes of which nothing is retained are exempt.

    Of texts, the loss is the mean difference of the shares of right tokens, its lower end
    Student's; what a model is for is mostly what it was taught, so retained records are checked as
    well, and nothing beyond ``floor`` is allowed there.
    """
    expected = _expected_loss(counts)
    checks: list[FloorCheck] = []
    for split, (old, new) in splits.items():
        audited = [c for c in torch.unique(old.labels).tolist() if counts.kept[c] > 0.0]
        everything = torch.isin(old.labels, torch.tensor(audited, dtype=old.labels.dtype))
        members = [("", everything), *((classes[c], old.labels == c) for c in audited)]
        for name, chosen in members:
            if not bool(chosen.any()):
                continue
            # Over several classes: the mean of what is expected of each example's class.
            growth = (
                float(expected[old.labels[chosen].numpy()].mean()) if split != "retain" else 0.0
            )
            allowed = floor / 100.0 + growth
            checks.append(_check(name, split, old, new, chosen, allowed, level))
    return checks


def _check(
    name: str,
    split: CheckedSplit,
    old: Predictions,
    new: Predictions,
    chosen: Tensor,
    allowed: float,
    level: float,
) -> FloorCheck:
    right_before, right_after = old.right[chosen], new.right[chosen]
    size = len(right_before)
    if old.of_texts:
        losses = (right_before - right_after).numpy()
        net, low = float(losses.mean()), least_mean_loss(losses, level)
    else:
        lost = int((right_before > right_after).sum())
        gained = int((right_before < right_after).sum())
        net, low = (lost - gained) / size, least_loss(lost, gained, size, level)
    return FloorCheck(
        name=name,
        split=split,
        records=size,
        before=round(100.0 * float(right_before.mean()), 6),
        after=round(100.0 * float(right_after.mean()), 6),
        lost=round(100.0 * net, 6),
        low=round(100.0 * low, 6),
        allowed=round(100.0 * allowed, 6),
        broken=low > allowed + 1e-9,
    )


def least_loss(lost: int, gained: int, size: int, level: float = 0.95) -> float:
    """The lower end of the one-sided interval of the loss (b − c)/n of paired predictions.

    Tango's score interval (1998): unlike McNemar's test it has the right level against losses other
    than zero, and for few examples. ``lost`` is b, ``gained`` c, ``size`` n.

    >>> round(least_loss(17, 0, 100), 3), least_loss(0, 0, 5) <= 0.0
    (0.117, True)
    """
    z = float(ndtri(level))
    low, high = -1.0, (lost - gained) / size
    for _ in range(60):
        middle = 0.5 * (low + high)
        if _score(lost, gained, size, middle) > z:
            low = middle
        else:
            high = middle
    return high


def least_mean_loss(losses: Array, level: float = 0.95) -> float:
    """The lower end of the one-sided interval of a mean loss: Student's; -1 for a single one.

    >>> round(least_mean_loss(np.array([0.1, 0.2, 0.3])), 3)
    0.031
    """
    if len(losses) < 2:
        return -1.0
    reach = float(stdtrit(len(losses) - 1, level)) * float(losses.std(ddof=1))
    return float(losses.mean()) - reach / math.sqrt(len(losses))


def _score(lost: int, gained: int, size: int, loss: float) -> float:
    """Tango's statistic: (b − c − nΔ) / √(n (2q + Δ(1 − Δ))), q the share of c given the loss Δ."""
    linear = -lost - gained + (2 * size - lost + gained) * loss
    constant = -gained * loss * (1.0 - loss)
    root = math.sqrt(max(linear * linear - 8.0 * size * constant, 0.0))
    share = (root - linear) / (4.0 * size)
    variance = size * (2.0 * share + loss * (1.0 - loss))
    difference = lost - gained - size * loss
    return (
        difference / math.sqrt(variance)
        if variance > 1e-12
        else math.copysign(math.inf if abs(difference) > 1e-9 else 0.0, difference)
    )


def _expected_loss(counts: ClassCounts) -> Array:
    """What a retrained model may lose in each class for having less data, in 0 to 1."""
    # As for the target's interval: a class with few val examples borrows from the others.
    centre = (counts.correct.sum() + 0.5) / (counts.val.sum() + 1.0)
    errors = (counts.val - counts.correct + PRIOR * (1.0 - centre)) / (counts.val + PRIOR)
    result: Array = np.maximum(grown_error(errors, counts, max(EXPONENTS)) - errors, 0.0)
    return result
