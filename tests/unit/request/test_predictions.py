from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from expunge.evaluation import Predictions
from expunge.evaluation._statistics import wilson_interval
from expunge.evidence import Interval
from expunge.request._predictions import accuracy_interval, mean_interval


def ends(interval: Interval) -> tuple[float, float, float]:
    return interval.value, interval.low, interval.high


@given(
    count=st.integers(1, 2000), proportion=st.floats(0, 1), level=st.sampled_from([0.5, 0.9, 0.95])
)
def test_wilson_bounds_solve_the_score_equation(count, proportion, level):
    """The bounds are the p where |hits/count - p| is z standard deviations of p."""
    hits = round(proportion * count)
    value, low, high = (x / 100 for x in wilson_interval(hits, count, level))
    z = NormalDist().inv_cdf(0.5 + level / 2)
    assert value == pytest.approx(hits / count, abs=1e-8)
    assert 0 <= low <= value + 1e-8
    assert value - 1e-8 <= high <= 1
    for p in (low, high):
        if 0 < p < 1:
            assert abs(hits / count - p) == pytest.approx(
                z * math.sqrt(p * (1 - p) / count), rel=1e-6, abs=1e-7
            )


def test_wilson_is_exact_at_both_ends():
    assert wilson_interval(0, 7).low == 0
    assert wilson_interval(7, 7).high == 100


def test_accuracy_counts_right_answers():
    predictions = Predictions(torch.eye(4), torch.tensor([0, 1, 2, 0]))
    assert ends(accuracy_interval(predictions)) == pytest.approx(wilson_interval(3, 4), abs=1e-6)


def test_the_interval_of_a_mean_is_student_s():
    from scipy.stats import t

    shares = np.array([0.2, 0.5, 0.4, 0.9, 0.3])
    value, low, high = ends(mean_interval(shares))
    expected = t.interval(0.95, 4, loc=shares.mean(), scale=shares.std(ddof=1) / math.sqrt(5))
    assert value == pytest.approx(46.0)
    assert (low, high) == pytest.approx(tuple(100 * end for end in expected))


def test_a_single_share_says_nothing_about_the_mean():
    assert ends(mean_interval(np.array([0.7]))) == (70.0, 0.0, 100.0)
