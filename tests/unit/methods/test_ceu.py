"""CE-U against its formula."""

from __future__ import annotations

import copy
import math

import pytest
import torch

from expunge import InvalidInput
from expunge.methods import CEU
from expunge.methods._tokens import count_of
from tests.unit.methods.token_worlds import (
    FORGET,
    RETAIN,
    Bigram,
    assert_is,
    gradient,
    literal_logits,
    precise,
    softmax,
)


def literal_ceu(model: Bigram, fixed: Bigram, skip: int) -> float:
    """-1/N Σ Σ_k q_k log softmax(z)_k, q the softmax of z without y, from a model that stays."""
    total, count = 0.0, 0
    for row, same in zip(literal_logits(model, FORGET), literal_logits(fixed, FORGET), strict=True):
        for (z, y), (z_fixed, _) in list(zip(row, same, strict=True))[skip:]:
            rest = sum(math.exp(v) for k, v in enumerate(z_fixed) if k != y)
            for k, p in enumerate(softmax(z)):
                if k != y:
                    total -= math.exp(z_fixed[k]) / rest * math.log(p)
            count += 1
    return total / count


@pytest.mark.parametrize("skip", [0, 1, 3])
def test_ceu_is_its_formula_without_the_first_tokens(skip: int) -> None:
    problem, _, student = precise()
    now = copy.deepcopy(student)
    loss = CEU(skip).objective(problem, FORGET, RETAIN)
    assert_is(loss, student, lambda model: literal_ceu(model, now, skip))


def test_the_mean_is_over_the_tokens_that_are_left() -> None:
    lengths = [len(row) for row in literal_logits(Bigram(), FORGET)]
    assert CEU(2).size("objective", FORGET) == sum(max(n - 2, 0) for n in lengths)
    assert CEU(2).size("saliency", FORGET) == count_of(FORGET.targets) == sum(lengths)


def test_a_forgotten_token_has_no_gradient_left() -> None:
    problem, _, student = precise()
    first = gradient(CEU().objective(problem, FORGET, RETAIN), student).norm()
    with torch.no_grad():
        for tokens, labels in zip(FORGET.inputs, FORGET.targets, strict=True):
            for t in range(1, 8):
                if labels[t] != -100:
                    student.table[tokens[t - 1], labels[t]] = -60.0
    assert gradient(CEU().objective(problem, FORGET, RETAIN), student).norm() < 1e-6 * first


def test_a_batch_of_short_answers_is_refused() -> None:
    problem, _, _ = precise()
    with pytest.raises(InvalidInput, match="should have a token to predict"):
        CEU(skip=7).objective(problem, FORGET, RETAIN)
    with pytest.raises(InvalidInput, match=r"`skip` should be a whole number, at least 0"):
        CEU(skip=-1)
