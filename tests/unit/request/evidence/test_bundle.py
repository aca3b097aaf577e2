"""The files of a bundle that are made from the evidence alone."""

from __future__ import annotations

import pytest

from expunge.request.evidence._bundle import epochs_figure, scores_figure
from expunge.request.evidence._sections import EpochRow
from tests.unit.report import fake


def test_an_epoch_without_finite_outputs_leaves_a_gap_in_the_figure() -> None:
    evidence = fake.evidence()
    rows = [*evidence.epochs, EpochRow(epoch=8, action="rolled back")]
    figure = epochs_figure(evidence.model_copy(update={"epochs": rows}))
    curve = next(line for line in figure.axes[0].lines if line.get_label() == "forgotten data")
    values = list(curve.get_ydata())
    assert values[1:8] == [row.ua for row in evidence.epochs]
    assert values[8] != values[8]


def test_histograms_are_shares() -> None:
    scores = fake.evidence().scores
    assert scores is not None
    for ax in scores_figure(scores).axes:
        for steps in ax.patches:
            assert sum(steps.get_data().values) == pytest.approx(1.0)
