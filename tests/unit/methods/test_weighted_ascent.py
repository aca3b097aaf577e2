"""WGA and SatImp against their formulas."""

from __future__ import annotations

import copy
import math

import pytest
import torch

from expunge import InvalidInput
from expunge.methods import WGA, GradientDifference, SatImp, TokenMethod
from tests.unit.methods.token_worlds import (
    FORGET,
    RETAIN,
    Bigram,
    assert_is,
    gradient,
    literal_log_likelihoods,
    precise,
)


def literal_ascent(model: Bigram, weights: Bigram, beta1: float, beta2: float) -> float:
    """1/N Σ p^β₁ (1-p)^β₂ log p, with p in the weights from a model that stays as it is."""
    values = [v for row in literal_log_likelihoods(model, FORGET) for v in row]
    fixed = [math.exp(v) for row in literal_log_likelihoods(weights, FORGET) for v in row]
    pairs = zip(values, fixed, strict=True)
    return sum(p**beta1 * (1.0 - p) ** beta2 * v for v, p in pairs) / len(values)


@pytest.mark.parametrize(
    ("method", "beta1", "beta2"),
    [(WGA(), 1.0, 0.0), (WGA(0.3), 0.3, 0.0), (SatImp(), 5.0, 1.0), (SatImp(0.5, 2.0), 0.5, 2.0)],
)
def test_the_weights_are_constants_of_the_step(
    method: TokenMethod, beta1: float, beta2: float
) -> None:
    problem, _, student = precise()
    now = copy.deepcopy(student)
    loss = method.objective(problem, FORGET, RETAIN)
    assert_is(loss, student, lambda model: literal_ascent(model, now, beta1, beta2))


def test_without_weights_it_is_gradient_difference_and_without_importance_wga() -> None:
    problem, _, student = precise()
    pairs = [(WGA(0.0), GradientDifference()), (SatImp(2.0, 0.0), WGA(2.0))]
    for one, other in pairs:
        losses = [m.objective(problem, FORGET, RETAIN) for m in (one, other)]
        torch.testing.assert_close(*(gradient(loss, student) for loss in losses))
        torch.testing.assert_close(losses[0].loss, losses[1].loss)


def test_a_token_that_cannot_be_more_certain_leaves_the_weights_finite() -> None:
    problem, _, student = precise()
    with torch.no_grad():
        student.table.mul_(1e4)
    for method in (WGA(0.5), SatImp(0.5, 0.5)):
        assert gradient(method.objective(problem, FORGET, RETAIN), student).isfinite().all()


def test_negative_exponents_are_refused() -> None:
    with pytest.raises(
        InvalidInput, match=r"`beta` should be finite and not negative. \(got -1.0\)"
    ):
        WGA(beta=-1.0)
    with pytest.raises(
        InvalidInput, match=r"`beta2` should be finite and not negative. \(got -0.5\)"
    ):
        SatImp(beta2=-0.5)
