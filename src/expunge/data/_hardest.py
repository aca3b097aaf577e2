"""Which training images are hardest to forget: those a model is least right about unseen."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch.nn import functional as F

from expunge._arrays import Array
from expunge._errors import InvalidInput
from expunge.data._examples import Examples, ImageSet

SIDE = 16
"""Larger images are averaged down to this many pixels a side."""
UNITS = 1024
"""Random features of an image."""
DECIMALS = 6
"""Margins are compared to this many decimals, so that rounding decides nothing."""


def lowest_margins(train: Examples, fraction: float, seed: int) -> list[int]:
    """The ``round(fraction * N)`` images, at least one, with the lowest :func:`unseen_margins`."""
    if not isinstance(train, ImageSet):
        raise InvalidInput(
            f"The scenario hardest is for images. (got {train!r}) Use random or class."
        )
    count = max(1, round(fraction * len(train)))
    margins = unseen_margins(train, seed).round(DECIMALS)
    lowest: list[int] = np.argsort(margins, kind="stable")[:count].tolist()
    return lowest


def unseen_margins(train: ImageSet, seed: int = 0) -> Array:
    """How far ahead the label of each image is under a model that has not seen it, [N].

    The images are divided into two halves; a ridge regression of the labels on random features,
    max(0, Wx + b), is fitted to either and asked about the other. The margin is the label's score
    minus the largest of the others: negative where the model would be wrong.
    """
    features = _random_features(train, seed)
    labels = train.labels.cpu().numpy()
    order = np.random.default_rng(seed).permutation(len(labels))
    margins = np.zeros(len(labels))
    halves = order[: len(order) // 2], order[len(order) // 2 :]
    for fitted, asked in (halves, halves[::-1]):
        scores = _ridge(features[fitted], labels[fitted], features[asked], train.num_classes)
        rows = np.arange(len(asked))
        own = scores[rows, labels[asked]].copy()
        scores[rows, labels[asked]] = -np.inf
        margins[asked] = own - scores.max(axis=1)
    return margins


def _random_features(train: ImageSet, seed: int) -> Array:
    images = train.images.float() / 255.0
    if max(images.shape[2:]) > SIDE:
        images = F.adaptive_avg_pool2d(images, SIDE)
    flat: Array = images.flatten(1).double().numpy()
    flat = (flat - flat.mean(axis=0)) / (flat.std(axis=0) + 1e-3)
    random = np.random.default_rng([seed, 1])
    weights = random.standard_normal((flat.shape[1], UNITS)) / np.sqrt(flat.shape[1])
    hidden = np.maximum(flat @ weights + 0.5 * random.standard_normal(UNITS), 0.0)
    return np.column_stack([hidden, np.ones(len(hidden))])


def _ridge(features: Array, labels: Any, asked: Array, classes: int) -> Array:
    """Scores [M, K] of a ridge regression on ±1 targets."""
    targets = 2.0 * np.eye(classes)[labels] - 1.0
    gram = features.T @ features
    strength = 1e-3 * np.trace(gram) / len(gram)
    weights = np.linalg.solve(gram + strength * np.eye(len(gram)), features.T @ targets)
    scores: Array = asked @ weights
    return scores
