"""Distances between the outputs of an unlearned model and those of models without the data.

All are functions of predictions on the forget set; p is the softmax of the logits, in float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

import torch
from torch import Tensor
from torch.nn import functional as F

from expunge._errors import InvalidInput
from expunge._kinds import Range, check_arguments
from expunge.engine import Predictions
from expunge.evaluation._views import check_same_labels
from expunge.evaluation.attacks._features import log_probabilities

FLOOR = 1e-5
"""The least share of a bin of a histogram of margins, so that no divergence is infinite."""
NARROWEST = 1e-3
"""The least standard deviation of margins, for examples on which all models say the same."""


def js_divergence(model: Predictions, reference: Predictions) -> float:
    """The mean Jensen-Shannon divergence ½ KL(p‖m) + ½ KL(q‖m), m = (p + q)/2, in bits, in [0, 1].

    >>> label = torch.tensor([0])
    >>> sure, unsure = (Predictions(torch.tensor([[z, -z]]), label) for z in (99.0, 0.0))
    >>> js_divergence(sure, sure), round(js_divergence(sure, unsure), 4)
    (0.0, 0.3113)
    """
    log_p, log_q = _both(model, reference)
    log_m = torch.logaddexp(log_p, log_q) - math.log(2.0)
    pieces = F.kl_div(log_m, log_p, reduction="none", log_target=True)
    pieces = pieces + F.kl_div(log_m, log_q, reduction="none", log_target=True)
    return float((0.5 * pieces.sum(dim=1)).clamp_min(0.0).mean()) / math.log(2.0)


def kl_divergence(model: Predictions, reference: Predictions) -> float:
    """The mean of KL(q‖p), q the reference's probabilities and p the model's, in nats.

    >>> label = torch.tensor([0])
    >>> sure, unsure = (Predictions(torch.tensor([[z, -z]]), label) for z in (99.0, 0.0))
    >>> kl_divergence(sure, sure), round(kl_divergence(unsure, sure), 4)
    (0.0, 0.6931)
    """
    log_p, log_q = _both(model, reference)
    pieces = F.kl_div(log_p, log_q, reduction="none", log_target=True)
    return float(pieces.sum(dim=1).clamp_min(0.0).mean())


def zrf(model: Predictions, untrained: Predictions) -> float:
    """1 - JSD to a model with random weights, in [0, 1]: zero retrain forgetting.

    Near 1 the forget set's outputs are as uninformed as those of a model that learned nothing,
    which a model trained without the forget set need not be; compare with the ideal model's.

    Reference: V. S. Chundawat et al., *Can Bad Teaching Induce Forgetting? Unlearning in Deep
    Networks Using an Incompetent Teacher*, AAAI 2023.
    """
    return 1.0 - js_divergence(model, untrained)


def activation_distance(model: Predictions, reference: Predictions) -> float:
    """The mean of ‖p - q‖₂, in [0, √2].

    Reference: A. Golatkar, A. Achille, S. Soatto, *Forgetting Outside the Box: Scrubbing Deep
    Networks of Information Accessible from Input-Output Observations*, ECCV 2020, as measured by
    V. S. Chundawat et al., AAAI 2023: on the probabilities, q those of a retrained model.
    """
    log_p, log_q = _both(model, reference)
    return float((log_p.exp() - log_q.exp()).norm(dim=1).mean())


def margins(predictions: Predictions) -> Tensor:
    """log p_y - log(1 - p_y) of each example, [N]: the log-odds of its label, within ±100."""
    log_p = log_probabilities(predictions)
    own = predictions.labels.long()[:, None]
    rest = log_p.scatter(1, own, -torch.inf).logsumexp(dim=1)
    return (log_p.gather(1, own)[:, 0] - rest).clamp(-100.0, 100.0)


def klom(
    unlearned: Sequence[Predictions],
    retrained: Sequence[Predictions],
    *,
    bins: Annotated[int, Range(2, ends="[)")] | None = None,
) -> Tensor:
    """KL divergence of margins: how an example's margins over runs differ, [N], in nats.

    For each example, KL(R‖U) between the distributions of its margin over ``retrained`` models and
    over ``unlearned`` ones, which differ in their seeds. Without ``bins`` both are taken for
    Gaussian, from at least two models each; with ``bins`` they are histograms over the range of
    all of its margins, as in the publication (20 bins and 100 models each). The publication
    reports the 95th percentile over examples.

    Reference: K. Georgiev et al., *Attribute-to-Delete: Machine Unlearning via Datamodel Matching*,
    ICLR 2025 (arXiv 2410.23232).
    """
    check_arguments(klom, locals())
    if min(len(unlearned), len(retrained)) < 2:
        raise InvalidInput(
            "KLoM compares distributions over runs: it needs at least 2 unlearned and 2 retrained "
            f"models. (got {len(unlearned)} and {len(retrained)})"
        )
    for part in (*unlearned, *retrained):
        check_same_labels(part, unlearned[0])
    of_u, of_r = (torch.stack([margins(part) for part in side]) for side in (unlearned, retrained))
    return (
        _gaussian_divergence(of_r, of_u) if bins is None else _binned_divergence(of_r, of_u, bins)
    )


def _gaussian_divergence(first: Tensor, second: Tensor) -> Tensor:
    """KL(N₁‖N₂) of Gaussians fitted to the columns of [M, N] and [M', N]."""
    mean_1, mean_2 = first.mean(dim=0), second.mean(dim=0)
    std_1, std_2 = (side.std(dim=0).clamp_min(NARROWEST) for side in (first, second))
    spread = (std_1.square() + (mean_1 - mean_2).square()) / (2.0 * std_2.square())
    return (std_2 / std_1).log() + spread - 0.5


def _binned_divergence(first: Tensor, second: Tensor, bins: int) -> Tensor:
    """KL of histograms of the columns of [M, N] and [M', N], over their common range."""
    both = torch.cat([first, second])
    low, high = both.amin(dim=0), both.amax(dim=0)
    width = ((high - low) / bins).clamp_min(1e-12)
    log_shares = []
    for side in (first, second):
        places = ((side - low) / width).long().clamp(0, bins - 1)
        shares = F.one_hot(places, bins).double().mean(dim=0).clamp_min(FLOOR)
        log_shares.append((shares / shares.sum(dim=1, keepdim=True)).log())
    return F.kl_div(log_shares[1], log_shares[0], reduction="none", log_target=True).sum(dim=1)


def _both(model: Predictions, reference: Predictions) -> tuple[Tensor, Tensor]:
    check_same_labels(reference, model)
    return log_probabilities(model), log_probabilities(reference)
