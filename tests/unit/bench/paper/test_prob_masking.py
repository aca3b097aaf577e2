"""fig:maskingSalUn and fig:heatmap are computed by the library's own parts."""

from __future__ import annotations

import numpy as np

from expunge.bench.paper._prob_masking import (
    HEATMAP_LEVEL,
    NoisyExample,
    cell_centres,
    prob_masked,
    probability,
)
from expunge.bench.plots import FIGURES
from expunge.update import And, Prob


def test_noisy_example_misleads_and_but_not_prob() -> None:
    case = NoisyExample()
    assert case.true_c[1] * case.true_u[1] < 0 < case.batch_c[1] * case.batch_u[1]
    f = case.agreement()
    assert 0.5 < f[1] < case.p < f[0]
    assert min(case.changes(case.update(And()))) < 0
    assert min(case.changes(case.update(Prob(p=case.p)))) > 0
    assert case.update(Prob(p=case.p))[1] == 0
    whole = 0.8 * np.array(case.batch_u) + 0.5 * np.array(case.batch_c)
    np.testing.assert_allclose(case.update(And()), whole)


def test_heatmap_is_equation_18_and_hatched_where_prob_masks() -> None:
    x, y = cell_centres(60)
    formula = x * y + (1 - x) * (1 - y)
    np.testing.assert_allclose(probability(x, y), formula, atol=1e-9)
    assert ((formula < HEATMAP_LEVEL) == (prob_masked(x, y) == 1)).all()
    ((_, figure),) = FIGURES["heatmap"]([])
    hatched = next(part for part in figure.axes[0].collections if part.get_gid() == "masked")
    (path,) = [path for path in hatched.get_paths() if len(path.vertices)]
    inside = path.contains_points(np.column_stack([x.ravel(), y.ravel()])).reshape(x.shape)
    sure = np.abs(formula - HEATMAP_LEVEL) > 0.01
    assert (inside == (formula < HEATMAP_LEVEL))[sure].all()
