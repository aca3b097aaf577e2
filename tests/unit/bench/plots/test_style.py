"""Line styles tell variants apart."""

from __future__ import annotations

from expunge.bench.paper.figures._curves import addon_curves, baseline_curves, shown_variants
from expunge.bench.plots._style import ADDON_STYLES, METHOD_STYLES, line_style
from tests.unit.bench.plots.made_results import everything, only_task


def test_arms_of_one_figure_differ_in_colour_marker_and_dash() -> None:
    variants = shown_variants(only_task(everything()))
    for curves in (
        addon_curves(variants, "random-label"),
        baseline_curves(variants, "random-label"),
    ):
        for part in ("colour", "marker", "dash"):
            values = [getattr(curve.style, part) for curve in curves]
            assert len(set(values)) == len(values)
    assert line_style("random-label", "focus") == line_style("neg-grad-plus", "focus")
    paired = line_style("scrub", "focus", by_method=True)
    assert paired.colour == METHOD_STYLES["scrub"].colour
    assert paired.dash == ADDON_STYLES["focus"].dash
