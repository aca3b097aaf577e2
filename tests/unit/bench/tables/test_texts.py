"""The table of language models shows runs where they have forgotten alike."""

from __future__ import annotations

from expunge.bench.tables import make_table
from expunge.bench.tables._texts import nearest_epoch
from tests.unit.bench.paper.claims.test_texts import run


def test_a_run_is_shown_where_its_memorisation_is_nearest_to_the_ideals() -> None:
    assert nearest_epoch(run([(0.4, 0.6), (0.2, 0.5), (-0.1, 0.4), (-0.3, 0.3)])) == 2
    assert nearest_epoch(run([(0.1, 0.6), (0.3, 0.5)])) == 1, "the start is no result"


def test_rows_are_means_over_seeds_at_those_epochs() -> None:
    results = [run([(0.4, 0.6), (0.2 - 0.1 * s, 0.5), (-0.1, 0.4)], seed=s) for s in range(3)]
    (summary,) = make_table("texts", results)
    (row,) = summary.rows
    assert row.values["epoch"] == (2.0, 1.0, 1.0)
    assert row.values["model_utility"] == (0.4, 0.5, 0.5)
    assert make_table("table2", results) == []
