"""The target: literal formulas, its interval's coverage, and what it falls back to."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.stats import betabinom
from torch import Tensor

from expunge._errors import InvalidInput
from expunge.evaluation import Predictions
from expunge.request.calibrate._target import estimate_target


def answers(labels: list[int], right: list[int], classes: int = 3) -> Predictions:
    """Predictions that are right where ``right`` is 1."""
    y = torch.tensor(labels)
    told = torch.where(torch.tensor(right) == 1, y, (y + 1) % classes)
    return Predictions(4.0 * torch.nn.functional.one_hot(told, classes).float(), y)


def labels(*counts: int) -> Tensor:
    return torch.tensor([c for c, count in enumerate(counts) for _ in range(count)])


VAL = answers([0] * 10 + [1] * 20 + [2] * 5, [1] * 8 + [0] * 2 + [1] * 19 + [0] + [1] * 3 + [0] * 2)


def test_value_is_the_accuracy_on_val_weighted_by_the_classes_to_forget() -> None:
    target = estimate_target(VAL, labels(3, 1, 0))
    assert target.accuracy.value == pytest.approx(100 * (0.75 * 8 / 10 + 0.25 * 19 / 20))
    assert target.weights == {0: 0.75, 1: 0.25}
    assert (target.n_val, target.n_forget) == (35, 4)


def test_errors_grow_with_the_data_that_go() -> None:
    target = estimate_target(VAL, labels(4, 0, 0), labels(4, 9, 9), exponents=(0.0, 1.0))
    assert target.accuracy.value == pytest.approx(100 * (1 - (0.2 + 0.2 * 2) / 2))


def literal_interval(level: float) -> tuple[float, float]:
    """All ways to be right on 2 of class 0 and 3 of class 2, one by one, for exponents 0 and 1."""
    centre = (30 + 0.5) / (35 + 1)
    mass = np.zeros(6)
    for exponent in (0, 1):
        parts = []
        for n, k, m, kept in ((10, 8, 2, 6 / 8), (5, 3, 3, 2 / 5)):
            error = (n - k + 2 * (1 - centre)) / (n + 2) / kept**exponent
            a, b = (1 - error) * (n + 2), error * (n + 2)
            parts.append([betabinom.pmf(s, m, a, b) for s in range(m + 1)])
        for s, t in itertools.product(range(3), range(4)):
            mass[s + t] += parts[0][s] * parts[1][t] / 2
    tail = (1 - level) / 2
    low = max(s for s in range(6) if mass[:s].sum() <= tail)
    high = min(s for s in range(6) if mass[s + 1 :].sum() <= tail)
    return 100 * low / 5, 100 * high / 5


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
def test_interval_matches_the_sum_over_all_outcomes(level: float) -> None:
    target = estimate_target(VAL, labels(2, 0, 3), labels(6, 7, 2), level=level, exponents=(0, 1))
    low, high = literal_interval(level)
    value = target.accuracy.value
    assert target.accuracy.low == pytest.approx(min(low, value))
    assert target.accuracy.high == pytest.approx(max(high, value))


@pytest.mark.parametrize(
    ("n_val", "n_forget"),
    [
        (60, 200),
        pytest.param(400, 40, marks=pytest.mark.thorough),
        pytest.param(1000, 10, marks=pytest.mark.thorough),
    ],
)
def test_interval_covers_the_truth_as_often_as_it_says(n_val: int, n_forget: int) -> None:
    random = np.random.default_rng(n_val)
    rates = np.array([0.95, 0.8, 0.9, 0.99, 0.7])
    inside = []
    for _ in range(200):
        y, f = random.integers(0, 5, n_val), random.integers(0, 5, n_forget)
        val = answers(y.tolist(), (random.random(n_val) < rates[y]).astype(int).tolist(), 5)
        aim = estimate_target(val, torch.tensor(f), level=0.9).accuracy
        truth = 100 * float(np.mean(random.random(n_forget) < rates[f]))
        inside.append(aim.low - 1e-9 <= truth <= aim.high + 1e-9)
    assert np.mean(inside) >= 0.86
    if n_forget >= 40:  # ten examples have too few outcomes to be exact
        assert np.mean(inside) <= 0.97


def test_a_class_that_is_gone_is_expected_wrong() -> None:
    target = estimate_target(VAL, labels(0, 10, 0), labels(5, 0, 5))
    assert tuple(target.accuracy) == (0.0, 0.0, 0.0)
    assert target.lost == (1,)
    assert math.isnan(target.confidence.value)
    assert any("never" in note for note in target.notes)


def test_a_class_without_val_examples_falls_back_to_all_of_val() -> None:
    val = VAL.take(list(range(30)))
    target = estimate_target(val, labels(0, 0, 4))
    assert target.accuracy.value == pytest.approx(100 * 27 / 30)
    assert any("no example of class 2" in note for note in target.notes)


def test_few_val_examples_are_noted() -> None:
    notes = estimate_target(VAL, labels(0, 0, 4)).notes
    assert any("fewer than 10 examples of class 2" in note for note in notes)


def test_confidence_and_entropy_are_matched_means_with_their_spread() -> None:
    target = estimate_target(VAL, labels(1, 0, 1), level=0.95)
    p = math.exp(4) / (math.exp(4) + 2)
    q = 1 / (math.exp(4) + 2)
    values = np.where((VAL.classes == VAL.labels).numpy(), p, q)
    y = VAL.labels.numpy()
    mean = 0.5 * values[y == 0].mean() + 0.5 * values[y == 2].mean()
    spread = 0.0
    for c in (0, 2):
        own = values[y == c]
        here = (own.var() * len(own) + 2 * values.var()) / (len(own) + 2)
        spread += 0.25 * here / len(own) + 0.5 * here / 2
    assert target.confidence.value == pytest.approx(mean)
    assert target.confidence.high == pytest.approx(mean + 1.959964 * math.sqrt(spread))
    assert target.entropy.low == pytest.approx(target.entropy.high)  # all equally sure


def test_plain_values_for_json() -> None:
    import json

    found = json.loads(json.dumps(estimate_target(VAL, labels(1, 1, 1), labels(5, 5, 5)).as_dict()))
    assert found["n_forget"] == 3
    assert found["low"] <= found["value"] <= found["high"]


@pytest.mark.parametrize("bad", [torch.tensor([], dtype=torch.int64), torch.tensor([3])])
def test_labels_should_be_some_of_the_models_classes(bad: Tensor) -> None:
    with pytest.raises(InvalidInput):
        estimate_target(VAL, bad)


def test_level_should_be_a_probability() -> None:
    with pytest.raises(InvalidInput, match="`level`"):
        estimate_target(VAL, labels(1, 1, 1), level=1.0)
