"""fig:distrprob: the distribution of f over the parameters."""

from __future__ import annotations

import numpy as np
import pytest

from expunge.bench.paper._density import (
    kernel_density,
    mean_shares,
    results_with_histograms,
    zones,
)
from tests.unit.bench.plots.made_results import everything, only_task


def test_distribution_is_the_mean_over_seeds_with_its_zones() -> None:
    results = results_with_histograms(only_task(everything()))
    assert [result.label for result in results] == ["SRL-FOCUS"] * 3
    shares = mean_shares(results)
    assert zones(shares[1]) == pytest.approx((0.4, 0.25, 0.35))
    assert zones(shares[10]) == pytest.approx((0.35, 0.25, 0.4))


def test_density_integrates_to_one_even_at_the_borders() -> None:
    at = np.linspace(0, 1, 4001)
    shares = np.zeros(50)
    shares[[0, 49, 25]] = [0.5, 0.3, 0.2]
    assert np.trapezoid(kernel_density(shares, at), at) == pytest.approx(1.0, abs=1e-4)
    flat = kernel_density(np.full(50, 0.02), at)
    np.testing.assert_allclose(flat, 1.0, atol=1e-3)
