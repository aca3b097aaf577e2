"""Panels show the numbers they are given."""

from __future__ import annotations

import numpy as np

from expunge.bench.paper._curves import shown_variants
from expunge.bench.plots._panels import Curve, Series, level_of, limits_of, panels_figure, series_of
from expunge.bench.plots._style import line_style
from tests.unit.bench.making import run
from tests.unit.bench.plots.made_results import everything, only_task, variant


def test_drawn_lines_are_those_numbers() -> None:
    task = only_task(everything())
    runs = shown_variants(task)["random-label", "focus"]
    curve = Curve("SRL-FOCUS", line_style("random-label", "focus"), runs)
    figure = panels_figure([curve], task)
    panel = next(ax for ax in figure.axes if ax.get_title().startswith("TA"))
    drawn = next(line for line in panel.lines if len(line.get_xdata()) == 3)
    expected = series_of(runs, "ta")
    assert expected is not None
    np.testing.assert_allclose(drawn.get_ydata(), expected.mean)
    level = next(line for line in panel.lines if line.get_linestyle() == ":")
    assert level.get_ydata()[0] == level_of(task.ideal, "ta") == 80.0
    assert panel.get_xticks().tolist() == [0, 1, 10]


def test_curves_are_means_and_deviations_over_seeds() -> None:
    values = {1: [97.0, 96.0, 98.5], 10: [91.0, 92.0, 95.0]}
    found = series_of(variant(values), "ua")
    assert found is not None
    table = np.array([[99.0] * 3, *values.values()])
    assert found.epochs.tolist() == [0, 1, 10]
    np.testing.assert_allclose(found.mean, table.mean(axis=1))
    np.testing.assert_allclose(found.std, table.std(axis=1, ddof=1))


def test_an_epoch_that_a_seed_did_not_reach_is_not_averaged() -> None:
    whole, broken = run({1: 97.0, 10: 91.0}, seed=0), run({1: 95.0}, seed=1, diverged="nan")
    found = series_of([whole, broken], "ua")
    assert found is not None
    assert found.epochs.tolist() == [0, 1]
    assert series_of([whole], "auc") is None


def test_a_collapsed_arm_does_not_set_the_limits() -> None:
    epochs = np.array([0.0, 10.0])
    curves = {
        name: Series(epochs, np.array([[6.0, end]]))
        for name, end in (("SRL", 4.0), ("PROB", 1.0), ("FOCUS", 0.5), ("AND", -46.0))
    }
    found = limits_of(curves, 0.0)
    assert found.outside == {"AND": -46.0}
    assert -1 < found.low < 0
    assert 6 < found.high < 7
    del curves["AND"]
    assert limits_of(curves, 0.0).outside == {}
    assert limits_of({"RA": Series(epochs, np.full((2, 2), 100.0))}, 100.0).high > 100
