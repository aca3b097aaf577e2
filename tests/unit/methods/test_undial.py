"""UNDIAL against its formula."""

from __future__ import annotations

import math

import pytest
import torch

from expunge import InvalidInput
from expunge.methods import UNDIAL
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


def literal_undial(model: Bigram, first: Bigram, strength: float) -> float:
    """-1/N Σ Σ_k softmax(z₀ - γ·1_y)_k log softmax(z)_k over the labelled tokens."""
    total, count = 0.0, 0
    for row, initial in zip(
        literal_logits(model, FORGET), literal_logits(first, FORGET), strict=True
    ):
        for (z, y), (z0, _) in zip(row, initial, strict=True):
            target = softmax([v - strength * (k == y) for k, v in enumerate(z0)])
            total -= sum(t * math.log(p) for t, p in zip(target, softmax(z), strict=True))
            count += 1
    return total / count


@pytest.mark.parametrize("strength", [0.5, 10.0])
def test_undial_is_its_formula_on_labelled_tokens(strength: float) -> None:
    problem, first, student = precise()
    loss = UNDIAL(strength).objective(problem, FORGET, RETAIN)
    assert_is(loss, student, lambda model: literal_undial(model, first, strength))


def test_nothing_is_left_to_do_at_the_target() -> None:
    """Descent arrives: the gradient vanishes where the model says what the target says."""
    problem, _, student = precise()
    optimizer = torch.optim.LBFGS(student.parameters(), max_iter=200, line_search_fn="strong_wolfe")
    one = FORGET._replace(inputs=FORGET.inputs[:1], targets=FORGET.targets[:1])

    def closure() -> float:
        optimizer.zero_grad()
        loss = UNDIAL(3.0).objective(problem, one, RETAIN).loss
        loss.backward()
        return float(loss.detach())

    first = gradient(UNDIAL(3.0).objective(problem, one, RETAIN), student).norm()
    optimizer.step(closure)
    last = gradient(UNDIAL(3.0).objective(problem, one, RETAIN), student).norm()
    assert last < 1e-3 * first


def test_a_strength_of_zero_is_refused() -> None:
    with pytest.raises(
        InvalidInput, match=r"`strength` should be positive and finite. \(got 0.0\)"
    ):
        UNDIAL(strength=0.0)
