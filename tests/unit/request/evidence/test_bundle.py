"""The files of a bundle that are made from the evidence alone."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from expunge.request.evidence._bundle import epochs_figure, scores_figure, write_examples
from expunge.request.evidence._sections import EpochRow
from tests.unit.report import fake


def test_examples_are_one_row_per_record(tmp_path: Path) -> None:
    examples = fake.evidence(5).examples
    write_examples(tmp_path / "examples.csv", examples)
    with (tmp_path / "examples.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == [example.id for example in examples]
    assert float(rows[0]["exposure_after"]) == examples[0].after.exposure
    assert rows[0]["correct_before"] == str(examples[0].before.correct)
    assert set(rows[0]) & {"index", "label", "prediction_before"} == set()


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
