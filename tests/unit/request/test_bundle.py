"""The figures of a bundle, which are made from the evidence alone."""

from __future__ import annotations

import pytest

from expunge.evidence._sections import Status
from expunge.request._bundle import accuracy_figure, scores_figure
from tests.unit.report import fake


@pytest.mark.parametrize(
    ("status", "judged"), [("achieved", "after"), ("not achieved", "discarded")]
)
def test_the_accuracy_figure_has_every_moment(status: Status, judged: str) -> None:
    evidence = fake.evidence(status=status)
    (ax,) = accuracy_figure(evidence).axes
    _, labels = ax.get_legend_handles_labels()
    assert labels == ["before", judged, "after benign steps", "unseen data alike"]
    ua, ta = evidence.metric("ua"), evidence.metric("ta")
    drawn = [list(bars.lines[0].get_ydata()) for bars in ax.containers]
    assert drawn[1] == [ua.after.value, ta.after.value]
    assert drawn[3] == [ua.target.value], "test data have no target"  # type: ignore[union-attr]


def test_without_benign_steps_the_accuracy_figure_leaves_them_out() -> None:
    evidence = fake.evidence()
    metrics = [row.model_copy(update={"relearned": None}) for row in evidence.metrics]
    (ax,) = accuracy_figure(evidence.model_copy(update={"metrics": metrics})).axes
    assert "after benign steps" not in ax.get_legend_handles_labels()[1]
    accuracy_figure(fake.bare())


def test_histograms_are_shares() -> None:
    scores = fake.evidence().scores
    assert scores is not None
    figure = scores_figure(scores, "discarded")
    assert [ax.get_title() for ax in figure.axes] == ["before", "discarded"]
    for ax in figure.axes:
        for steps in ax.patches:
            assert sum(steps.get_data().values) == pytest.approx(1.0)
