"""SimNPO against its formula."""

from __future__ import annotations

import math

import pytest
import torch

from expunge import InvalidInput, Problem
from expunge.methods import SimNPO
from tests.unit.methods.token_worlds import (
    FORGET,
    RETAIN,
    Bigram,
    assert_is,
    gradient,
    literal_log_likelihoods,
    numeric_gradient,
    precise,
    sigmoid,
)


def literal_simnpo(model: Bigram, beta: float, margin: float) -> float:
    """-(2/β)·1/B Σ log σ(-(β/|y|) log π(y|x) - γ)."""
    total = 0.0
    rows = literal_log_likelihoods(model, FORGET)
    for row in rows:
        total += math.log(sigmoid(-beta / len(row) * sum(row) - margin))
    return -2.0 / beta * total / len(rows)


@pytest.mark.parametrize(("beta", "margin"), [(0.1, 0.0), (2.5, 0.0), (4.5, 0.7)])
def test_simnpo_is_its_formula_on_sequences_of_different_lengths(
    beta: float, margin: float
) -> None:
    problem, _, student = precise()
    loss = SimNPO(beta, margin).objective(problem, FORGET, RETAIN)
    assert_is(loss, student, lambda model: literal_simnpo(model, beta, margin))


def test_a_sequence_counts_as_much_as_one_twice_as_long() -> None:
    """At a small β the gradient is ascent on the mean of the sequences' mean log-likelihoods."""
    problem, _, student = precise()
    own = gradient(SimNPO(1e-6).objective(problem, FORGET, RETAIN), student)

    def mean_of_means(model: Bigram) -> float:
        rows = literal_log_likelihoods(model, FORGET)
        return sum(sum(row) / len(row) for row in rows) / len(rows)

    torch.testing.assert_close(own, numeric_gradient(mean_of_means, student), rtol=1e-4, atol=1e-6)


def test_simnpo_keeps_no_initial_model() -> None:
    problem = Problem(Bigram(), keeps_initial=SimNPO().needs_initial)
    SimNPO().objective(problem, FORGET, RETAIN)
    with pytest.raises(InvalidInput, match="should keep the initial model"):
        problem.initial  # noqa: B018
    assert SimNPO(retain="kl").needs_initial


def test_a_beta_of_zero_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"`beta` should be positive and finite. \(got 0\)"):
        SimNPO(beta=0)
