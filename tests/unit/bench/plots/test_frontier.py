"""The frontier: points of a sweep, and those that no other beats."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from expunge.bench._sweeps import balanced
from expunge.bench.plots._frontier import corners_of, frontier, points_of, preferred_sweep
from tests.unit.bench.making import references
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


def test_an_add_on_at_fewer_settings_has_a_figure_of_its_own() -> None:
    tried = {"none": (0.5, 1.0, 2.0), "FOCUS": (0.5, 1.0, 2.0), "AND": (0.5, 1.0), "PROB": (0.5,)}
    results = references()
    for addon, rates in tried.items():
        for rate in rates:
            results += variant({10: [95.0 - rate] * 3}, "SRL", addon, lr=rate)
    (first, focus), (second, every) = frontier(results)
    assert (first, second) == ("srl-cifar10-vgg16-random-0.1", "srl-all-cifar10-vgg16-random-0.1")
    assert drawn_arms(focus) == ["SRL", "SRL-FOCUS"]
    assert drawn_arms(every) == ["SRL", "SRL-FOCUS", "SRL-AND"]
    notes = [figure.get_supxlabel().replace("\n", " ") for figure in (focus, every)]
    assert "3 settings, the same for SRL, SRL-FOCUS;" in notes[0]
    assert "2 settings, the same for SRL, SRL-FOCUS, SRL-AND;" in notes[1]
    assert all("mean over 3 seeds" in note for note in notes)
