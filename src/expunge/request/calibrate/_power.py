"""Power: whether the tests of a request would have noticed a model that forgot nothing.

Few records, or records that the model never knew by heart, look like unseen data whether or not
they were forgotten. To pass the tests then means nothing.

Of texts, a single record that is known by heart stands out by the share of its tokens alone, and
no longer does once a few of them are lost, while every attack still ranks it first. So the attacks
have to be fine enough besides: see :data:`FINEST`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from expunge.evaluation import Predictions
from expunge.request.calibrate._comparison import Comparison, compare, shift_between
from expunge.request.calibrate._target import Target

NEEDED = 0.8
"""The power that makes a pass an achievement."""
DRAWS = 40
SHUFFLES = 100
"""Shuffles per comparison: a draw is told apart or not, nothing finer is needed of it."""
FAR = 3.0
"""Beyond this distance of the given model, in units of what chance explains, power is 1."""

FINEST = 0.25
"""Of texts: attacks that chance alone brings further than this from an AUC of 0.5 are too coarse to
notice a model that still knows much."""


@dataclass(frozen=True)
class Power:
    """The fraction of ``draws`` that were told from unseen data.

    ``distance`` is that of the given model's forget set, the largest over the splits. Beyond
    :data:`FAR` nothing is drawn and the power is 1. ``reach``, of texts, is how far from 0.5 chance
    brings the AUC of some attack; 0 otherwise.
    """

    told_apart: int
    draws: int
    distance: float
    reach: float = 0.0

    @property
    def value(self) -> float:
        """In 0 to 1; 0 where the tests are too coarse to be tried."""
        if self.coarse:
            return 0.0
        return self.told_apart / self.draws if self.draws else 1.0

    @property
    def sufficient(self) -> bool:
        """Whether passing the tests means something."""
        return self.value >= NEEDED and not self.coarse

    @property
    def coarse(self) -> bool:
        """Whether there are too few records for the attacks to notice more than the extremes."""
        return self.reach > FINEST


def estimate_power(
    forget: Predictions,
    unseen: Mapping[str, Predictions],
    target: Target,
    *,
    level: float = 0.95,
    draws: int = DRAWS,
    shuffles: int = SHUFFLES,
    seed: int = 0,
) -> Power:
    """How often a model that forgot nothing would fail the tests, at this number of records.

    All predictions are those of the model *before* the request. Forget sets of the same size are
    drawn from ``forget`` with replacement, and each is compared with every split in ``unseen``
    (val and test) as the unlearned model is: it fails if either comparison tells it apart. At most
    ``draws`` are made, fewer if they decide whether the power suffices.
    """
    # Other classes take no part in the comparison.
    splits = {name: _of_classes(split, forget) for name, split in unseen.items()}
    shifts = {}
    if {"val", "test"} <= set(splits):
        shifts["test"] = shift_between(
            splits["val"], splits["test"], forget, level=level, shuffles=shuffles, seed=seed
        )

    def comparisons(drawn: Predictions, seed: int) -> Iterator[Comparison]:
        for name, split in splits.items():
            yield compare(
                drawn,
                split,
                target,
                level=level,
                shuffles=shuffles,
                seed=seed,
                val_name=name,
                shift=shifts.get(name),
            )

    given = list(comparisons(forget, seed))
    distance = max(comparison.distance for comparison in given)
    reach = min(map(_auc_reach, given)) if forget.of_texts else 0.0
    if distance > FAR or reach > FINEST:
        return Power(0, 0, distance, reach)

    # Draw until the rest cannot change on which side of NEEDED the power lies.
    random = np.random.default_rng(seed)
    size = len(forget.labels)
    needed = math.ceil(NEEDED * draws)
    told_apart = drawn = 0
    while told_apart < needed and drawn - told_apart <= draws - needed:
        sample = forget.take(random.integers(size, size=size))
        told_apart += any(not c.indistinguishable for c in comparisons(sample, seed + drawn))
        drawn += 1
    return Power(told_apart, drawn, distance, reach)


def _auc_reach(comparison: Comparison) -> float:
    """How far from 0.5 chance brings the AUC of an attack, the largest over the attacks."""
    reaches = [
        max(auc.high - auc.value, auc.value - auc.low) for auc in comparison.attacks.values()
    ]
    return max(reaches) if not any(map(math.isnan, reaches)) else math.inf


def _of_classes(split: Predictions, forget: Predictions) -> Predictions:
    """The examples of the forgotten classes; all of them if there are none."""
    members = torch.isin(split.labels, forget.labels).nonzero()[:, 0]
    return split.take(members) if len(members) else split
