"""fig:masking is computed, not drawn by hand."""

from __future__ import annotations

import numpy as np
import pytest

from expunge.bench.paper._masking import EXAMPLES, LINEAR, feasible_corners, masked_update
from expunge.update import MinAbs


def test_masked_updates_are_the_paper_formulas() -> None:
    for _, u, c in EXAMPLES:
        g_u, g_c = np.array(u), np.array(c)
        mask = (g_u * g_c > 0).astype(float)
        np.testing.assert_allclose(masked_update(u, c, LINEAR), mask * (0.8 * g_u + 0.5 * g_c))
        smaller = np.where(np.abs(g_u) <= np.abs(g_c), g_u, g_c)
        np.testing.assert_allclose(masked_update(u, c, MinAbs()), mask * smaller)
    kept = [int(np.sum(np.array(u) * np.array(c) > 0)) for _, u, c in EXAMPLES]
    assert kept == [0, 1, 2]


def test_shaded_cone_holds_feasible_steps_alone() -> None:
    u, c = np.array([1.2, 0.9]), np.array([0.6, -1.0])
    corners = feasible_corners(u, c, 1.0)
    assert (corners @ u >= -1e-12).all()
    assert (corners @ c >= -1e-12).all()
    x, y = feasible_corners(u, -u, 1.0).T  # opposite gradients leave a line, of no area
    assert np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1)) == pytest.approx(0.0)
