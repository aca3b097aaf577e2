"""Distances between the outputs of an unlearned model and those of models without the data.

All are functions of predictions on the forget set; p is the softmax of the logits, in float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from expunge._errors import InvalidInput
from expunge._kinds import check_arguments
from expunge.engine import Predictions
from expunge.evaluation._views import check_same_labels
from expunge.evaluation.attacks._features import log_probabilities
from expunge.evaluation.attacks._lira import scaled_confidence

NARROWEST = 1e-3
"""The least standard deviation of margins, for examples on which all models say the same."""


def js_divergence(model: Predictions, reference: Predictions) -> float:
    """The mean Jensen-Shannon divergence ½ KL(p‖m) + ½ KL(q‖m), m = (p + q)/2, in bits, in [0, 1].

    >>> label = torch.tensor([0])
    >>> sure, unsure = (Predictions(torch.tensor([[z, -z]]), label) for z in (99.0, 0.0))
    >>> js_divergence(sure, sure), round(js_divergence(sure, unsure), 4)
    (0.0, 0.3113)
    """
    return float(js_divergence_by_example(model, reference).mean()) / math.log(2.0)


def js_divergence_by_example(model: Predictions, reference: Predictions) -> Tensor:
    """The Jensen-Shannon divergence of each example, [N], in nats."""
    log_p, log_q = _both(model, reference)
    log_m = torch.logaddexp(log_p, log_q) - math.log(2.0)
    pieces = F.kl_div(log_m, log_p, reduction="none", log_target=True)
    pieces = pieces + F.kl_div(log_m, log_q, reduction="none", log_target=True)
    return (0.5 * pieces.sum(dim=1)).clamp_min(0.0)


def kl_divergence(model: Predictions, reference: Predictions) -> float:
    """The mean of KL(q‖p), q the reference's probabilities and p the model's, in nats."""
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


def klom(unlearned: Sequence[Predictions], retrained: Sequence[Predictions]) -> Tensor:
    """KL divergence of margins: how an example's margins over runs differ, [N], in nats.

    For each example, KL(R‖U) between the distributions of its margin log p_y - log(1 - p_y) over
    ``retrained`` models, at least two, and over ``unlearned`` ones, which differ in their seeds.
    One unlearned model is taken to spread as the retrained ones do: (m - mean)² / (2 std²). The
    publication reports the 95th percentile over examples.

    Deviation: both are taken for Gaussian, within ±100, which a few models suffice for; the
    publication has histograms of 20 bins, over 100 models each.

    Reference: K. Georgiev et al., *Attribute-to-Delete: Machine Unlearning via Datamodel Matching*,
    ICLR 2025 (arXiv 2410.23232).
    """
    check_arguments(klom, locals())
    if not unlearned or len(retrained) < 2:
        raise InvalidInput(
            "KLoM compares distributions over runs: it needs an unlearned and at least 2 retrained "
            f"models. (got {len(unlearned)} and {len(retrained)})"
        )
    for part in (*unlearned, *retrained):
        check_same_labels(part, unlearned[0])
    of_u, of_r = (
        np.stack([scaled_confidence(part.logits, part.labels) for part in side]).clip(-100, 100)
        for side in (unlearned, retrained)
    )
    mean_u, mean_r = of_u.mean(axis=0), of_r.mean(axis=0)
    std_u, std_r = (
        side.std(axis=0, ddof=1).clip(NARROWEST) for side in (of_u if len(of_u) > 1 else of_r, of_r)
    )
    spread = (std_r**2 + (mean_r - mean_u) ** 2) / (2.0 * std_u**2)
    return torch.from_numpy(np.log(std_u / std_r) + spread - 0.5)


def _both(model: Predictions, reference: Predictions) -> tuple[Tensor, Tensor]:
    check_same_labels(reference, model)
    return log_probabilities(model), log_probabilities(reference)
