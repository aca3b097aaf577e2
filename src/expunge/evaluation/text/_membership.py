"""Membership scores of records under a language model: higher is more like training data.

With ℓ_t = log p(y_t | x, y_<t) the log-probabilities of the T tokens of an answer y:

================= ============================================================================
loss              (1/T) Σ ℓ_t (Yeom et al., 2018)
zlib              loss / bytes of the compressed answer (Carlini et al., 2021)
min-k             the mean of the k T smallest ℓ_t, k = 0.2, one token at least (Shi et al., 2024)
min-k++           the same of (ℓ_t - μ_t)/σ_t, mean and standard deviation of log p(z | x, y_<t)
                  over z ~ p, σ_t at least 0.001 (Zhang et al., 2025)
gradient-norm     -‖∇_θ loss‖₂ over all parameters (Wang et al., 2024)
reference         loss minus that of a reference model (Carlini et al., 2021)
================= ============================================================================

The attack's AUC is the chance that a forgotten record has a higher score than one never seen.

Deviation: open-unlearning's gradient norm is the mean over tensors of each tensor's norm.
"""

from __future__ import annotations

import zlib

import numpy as np
import torch
from torch import Tensor, nn

from expunge._arrays import Array
from expunge._errors import InvalidInput
from expunge.data.text import TextSet
from expunge.engine import TokenScores
from expunge.evaluation.text._measures import mean_log_prob
from expunge.methods import apply, next_token_loss
from expunge.models import eval_mode

ATTACKS = ("loss", "zlib", "min_k", "min_k_plus_plus")
"""The attacks that token scores suffice for."""
LOWEST = 0.2
"""The share of tokens that min-k and min-k++ look at."""
LEAKAGE_LOWEST = 0.4
"""That of the privacy leakage, as in MUSE."""
LEAST_DEVIATION = 1e-3


def membership_scores(data: TextSet, scores: TokenScores) -> dict[str, Array]:
    """Every score of :data:`ATTACKS` for each record, [N]."""
    return {
        "loss": mean_log_prob(scores),
        "zlib": mean_log_prob(scores) / compressed_sizes(data),
        "min_k": min_k(scores),
        "min_k_plus_plus": min_k_plus_plus(scores),
    }


def compressed_sizes(data: TextSet) -> Array:
    """Bytes of each answer after zlib, [N]."""
    sizes = [len(zlib.compress(record.answer.encode())) for record in data.records]
    return np.array(sizes, dtype=np.float64)


def min_k(scores: TokenScores, share: float = LOWEST) -> Array:
    """The mean of the ``share`` smallest log-probabilities of each answer, [N]."""
    return _mean_of_lowest(scores.log_probs, scores, share)


def min_k_plus_plus(scores: TokenScores, share: float = LOWEST) -> Array:
    """The same of log-probabilities standardised over the vocabulary, [N]."""
    deviations = scores.deviations.clamp_min(LEAST_DEVIATION)
    return _mean_of_lowest((scores.log_probs - scores.means) / deviations, scores, share)


def _mean_of_lowest(values: Tensor, scores: TokenScores, share: float) -> Array:
    rising = torch.where(scores.answered, values, torch.inf).sort(dim=1).values
    sizes = (share * scores.counts).long().clamp_min(1)
    kept = torch.arange(values.shape[1]) < sizes[:, None]
    sums = torch.where(kept, rising, 0.0).sum(dim=1)
    result: Array = (sums / sizes).numpy()
    return result


def gradient_norms(model: nn.Module, data: TextSet) -> Array:
    """-‖∇_θ loss‖₂ of each record in eval mode, [N]: a backward pass per record."""
    params = [p for p in model.parameters() if p.requires_grad]
    if not params:
        raise InvalidInput("The gradient norm needs a model with parameters that take gradients.")
    device = params[0].device
    norms = []
    with eval_mode(model), torch.enable_grad():
        for tokens, labels, length in zip(data.tokens, data.labels, data.lengths, strict=True):
            row, wanted = (part[None, : int(length)].to(device) for part in (tokens, labels))
            loss = next_token_loss(apply(model, row), wanted)
            gradients = torch.autograd.grad(loss, params, allow_unused=True)
            squares = [g.double().square().sum() for g in gradients if g is not None]
            norms.append(-float(torch.stack(squares).sum().sqrt()))
    return np.array(norms)


def privacy_leakage(value: float, ideal: float) -> float:
    """PrivLeak of MUSE in percent: 100 (A - A*)/A*, A = 1 - AUC of min-k (k = 0.4), A* the ideal's.

    Below 0: the records are still remembered. Above 0: they stand out as avoided. -100 is an AUC
    of 1. Without any unseen record that the ideal model takes for less of a member (A* = 0) it is
    not defined, and NaN (Shi et al., 2025).
    """
    return 100.0 * (ideal - value) / (1.0 - ideal) if ideal < 1.0 else float("nan")
