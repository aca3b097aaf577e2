"""What a language model says of the records of a request, in the form that requests compare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from expunge._arrays import Array
from expunge.data.text import TextExamples
from expunge.engine import PredictionCache, Predictions, score_tokens
from expunge.evaluation.text._measures import (
    exact_memorisation,
    fact_tokens,
    mean_log_prob,
    membership_scores,
)

NEVER = -100.0
"""The logit of the strata that play no part."""
SUREST = 1e-12
"""1 - p is at least this."""


class TextPredictions(Predictions):
    """Predictions of texts: ``labels`` are strata, and the softmax of the label's logit is p.

    Confidence is then p and the loss -log p, the mean negative log-likelihood per token. ``right``
    is the share of an answer's tokens that are the likeliest ones; ``scores`` are membership scores
    by name, higher for what looks more like training data; among them are ``facts``, the mean
    log-probability of the tokens that carry the fact, and ``facts_right``, the share of these that
    are the likeliest ones.
    """

    token_shares: Tensor
    scores: Mapping[str, Array]

    @classmethod
    def of(
        cls,
        log_p: Tensor,
        strata: Tensor,
        classes: int,
        shares: Tensor,
        scores: Mapping[str, Array],
    ) -> TextPredictions:
        """Predictions from log p [N], strata [N] and shares of right tokens [N]."""
        rest = (-torch.expm1(log_p)).clamp_min(SUREST)
        logits = torch.full((len(log_p), classes), NEVER, dtype=torch.float64)
        rows = torch.arange(len(log_p))
        logits[rows, (strata + 1) % classes] = 0.0
        logits[rows, strata] = log_p - rest.log()
        return cls(logits, strata)._with(shares, scores)

    def _with(self, shares: Tensor, scores: Mapping[str, Array]) -> TextPredictions:
        self.token_shares, self.scores = shares, scores
        return self

    @property
    def right(self) -> Tensor:
        return self.token_shares

    @property
    def of_texts(self) -> bool:
        return True

    def take(self, indices: Any) -> TextPredictions:
        chosen = torch.as_tensor(indices, dtype=torch.int64)
        scores = {name: values[chosen.numpy()] for name, values in self.scores.items()}
        taken = TextPredictions(*super().take(chosen))
        return taken._with(self.token_shares[chosen], scores)


def predict_texts(
    model: nn.Module, data: TextExamples, cache: PredictionCache | None = None
) -> TextPredictions:
    """One pass over the records; see :class:`TextPredictions`."""
    scores = (cache or PredictionCache())(model, data.texts, score_tokens)
    facts = scores.without(~fact_tokens(data.texts))
    if data.given is not None:
        scores = scores.without(data.given)
    return TextPredictions.of(
        torch.from_numpy(mean_log_prob(scores)),
        data.labels,
        data.num_classes,
        torch.from_numpy(exact_memorisation(scores)),
        membership_scores(data.texts, scores)
        | {"facts": mean_log_prob(facts), "facts_right": exact_memorisation(facts)},
    )
