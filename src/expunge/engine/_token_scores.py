"""One pass of a causal language model over a text set; metrics and attacks read what it returns."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

from expunge._errors import InvalidInput
from expunge.data.text import IGNORED, row_lengths
from expunge.engine._device import device_of
from expunge.engine._run_setup import check_weights
from expunge.methods import apply, eval_mode

TOKEN_ROWS_PER_BATCH = 64
"""Rows per batch."""


@dataclass(frozen=True, eq=False)
class TokenScores:
    """What a model says of every token of every answer, given the tokens before it; all [N, T].

    A column is a position of the row of tokens. Where ``answered`` is False there is no token to
    predict, and all numbers but ``predicted`` are 0.

    Args:
        labels: the tokens of the answers, -100 elsewhere.
        log_probs: log p(y_t), in nats, float64.
        predicted: the likeliest token.
        means, deviations: mean and standard deviation of log p(z) over all tokens z ~ p.
    """

    labels: Tensor
    log_probs: Tensor
    predicted: Tensor
    means: Tensor
    deviations: Tensor

    @property
    def answered(self) -> Tensor:
        """Where there is a token to predict."""
        return self.labels != IGNORED

    @property
    def right(self) -> Tensor:
        """Where the likeliest token is the answer's."""
        return (self.predicted == self.labels) & self.answered

    @property
    def counts(self) -> Tensor:
        """Tokens of each answer, [N]."""
        return self.answered.sum(dim=1)

    def without(self, left_out: Tensor) -> TokenScores:
        """The same as if the tokens at ``left_out`` [N, T] were not to be predicted."""
        numbers = (self.log_probs, self.means, self.deviations)
        log_probs, means, deviations = (values.masked_fill(left_out, 0.0) for values in numbers)
        labels = self.labels.masked_fill(left_out, IGNORED)
        return TokenScores(labels, log_probs, self.predicted, means, deviations)


@torch.inference_mode()
def score_tokens(model: nn.Module, data: TensorDataset) -> TokenScores:
    """Run ``model`` in eval mode over ``data`` once; its mode is restored afterwards.

    These are tokens [N, T], padded on the right, and labels [N, T], such as a :class:`TextSet`.
    Rows of similar length share a batch, which is cut where its padding begins. Probabilities that
    are not finite are refused.
    """
    check_weights(model)
    device = device_of(model)
    rows, labels = data.tensors
    numbers = [torch.zeros(labels.shape, dtype=torch.float64) for _ in range(3)]
    predicted = torch.zeros(labels.shape, dtype=torch.int64)
    scores = TokenScores(labels, numbers[0], predicted, *numbers[1:])
    lengths = row_lengths(labels)
    order = torch.argsort(lengths, descending=True, stable=True)
    with eval_mode(model):
        for chosen in torch.split(order, TOKEN_ROWS_PER_BATCH):
            length = int(lengths[chosen[0]])
            tokens = rows[chosen, :length].to(device)
            wanted = labels[chosen, 1:length].to(device)
            logits = apply(model, tokens)
            if logits.ndim != 3 or logits.shape[:2] != tokens.shape:
                raise InvalidInput(
                    "A causal language model should map tokens [B, T] to logits [B, T, V]. "
                    f"(got {list(logits.shape)} for tokens {list(tokens.shape)})"
                )
            found = _score_batch(logits[:, :-1], wanted)
            for name, values in found.items():
                getattr(scores, name)[chosen, 1:length] = values.cpu()
    bad = (~torch.isfinite(scores.log_probs).all(dim=1)).nonzero()
    if len(bad):
        raise InvalidInput(
            f"Log-probabilities should be finite: {len(bad)} of {len(labels)} records have "
            f"NaN or infinity, the first at position {int(bad[0])}. The model has diverged."
        )
    return scores


def _score_batch(logits: Tensor, wanted: Tensor) -> dict[str, Tensor]:
    """The scores of a batch: logits [B, T, V] are about the tokens ``wanted`` [B, T]."""
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    log_p = F.log_softmax(wide, dim=-1)
    p = log_p.exp()
    means = (p * log_p).sum(-1)
    variances = (p * (log_p - means[..., None]).square()).sum(-1)
    answered = wanted != IGNORED
    of_label = log_p.gather(-1, wanted.clamp_min(0)[..., None])[..., 0]
    return {
        "log_probs": torch.where(answered, of_label, 0.0).double(),
        "predicted": log_p.argmax(-1),
        "means": torch.where(answered, means, 0.0).double(),
        "deviations": torch.where(answered, variances.sqrt(), 0.0).double(),
    }
