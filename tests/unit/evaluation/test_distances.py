"""Distances between the outputs of models, against literal definitions."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from expunge._errors import InvalidInput
from expunge.evaluation import Predictions
from expunge.evaluation._distances import activation_distance, js_divergence, klom, zrf


def outputs(seed: int, scale: float = 2.0, count: int = 20, classes: int = 4) -> Predictions:
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(count, classes, generator=generator)
    return Predictions(logits, torch.arange(count) % classes)


def probabilities(predictions: Predictions) -> list[list[float]]:
    return torch.softmax(predictions.logits.double(), dim=1).tolist()


def literal_jsd(p: list[float], q: list[float]) -> float:
    total = 0.0
    for a, b in zip(p, q, strict=True):
        middle = (a + b) / 2
        total += 0.5 * a * math.log2(a / middle) + 0.5 * b * math.log2(b / middle)
    return total


def test_the_jensen_shannon_divergence_is_its_definition_in_bits() -> None:
    one, other = outputs(0), outputs(1)
    pairs = list(zip(probabilities(one), probabilities(other), strict=True))
    literal = sum(literal_jsd(p, q) for p, q in pairs) / len(pairs)
    assert js_divergence(one, other) == pytest.approx(literal, rel=1e-12)
    assert js_divergence(other, one) == pytest.approx(literal, rel=1e-12)
    assert zrf(one, other) == pytest.approx(1 - literal, rel=1e-12)


def test_the_activation_distance_is_the_mean_distance_of_probabilities() -> None:
    one, other = outputs(0), outputs(1)
    pairs = list(zip(probabilities(one), probabilities(other), strict=True))
    literal = sum(math.dist(p, q) for p, q in pairs) / len(pairs)
    assert activation_distance(one, other) == pytest.approx(literal, rel=1e-12)


def test_distances_are_zero_between_equals_and_largest_between_certain_opposites() -> None:
    labels = torch.zeros(3, dtype=torch.int64)
    left, right = (Predictions(torch.tensor([[z, -z]] * 3), labels) for z in (500.0, -500.0))
    assert js_divergence(left, left) == activation_distance(left, left) == 0.0
    assert js_divergence(left, right) == pytest.approx(1.0)
    assert activation_distance(left, right) == pytest.approx(math.sqrt(2.0))


def margins(predictions: Predictions) -> Tensor:
    """The log-odds of the label."""
    p = torch.softmax(predictions.logits.double(), dim=1)[torch.arange(20), predictions.labels]
    return torch.log(p / (1 - p))


def test_klom_stays_finite_for_models_that_are_certain() -> None:
    sure = Predictions(torch.tensor([[900.0, 0.0], [-900.0, 0.0]]), torch.tensor([0, 0]))
    assert klom([sure, sure], [sure, sure]).tolist() == [0.0, 0.0]


def literal_gaussian_kl(first: Tensor, second: Tensor) -> float:
    """KL of the two fitted Gaussians, by numerical integration."""
    one, other = (torch.distributions.Normal(x.mean(), x.std()) for x in (first, second))
    grid = torch.linspace(-200, 200, 400_001, dtype=torch.float64)
    log_p, log_q = one.log_prob(grid), other.log_prob(grid)
    return float((log_p.exp() * (log_p - log_q)).sum() * (grid[1] - grid[0]))


def test_klom_is_the_divergence_of_margins_from_those_of_retrained_models() -> None:
    unlearned, retrained = [outputs(k) for k in range(5)], [outputs(k) for k in range(9, 13)]
    found = klom(unlearned, retrained)
    for example in (0, 7):
        side_u, side_r = (
            torch.stack([margins(part)[example] for part in side])
            for side in (unlearned, retrained)
        )
        assert float(found[example]) == pytest.approx(literal_gaussian_kl(side_r, side_u), rel=1e-4)


def test_klom_is_small_between_runs_of_one_kind() -> None:
    alike = klom([outputs(k) for k in range(40)], [outputs(k) for k in range(50, 90)])
    apart = klom([outputs(k, 9.0) for k in range(40)], [outputs(k) for k in range(50, 90)])
    assert alike.median() < 0.1 < apart.median()


def test_klom_takes_one_unlearned_model_to_spread_as_the_retrained_ones_do() -> None:
    unlearned, retrained = outputs(0), [outputs(k) for k in range(9, 13)]
    found = klom([unlearned], retrained)
    for example in (0, 7):
        of_r = torch.stack([margins(part)[example] for part in retrained])
        moved = of_r - of_r.mean() + margins(unlearned)[example]
        assert float(found[example]) == pytest.approx(literal_gaussian_kl(of_r, moved), rel=1e-4)


def test_klom_needs_runs_and_the_same_examples() -> None:
    with pytest.raises(InvalidInput, match=r"at least 2 retrained models. .got 2 and 1"):
        klom([outputs(0), outputs(1)], [outputs(2)])
    with pytest.raises(InvalidInput, match="same examples"):
        klom([outputs(0), outputs(1)], [outputs(2), outputs(3, count=16)])
