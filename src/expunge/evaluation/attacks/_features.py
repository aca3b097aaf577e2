"""The features that membership attacks use, each a function of the predictions.

p is the softmax of the logits in float64 and y the label of the example. Logarithms are cut off at
log 1e-30.

Deviation: the paper's Section 6.2 calls *confidence* the probability of the assigned class; its
released code, and the SalUn code it grew from, take the class assigned to the example, its label,
and so do we. The paper says *logits*; the released code feeds the softmax: the five attacks use the
logits, ``probabilities`` is there besides. The paper's *mix entropy* is the modified entropy (Song
and Mittal, 2021); the released code exchanges its two logarithms. ``RELEASED`` has what the
released code computes for these two.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from expunge._arrays import Array
from expunge.engine import Predictions, as_numbers

_LEAST = math.log(1e-30)


def correctness(predictions: Predictions) -> Array:
    """1 where the prediction is right, else 0, [N, 1]."""
    return _column(predictions.classes == predictions.labels)


def confidence(predictions: Predictions) -> Array:
    """The probability p_y of the label, in [0, 1], [N, 1]."""
    return _column(_of_label(log_probabilities(predictions), predictions.labels).exp())


def logits(predictions: Predictions) -> Array:
    """The logits, [N, K]."""
    return predictions.logits.double().numpy()


def probabilities(predictions: Predictions) -> Array:
    """The softmax, [N, K]."""
    return log_probabilities(predictions).exp().numpy()


def entropy(predictions: Predictions) -> Array:
    """The entropy of the softmax, −Σᵢ pᵢ log pᵢ, in nats, in [0, log K], [N, 1]."""
    log_p = log_probabilities(predictions)
    return _column(-(log_p.exp() * log_p.clamp_min(_LEAST)).sum(1))


def modified_entropy(predictions: Predictions) -> Array:
    """−(1−p_y) log p_y − Σ_{i≠y} pᵢ log(1−pᵢ): small if sure and right, large if sure and wrong."""
    log_p = log_probabilities(predictions)
    log_rest = (-torch.expm1(log_p)).clamp_min(1e-30).log()
    terms = log_p.exp() * log_rest
    of_label = _of_label(log_p, predictions.labels)
    others = terms.sum(1) - _of_label(terms, predictions.labels)
    return _column(torch.expm1(of_label) * of_label.clamp_min(_LEAST) - others)


def released_modified_entropy(predictions: Predictions) -> Array:
    """−(1−p_y) log(1−p_y) − Σ_{i≠y} pᵢ log pᵢ, [N, 1]: the logarithms exchanged."""
    log_p = log_probabilities(predictions)
    terms = log_p.exp() * log_p.clamp_min(_LEAST)
    rest = -torch.expm1(_of_label(log_p, predictions.labels))
    others = terms.sum(1) - _of_label(terms, predictions.labels)
    return _column(-rest * rest.clamp_min(1e-30).log() - others)


def absolute_error(predictions: Predictions) -> Array:
    """How far a regression is off, in units of the label, [N, 1]."""
    return _column(errors_of(predictions).abs())


def errors_of(predictions: Predictions) -> Tensor:
    """What a regression predicts minus the labels, float64 [N]."""
    return as_numbers(predictions.logits).double() - predictions.labels.double()


def loss(predictions: Predictions) -> Array:
    """The cross-entropy of each example in nats, at least 0, [N]."""
    return -_of_label(log_probabilities(predictions), predictions.labels).numpy()


def log_probabilities(predictions: Predictions) -> Tensor:
    """The log-softmax in float64, [N, K]."""
    return F.log_softmax(predictions.logits.double(), dim=1)


def _of_label(values: Tensor, labels: Tensor) -> Tensor:
    return values.gather(1, labels.long()[:, None])[:, 0]


def _column(values: Tensor) -> Array:
    return values.double().numpy()[:, np.newaxis]


RELEASED: dict[str, Callable[[Predictions], Array]] = {
    "logits": probabilities,
    "modified-entropy": released_modified_entropy,
}
"""What the paper's released code computes in place of two of the five."""
