"""ROC statistics against literal definitions, and the honesty of their intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from expunge._errors import InvalidInput
from expunge.evaluation._statistics import (
    Sample,
    auc,
    balanced_accuracy,
    delong_interval,
    match_class_mix,
    tpr_at,
)

SCORES = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=12)
OPTIONS = {"level": 0.95, "resamples": 200, "seed": 0}


def of(positive: list[float], negative: list[float]) -> Sample:
    return Sample.of(np.array(positive), np.array(negative))


@given(SCORES, SCORES)
def test_auc_with_ties_is_that_of_scikit_learn(a: list[float], b: list[float]) -> None:
    expected = roc_auc_score([1] * len(a) + [0] * len(b), a + b)
    assert of(a, b).value(auc) == pytest.approx(expected, abs=1e-12)


@given(SCORES, SCORES, st.sampled_from([0.1, 0.25, 0.5, 1.0]))
def test_tpr_is_the_best_over_all_thresholds_that_keep_the_fpr(
    a: list[float], b: list[float], fpr: float
) -> None:
    thresholds = [np.inf, *a, *b]
    best = max(
        np.mean(np.array(a) >= t) for t in thresholds if np.mean(np.array(b) >= t) <= fpr + 1e-12
    )
    assert of(a, b).value(tpr_at(fpr)) == pytest.approx(best)


@given(SCORES, SCORES)
def test_balanced_accuracy_is_that_of_scikit_learn(a: list[float], b: list[float]) -> None:
    sample = of(a, b)
    expected = balanced_accuracy_score([1] * len(a) + [0] * len(b), np.array(a + b) > 0)
    assert sample.value(balanced_accuracy(sample.levels > 0)) == pytest.approx(expected)


@settings(max_examples=20)
@given(SCORES, SCORES)
def test_intervals_hold_their_value_and_repeat(a: list[float], b: list[float]) -> None:
    sample = of(a, b)
    first, again = (sample.estimates([auc, tpr_at(0.5)], **OPTIONS) for _ in range(2))
    assert first == again
    assert all(0.0 <= e.low <= e.high <= 1.0 for e in first)


@pytest.mark.parametrize(("shift", "size"), [(0.0, 60), (0.8, 60), (0.3, 300)])
def test_auc_intervals_cover_the_truth_as_often_as_they_say(shift: float, size: int) -> None:
    from scipy.stats import norm

    truth = float(norm.cdf(shift / np.sqrt(2)))
    covered = []
    for seed in range(300):
        random = np.random.default_rng(seed)
        sample = Sample.of(random.normal(shift, 1, size), random.normal(0, 1, size))
        low, high = sample.estimates([auc], **OPTIONS)[0][1:]
        covered.append(low <= truth <= high)
    assert 0.90 <= np.mean(covered) <= 0.99


def test_bootstrap_draws_each_kind_from_its_own() -> None:
    values = of([1.0, 2.0], [0.0, 0.5])._draws([auc], 50, 0)
    assert (values == 1.0).all()


def test_a_perfect_separation_of_few_is_not_certain() -> None:
    few = of([5.0, 6.0, 7.0], [1.0, 2.0, 3.0]).estimates([auc], **OPTIONS)[0]
    many = of([5.0] * 200, [1.0] * 200).estimates([auc], **OPTIONS)[0]
    assert few.value == many.value == few.high == 1.0
    assert few.low < 0.5 < 0.97 < many.low


def test_one_example_says_nothing() -> None:
    assert of([1.0], [0.0, 0.5]).estimates([auc], **OPTIONS)[0] == (1.0, 0.0, 1.0)


@pytest.mark.parametrize("bad", [[], [np.nan], [[1.0]]])
def test_empty_nan_and_nested_scores_are_refused(bad: list[float]) -> None:
    with pytest.raises(InvalidInput, match="without NaN"):
        of(bad, [1.0])


@given(SCORES, SCORES)
def test_delong_s_auc_is_that_of_counts_and_lies_in_its_interval(
    a: list[float], b: list[float]
) -> None:
    value, low, high = delong_interval(np.array(a), np.array(b))
    assert value == pytest.approx(of(a, b).value(auc), abs=1e-12)
    assert 0.0 <= low <= value <= high <= 1.0


def test_delong_s_interval_is_about_that_of_the_bootstrap() -> None:
    random = np.random.default_rng(0)
    a, b = random.normal(0.3, 1.0, 150), random.normal(0.0, 1.0, 600).round(1)
    (drawn,) = Sample.of(a, b).estimates([auc], level=0.9, resamples=4000, seed=0)
    assert delong_interval(a, b, 0.9) == pytest.approx(drawn, abs=0.003)


def test_delong_s_variance_is_its_definition() -> None:
    a, b = np.array([0.1, 0.4, 0.35, 0.8]), np.array([0.2, 0.35, 0.1])
    wins = (a[:, None] > b).astype(float) + 0.5 * (a[:, None] == b)
    variance = wins.mean(1).var(ddof=1) / 4 + wins.mean(0).var(ddof=1) / 3
    value, low, _ = delong_interval(a, b, 0.5)
    assert value - low == pytest.approx(0.6744897501960817 * math.sqrt(variance))


def test_delong_s_interval_of_separate_scores_is_not_a_point() -> None:
    found = delong_interval(np.arange(5.0) + 10.0, np.arange(9.0), 0.9)
    assert found == (1.0, pytest.approx(0.05 ** (1 / 5)), 1.0)
    assert delong_interval(np.array([1.0]), np.arange(9.0))[1:] == (0.0, 1.0)


POOL = torch.tensor([0] * 12 + [1] * 6 + [2] * 5)


def class_counts(like: list[int], *, most: float = 1.0) -> list[int]:
    chosen = match_class_mix(POOL, torch.tensor(like), seed=1, most=most)
    assert chosen == sorted(set(chosen))
    return torch.bincount(POOL[chosen], minlength=4).tolist()


def test_as_many_of_each_class_or_all_there_are() -> None:
    assert class_counts([0, 0, 1]) == [2, 1, 0, 0]
    assert class_counts([1] * 9 + [2]) == [0, 6, 1, 0]


def test_the_largest_sample_keeps_the_mix() -> None:
    assert class_counts([0, 0, 1], most=math.inf) == [12, 6, 0, 0]
    assert class_counts([0, 1], most=math.inf) == [6, 6, 0, 0]
    assert class_counts([0, 1], most=2) == [2, 2, 0, 0]


def test_a_class_that_is_not_there_does_not_limit_the_others() -> None:
    assert class_counts([0, 3], most=math.inf) == [12, 0, 0, 0]
    assert class_counts([3], most=math.inf) == [0, 0, 0, 0]
