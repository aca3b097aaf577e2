"""Panels show the numbers they are given."""

from __future__ import annotations

import numpy as np

from expunge.bench.plots._curves import shown_arms
from expunge.bench.plots._panels import ArmCurve, panels_figure
from expunge.bench.plots._series import level_of, series_of
from expunge.bench.plots._style import line_style
from tests.unit.bench.plots.made_records import everything, only_task


def test_drawn_lines_are_those_numbers() -> None:
    task = only_task(everything())
    runs = shown_arms(task)["random-label", "focus"]
    curve = ArmCurve("SRL-FOCUS", line_style("random-label", "focus"), runs)
    figure = panels_figure([curve], task)
    panel = next(ax for ax in figure.axes if ax.get_title().startswith("TA"))
    drawn = next(line for line in panel.lines if len(line.get_xdata()) == 3)
    expected = series_of(runs, "ta")
    assert expected is not None
    np.testing.assert_allclose(drawn.get_ydata(), expected.mean)
    level = next(line for line in panel.lines if line.get_linestyle() == ":")
    assert level.get_ydata()[0] == level_of(task.ideal, "ta") == 80.0
    assert panel.get_xticks().tolist() == [0, 1, 10]
