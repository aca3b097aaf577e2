"""Regressions: their loss, and the methods that need nothing else."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from expunge import Execution
from expunge._errors import InvalidInput
from expunge.data import Examples
from expunge.engine import Recipe
from expunge.engine._model_from_config import (
    SquaredError,
    as_numbers,
    label_statistics,
    loss_for,
    train_from_config,
)
from expunge.methods import METHODS
from tests import tiny

WORKS = {"fine-tune", "gradient-ascent", "neg-grad-plus", "l1-sparse", "mask-small-gradients"}
WORKS |= {"refresh", "retrain"}


def lines(count: int, seed: int) -> Examples:
    """y = 1000 + 200 x₀ - 100 x₁, and some noise."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 2, generator=generator)
    noise = torch.randn(count, generator=generator)
    return Examples(x, 1000 + 200 * x[:, 0] - 100 * x[:, 1] + noise, ())


def test_the_loss_is_in_units_of_the_deviation_of_the_labels():
    data = lines(400, 0)
    mean, deviation = label_statistics(data)
    assert deviation == pytest.approx(float(data.labels.double().std(correction=0)))
    always_the_mean = torch.full((400, 1), mean)
    assert float(loss_for(data)(always_the_mean, data.labels)) == pytest.approx(1.0, rel=1e-4)
    literal = (always_the_mean[:, 0] - data.labels).square().mean() / deviation**2
    assert float(SquaredError(deviation)(always_the_mean, data.labels)) == pytest.approx(
        float(literal)
    )


def test_outputs_are_one_number_per_example():
    assert as_numbers(torch.zeros(3, 1)).shape == as_numbers(torch.zeros(3)).shape == (3,)
    with pytest.raises(InvalidInput, match=r"one number per example, \[N, 1\]\. \(got \[3, 2\]\)"):
        as_numbers(torch.zeros(3, 2))


def test_equal_labels_have_a_scale_too():
    assert label_statistics(Examples(torch.zeros(2, 1), torch.ones(2), ())) == (1.0, 1.0)


def test_a_network_learns_numbers_at_the_rate_for_classes():
    data = lines(300, 0)
    result = train_from_config(
        {"name": "mlp", "num_classes": 1, "in_channels": 2, "width": 0.1},
        data,
        recipe=Recipe(epochs=8, batch_size=32, lr=0.05),
        augment=None,
        execution=Execution(device="cpu", progress=False),
    )
    test = lines(100, 1)
    with torch.no_grad():
        error = (as_numbers(result.model(test.inputs)) - test.labels).square().mean().sqrt()
    assert float(error) < 0.3 * float(test.labels.std())


@pytest.mark.parametrize("method", list(METHODS))
def test_a_method_runs_on_a_regression_or_says_why_it_cannot(method):
    forget, retain, unseen = lines(12, 0), lines(24, 1), lines(12, 2)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))

    def run():
        return tiny.unlearn(
            model, forget=forget, retain=retain, unseen=unseen, method=method, addon="none",
            loss=loss_for(retain), epochs=1, batch_size=12, progress=False, device="cpu",
        )  # fmt: skip

    if method in WORKS:
        assert run().history.epochs[-1]["steps"] >= 1
    else:
        with pytest.raises(InvalidInput):
            run()
