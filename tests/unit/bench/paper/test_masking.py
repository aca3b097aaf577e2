"""The figures of masks are computed by the library's own parts, not drawn by hand."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from expunge.bench.paper._masking import (
    EXAMPLES,
    HEATMAP_LEVEL,
    LINEAR,
    NoisyExample,
    masked_update,
    probability,
    shade_feasible,
)
from expunge.bench.plots import FIGURES
from expunge.update import And, MinAbs, Prob


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
    ax = Figure().subplots()
    shade_feasible(ax, u, c)
    (path,) = ax.collections[0].get_paths()
    steps = np.random.default_rng(0).uniform(-1.5, 1.5, (500, 2))
    least = np.minimum(steps @ u, steps @ c)
    inside = path.contains_points(steps)
    assert 0 < inside.sum() < 500
    assert (inside == (least > 0))[np.abs(least) > 0.05].all()


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
    line = (np.arange(60) + 0.5) / 60
    x, y = np.meshgrid(line, line)
    formula = x * y + (1 - x) * (1 - y)
    np.testing.assert_allclose(probability(x, y), formula, atol=1e-9)
    ((_, figure),) = FIGURES["heatmap"]([])
    hatched = next(part for part in figure.axes[0].collections if part.get_gid() == "masked")
    (path,) = [path for path in hatched.get_paths() if len(path.vertices)]
    inside = path.contains_points(np.column_stack([x.ravel(), y.ravel()])).reshape(x.shape)
    sure = np.abs(formula - HEATMAP_LEVEL) > 0.01
    assert (inside == (formula < HEATMAP_LEVEL))[sure].all()
