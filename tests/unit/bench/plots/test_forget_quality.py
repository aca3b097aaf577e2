"""Forget quality against utility."""

from __future__ import annotations

import numpy as np
import pytest

from expunge.bench.plots._forget_quality import LOWEST, forget_quality, path_of
from expunge.bench.plots._style import MissingResults
from tests.unit.bench.paper.claims.test_texts import run


def test_qualities_are_averaged_as_logarithms() -> None:
    results = [run([(0.4, 0.6), (0.1, 0.5)], seed=s, quality=10.0**-s / 2) for s in (0, 2)]
    path = path_of(results)
    assert path is not None
    assert path[:, 0] == pytest.approx([0.6, 0.5])
    assert path[1, 1] == pytest.approx(np.mean([0.0, -2.0]))


def test_a_quality_of_zero_is_drawn_at_the_edge() -> None:
    path = path_of([run([(0.4, 0.6)], quality=0.0)])
    assert path is not None
    assert path[0, 1] == pytest.approx(np.log10(LOWEST))


def test_every_method_has_a_panel_and_every_addon_a_line() -> None:
    results = [run([(0.4, 0.6), (0.1, 0.5)], addon) for addon in ("none", "prob", "focus")]
    ((name, figure),) = forget_quality(results)
    assert name == "invented-people-small-transformer-people-0.1"
    (ax,) = figure.axes
    labels = [line.get_label() for line in ax.lines]
    assert [label for label in labels if not label.startswith("_")] == ["none", "PROB", "FOCUS"]


def test_without_runs_there_is_no_figure() -> None:
    with pytest.raises(MissingResults, match="runs of a language model"):
        forget_quality([])
