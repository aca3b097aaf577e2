"""FOCUS against a larger rate: two frontiers, and what lies between them in words."""

from __future__ import annotations

import numpy as np
import pytest

from expunge.bench._results import BenchResult
from expunge.bench._tasks import group_results
from expunge.bench.paper._frontier import (
    focus_versus_rate,
    in_words,
    preferred_sweep,
)
from expunge.bench.paper.claims import _sweeps
from expunge.bench.paper.claims._sweeps import MAX_LOST, compare_frontiers
from expunge.bench.plots._style import MissingResults
from tests.unit.bench.paper.claims.test_frontier import swept


def words(results: list[BenchResult]) -> str:
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
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["SRL", "SRL-FOCUS"]
    assert ax.get_ylim()[0] == 0


def test_what_lies_between_the_lines_is_the_area_in_the_title(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    results = swept("none") + swept("focus", price=0.4)
    [(_, figure)] = focus_versus_rate(results)
    base, focus = (line.get_ydata() for line in figure.axes[0].lines)
    (runs,) = group_results(results)
    sweeps = [preferred_sweep(runs, "random-label", addon) for addon in ("none", "focus")]
    monkeypatch.setattr(_sweeps, "STEP", MAX_LOST / 120)
    differences = compare_frontiers(*sweeps).differences
    drawn = np.mean(list(differences.values()), axis=0)
    shown = [float(value) for value in focus - base if not np.isnan(value)]
    assert len(shown) > 30
    assert shown == pytest.approx(drawn[: len(shown)].tolist())


def test_without_a_sweep_there_is_no_figure() -> None:
    results = [r for r in swept("none") + swept("focus") if r.lr == 1.0]
    with pytest.raises(MissingResults, match="3 settings"):
        focus_versus_rate(results)
