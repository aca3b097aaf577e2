"""All methods in one picture."""

from __future__ import annotations

import itertools

import pytest
from matplotlib.text import Text

from expunge.bench._runs import Variant
from expunge.bench._tasks import group_results
from expunge.bench.plots._rivals import place_of, rivals
from expunge.bench.plots._style import MissingResults
from expunge.methods import METHODS
from tests.unit.bench.making import paper_results, references, run


def test_a_place_is_the_mean_over_seeds_at_the_tables_epoch() -> None:
    (runs,) = group_results([run({5: 80.0, 10: ua}, seed=s) for s, ua in enumerate((94.0, 96.0))])
    place = place_of(runs, Variant("random-label"))
    # TA is UA - 10, from 89 on; rUA is UA - 90; 3 seconds of a processor per epoch.
    assert place == pytest.approx((89.0 - 85.0, 5.0, 30.0))


def test_every_arm_has_a_point_and_a_label_and_collapsed_ones_are_listed() -> None:
    collapsed = [run(20.0, "GA", seed=seed) for seed in range(3)]
    [(_, figure)] = rivals([*paper_results(), *collapsed])
    (ax,) = figure.axes
    labels = [text.get_text() for text in ax.texts]
    assert {"SRL", "SRL-FOCUS", "NGPlus-AND", "MSG", "initial", "ideal"} <= set(labels)
    assert "GA" not in labels
    assert len(ax.collections) == 18
    assert "GA (70, 79)" in figure._supxlabel.get_text()  # |rUA|, TA lost


def test_arms_further_away_than_the_initial_model_are_listed() -> None:
    """Its UA is 99, the ideal's 90."""
    [(_, figure)] = rivals([*paper_results(), *(run(80.5, "GA", seed=seed) for seed in range(3))])
    assert "GA (10, 18)" in figure._supxlabel.get_text().replace("\n", " ")


def test_no_label_covers_another_and_those_without_room_are_listed() -> None:
    crowd = [
        run(93.0 + number / 50, method, seed=seed)
        for number, method in enumerate(METHODS)
        if number < 20
        for seed in range(3)
    ]
    [(_, figure)] = rivals([*references(), *crowd])
    (ax,) = figure.axes
    figure.draw_without_rendering()
    boxes = [Text.get_window_extent(text) for text in ax.texts]  # without lines to their points
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    named = [text.get_text() for text in ax.texts if text.get_text() not in ("initial", "ideal")]
    _, _, unnamed = figure._supxlabel.get_text().replace("\n", " ").partition("for a name: ")
    assert sorted([*named, *filter(None, unnamed.split(", "))]) == sorted(
        METHODS.label(method) for method in list(METHODS)[:20]
    )


def test_a_few_arms_are_no_field_of_rivals() -> None:
    with pytest.raises(MissingResults, match="at least 8 methods"):
        rivals([run(91.0), run(92.0, "NGPlus")])
