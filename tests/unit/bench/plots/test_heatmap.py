"""fig:heatmap is equation (18)."""

from __future__ import annotations

import numpy as np

from expunge.bench.plots import FIGURES
from expunge.bench.plots._heatmap import LEVEL, centres, masked, probability


def test_heatmap_is_equation_18_and_hatched_where_prob_masks() -> None:
    x, y = centres(60)
    formula = x * y + (1 - x) * (1 - y)
    np.testing.assert_allclose(probability(x, y), formula, atol=1e-9)
    assert ((formula < LEVEL) == (masked(x, y) == 1)).all()
    ((_, figure),) = FIGURES["heatmap"]([])
    hatched = next(part for part in figure.axes[0].collections if part.get_gid() == "masked")
    (path,) = [path for path in hatched.get_paths() if len(path.vertices)]
    inside = path.contains_points(np.column_stack([x.ravel(), y.ravel()])).reshape(x.shape)
    sure = np.abs(formula - LEVEL) > 0.01
    assert (inside == (formula < LEVEL))[sure].all()
