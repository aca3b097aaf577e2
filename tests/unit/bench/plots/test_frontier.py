"""The frontiers of a sweep: its points, and FOCUS against a larger rate in words."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from expunge.bench._results import Result
from expunge.bench._sweeps import MAX_LOST, balanced, compare_frontiers
from expunge.bench._tasks import group_results
from expunge.bench.plots._frontier import (
    corners_of,
    focus_versus_rate,
    frontier,
    in_words,
    points_of,
    preferred_sweep,
)
from expunge.bench.plots._style import MissingResults
from tests.unit.bench.making import references
from tests.unit.bench.paper.claims.test_frontier import swept
from tests.unit.bench.plots.made_results import everything, only_task, variant


def test_a_frontier_leaves_out_what_another_point_beats() -> None:
    points = np.array([[2.0, 5.0], [0.0, 9.0], [1.0, 9.0], [3.0, 5.0], [2.5, 1.0], [0.0, 9.0]])
    assert corners_of(points).tolist() == [[0.0, 9.0], [2.0, 5.0], [2.5, 1.0]]
    assert corners_of(np.empty((0, 2))).shape == (0, 2)


def test_frontier_points_are_means_at_settings_that_both_arms_have() -> None:
    results = [*everything(), *variant({10: [70.0] * 3}, "SRL", lr=1.0)]
    runs = only_task(results)
    base, focus = (preferred_sweep(runs, "random-label", addon) for addon in ("none", "focus"))
    assert (len(base), len(focus)) == (4, 3)
    both = balanced((base, focus))
    assert list(both[0]) == list(both[1])
    # UA of 97 on average: 2 points of TA lost against 99, 7 points from the ideal's 90.
    slow, fast = [[2.0, 7.0], [7.0, 2.0]], [[19.0, 10.0], [49.0, 40.0]]
    assert points_of(both[0]).tolist() == [*slow, *fast, *fast]


def drawn_arms(figure: Figure) -> list[str]:
    _, labels = figure.axes[0].get_legend_handles_labels()
    return [label.split(":")[0] for label in labels if "frontier" in label]


def test_an_add_on_at_fewer_settings_than_focus_is_left_out() -> None:
    tried = {"none": (0.5, 1.0, 2.0), "FOCUS": (0.5, 1.0, 2.0), "AND": (0.5, 1.0), "PROB": (0.5,)}
    results = references()
    for addon, rates in tried.items():
        for rate in rates:
            results += variant({10: [95.0 - rate] * 3}, "SRL", addon, lr=rate)
    ((name, figure),) = frontier(results)
    assert name == "srl-cifar10-vgg16-random-0.1"
    assert drawn_arms(figure) == ["SRL", "SRL-FOCUS"]
    note = figure.get_supxlabel().replace("\n", " ")
    assert "3 settings, the same for SRL, SRL-FOCUS;" in note
    assert "mean over 3 seeds" in note


def words(results: list[Result]) -> str:
    (runs,) = group_results(results)
    sweeps = [preferred_sweep(runs, "random-label", addon) for addon in ("none", "focus")]
    return in_words(compare_frontiers(*sweeps))


def test_the_area_is_said_in_words() -> None:
    base = swept("none")
    assert words(base + swept("focus", price=0.4)) == "FOCUS forgets more"
    assert words(base + swept("focus", price=2.5)) == "FOCUS forgets less"
    assert words(base + swept("focus", clock=1.02)) == "the same: a larger rate"
    two = swept("none", seeds=2) + swept("focus", price=0.4, seeds=2)
    assert words(two) == "inconclusive"


def test_a_panel_shows_both_frontiers_and_their_difference() -> None:
    [(name, figure)] = focus_versus_rate(swept("none") + swept("focus", price=0.4))
    assert name == "digits-small-cnn-random-0.1"
    (ax,) = figure.axes
    assert len(ax.lines) == 2
    assert ax.get_title().startswith("FOCUS forgets more\n-")
    assert {text.get_text() for text in ax.texts} >= {"SRL", "SRL-FOCUS", "better"}
    assert ax.get_ylim()[0] == 0


def test_what_lies_between_the_lines_is_the_area_in_the_title() -> None:
    results = swept("none") + swept("focus", price=0.4)
    [(_, figure)] = focus_versus_rate(results)
    base, focus = (line.get_ydata() for line in figure.axes[0].lines)
    (runs,) = group_results(results)
    sweeps = [preferred_sweep(runs, "random-label", addon) for addon in ("none", "focus")]
    differences = compare_frontiers(*sweeps, step=MAX_LOST / 120).differences
    drawn = np.mean(list(differences.values()), axis=0)
    shown = [float(value) for value in focus - base if not np.isnan(value)]
    assert len(shown) > 30
    assert shown == pytest.approx(drawn[: len(shown)].tolist())


def test_without_a_sweep_there_is_no_figure() -> None:
    results = [r for r in swept("none") + swept("focus") if r.hyperparameters.lr == 1.0]
    with pytest.raises(MissingResults, match="3 settings"):
        focus_versus_rate(results)
