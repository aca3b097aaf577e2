"""The table of language models: each run where it has forgotten as the ideal model."""

from __future__ import annotations

from expunge.bench._results import BenchResult
from expunge.bench.tables import make_table
from expunge.bench.tables._texts import nearest_epoch


def text_run(path: list[tuple[float, float]], seed: int = 0) -> BenchResult:
    """A run of NPO, from the gap of memorisation and the utility, epoch by epoch."""
    rows = [
        {
            "epoch": epoch,
            "exact_memorisation": 0.6 + gap,
            "gap_exact_memorisation": gap,
            "model_utility": utility,
        }
        for epoch, (gap, utility) in enumerate(path)
    ]
    return BenchResult(
        "npo",
        dataset="invented-people",
        arch="small-transformer",
        width=1.0,
        scenario="people:0.1",
        seed=seed,
        lr=1e-3,
        key=f"{seed}-{path}",
        epochs=rows,
    )


def test_a_run_is_shown_where_its_memorisation_is_nearest_to_the_ideals() -> None:
    assert nearest_epoch(text_run([(0.4, 0.6), (0.2, 0.5), (-0.1, 0.4), (-0.3, 0.3)])) == 2
    assert nearest_epoch(text_run([(0.1, 0.6), (0.3, 0.5)])) == 1, "the start is no result"


def test_rows_are_means_over_seeds_at_those_epochs() -> None:
    results = [text_run([(0.4, 0.6), (0.2 - 0.1 * s, 0.5), (-0.1, 0.4)], seed=s) for s in range(3)]
    (summary,) = make_table("texts", results)
    (row,) = summary.rows
    assert row.values["epoch"] == (2.0, 1.0, 1.0)
    assert row.values["model_utility"] == (0.4, 0.5, 0.5)
    assert make_table("table2", results) == []
