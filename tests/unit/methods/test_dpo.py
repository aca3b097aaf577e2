"""DPO against its formula, and where the preferred answers come from."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import expunge
from expunge import Batch, InvalidInput, Problem
from expunge.data import PreferredAnswers
from expunge.methods import DPO
from expunge.methods._tokens import sequence_log_likelihood
from tests import tiny
from tests.tiny import Counting, bits, points, same
from tests.unit.methods.token_worlds import (
    FORGET,
    RETAIN,
    Bigram,
    Dicts,
    assert_is,
    gradient,
    literal_log_likelihoods,
    precise,
    sigmoid,
    texts,
)

BETTER = Batch(*texts(5, 7).tensors, "forget")
PAIRED = FORGET._replace(preferred=BETTER)


def literal_dpo(model: Bigram, first: Bigram, win: Batch, lose: Batch, beta: float) -> float:
    """-(2/β)·1/B Σ log σ(β[log(π/π₀)(y') - log(π/π₀)(y)])."""

    def ratios(batch: Batch) -> list[float]:
        now, then = (literal_log_likelihoods(m, batch) for m in (model, first))
        return [sum(a) - sum(b) for a, b in zip(now, then, strict=True)]

    pairs = list(zip(ratios(win), ratios(lose), strict=True))
    return -2.0 / beta * sum(math.log(sigmoid(beta * (w - s))) for w, s in pairs) / len(pairs)


@pytest.mark.parametrize("beta", [0.1, 1.5])
def test_dpo_is_its_formula_on_whole_sequences(beta: float) -> None:
    problem, first, student = precise()
    loss = DPO(beta).objective(problem, PAIRED, RETAIN)
    assert_is(loss, student, lambda model: literal_dpo(model, first, BETTER, FORGET, beta))


def test_dpo_starts_as_ascent_on_one_answer_and_descent_on_the_other() -> None:
    problem = Problem(Bigram())
    model = problem.model
    lose, win = (sequence_log_likelihood(model(b.inputs), b.targets) for b in (FORGET, BETTER))
    expected = gradient((lose - win).mean(), model)
    first = gradient(DPO().objective(problem, PAIRED, RETAIN), model)
    torch.testing.assert_close(first, expected)


def test_class_numbers_prefer_another_class() -> None:
    problem = Problem(Counting())
    data = Batch(*points(9).tensors, "forget")
    terms = [DPO().objective(problem, data, data) for _ in range(2)]
    losses = [gradient(term, problem.model) for term in terms]
    assert not torch.equal(*losses)  # drawn anew
    assert terms[0].loss.item() == pytest.approx(20.0 * math.log(2.0))  # nothing has moved yet


def unlearn(forget: Any, **options: Any) -> expunge.Result:
    chosen: dict[str, Any] = {"retain": Dicts(texts(9, 2)), "method": "dpo", "epochs": 2}
    chosen |= {"batch_size": 3, "lr": 1e-2, "progress": False}
    return tiny.unlearn(Bigram(), forget=forget, **chosen | options)


def test_preferred_answers_travel_with_the_data() -> None:
    data = PreferredAnswers(Dicts(texts(6, 1)), Dicts(texts(6, 7)))
    whole = unlearn(data)
    cut = unlearn(data, micro_batches=3)
    torch.testing.assert_close(bits(whole.model), bits(cut.model))
    other = unlearn(PreferredAnswers(Dicts(texts(6, 1)), Dicts(texts(6, 8))))
    assert not same(bits(whole.model), bits(other.model))


def test_what_is_missing_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"`dpo` needs an answer to prefer.*take NPO"):
        unlearn(Dicts(texts(6, 1)))
