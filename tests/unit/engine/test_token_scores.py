"""One pass over texts."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from expunge._errors import InvalidInput
from expunge.data.text import TextSet
from expunge.engine import _token_scores as module
from expunge.engine._predict import PredictionCache
from expunge.engine._token_scores import score_tokens
from tests.unit.evaluation.text.worlds import Bigrams, text_set

DATA = text_set()


def test_batches_of_similar_length_give_what_single_rows_give(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = Bigrams(DATA)
    monkeypatch.setattr(module, "TOKEN_ROWS_PER_BATCH", 4)
    whole = score_tokens(model, DATA)
    for k in range(len(DATA)):
        single = score_tokens(model, DATA.subset([k]))
        width = single.labels.shape[1]
        for name in ("log_probs", "predicted", "means", "deviations"):
            batched = getattr(whole, name)[k : k + 1, :width][single.answered]
            assert torch.allclose(batched, getattr(single, name)[single.answered])


def test_numbers_outside_answers_are_zero_and_the_mode_is_restored() -> None:
    model = nn.Sequential(Bigrams(DATA), nn.Dropout(0.9)).train()
    scores = score_tokens(model, DATA)
    assert float(scores.log_probs[~scores.answered].abs().sum()) == 0.0
    assert all(part.training for part in model.modules())
    assert torch.equal(scores.log_probs, score_tokens(model, DATA).log_probs), "eval mode"


def test_tokens_that_are_left_out_are_as_if_they_were_not_to_be_predicted() -> None:
    scores = score_tokens(Bigrams(DATA), DATA)
    left_out = scores.answered & (torch.arange(scores.labels.shape[1]) % 2 == 0)
    rest = scores.without(left_out)
    assert torch.equal(rest.answered, scores.answered & ~left_out)
    assert torch.equal(rest.right, scores.right & ~left_out)
    for name in ("log_probs", "means", "deviations"):
        values = getattr(rest, name)
        assert torch.equal(values[rest.answered], getattr(scores, name)[rest.answered])
        assert not values[~rest.answered].any()
    assert left_out.any()


def test_an_unchanged_model_is_asked_once() -> None:
    model = Bigrams(DATA)
    cache = PredictionCache()
    first = cache(model, DATA, score_tokens)
    assert cache(model, DATA, score_tokens) is first
    assert model.rows == len(DATA)


class Classifier(nn.Module):
    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return torch.zeros(len(tokens), 3)


class Broken(Bigrams):
    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return super().forward(tokens) * float("nan")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Classifier(), r"tokens \[B, T\] to logits \[B, T, V\]"),
        (Broken(), "18 of 18 records have NaN or infinity, the first at position 0"),
    ],
)
def test_what_is_no_language_model_is_refused(model: nn.Module, message: str) -> None:
    data: TextSet = DATA
    with pytest.raises(InvalidInput, match=message):
        score_tokens(model, data)
