"""Panels of curves: the mean over seeds, a band, and the level to aim at."""

from __future__ import annotations

import numpy as np

from expunge.plotting import Curve, Panel, curves_figure


def test_a_panel_draws_means_bands_and_its_level() -> None:
    values = np.array([[99.0, 95.0, 91.0], [99.0, 93.0, 92.0]])
    curves = [Curve("SRL", values), Curve("SRL-FOCUS", values[:1], colour=1, dashed=True)]
    figure = curves_figure([[Panel("a", "ua", curves, ("ideal", 90.0))]], "a note")
    (ax,) = figure.axes
    level, first, second = ax.lines
    assert level.get_ydata()[0] == 90.0
    np.testing.assert_allclose(first.get_ydata(), [99.0, 94.0, 91.5])
    assert (first.get_linestyle(), second.get_linestyle()) == ("-", "--")
    assert len(ax.collections) == 1  # a single seed has no band
    assert ax.get_ylabel() == "UA (%)"
