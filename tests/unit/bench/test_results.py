"""Results: collected, kept in a file, chosen by condition."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from expunge._errors import DataError
from expunge.bench._results import BenchRun, load_results, save_results
from expunge.bench._run import collect
from expunge.store import Store

RESULTS = Path(__file__).parents[3] / "results"


def test_results_hold_the_metrics_at_the_epochs_asked_for(
    planned: list[BenchRun], done: Store
) -> None:
    results = collect(planned, done)
    assert [r.label for r in results] == ["initial", "ideal", "FT", "SRL", "SRL-FOCUS"]
    focus = results[-1]
    assert [row["epoch"] for row in focus.epochs] == [0, 1, 2, 3]
    assert [row["epoch"] for row in focus.evaluated] == [0, 1, 3]
    assert focus.value("ua", 0) == results[0].value("ua")
    assert focus.value("rua") == pytest.approx(focus.final["ua"] - results[1].value("ua"))
    assert focus.value("abs_rua") == abs(focus.final["rua"])
    assert focus.value("rte") == focus.final["processor_seconds"] > 0
    with_gpu = replace(focus, environment={"gpus": ["A100"]})
    assert with_gpu.value("rte") == focus.final["seconds"] > 0
    assert focus.value("rte", 7) is None
    assert results[1].value("rua") == 0.0
    assert results[1].value("fid") == 100.0
    assert focus.scenario == "random:0.3"
    assert len(focus.steps["cosine"]) == 3 * focus.epochs[1]["steps"]
    assert list(focus.agreement) == ["1", "3"]
    assert sum(focus.agreement["3"]) == pytest.approx(1.0, abs=1e-3)
    assert not results[2].agreement


def test_results_survive_a_file(planned: list[BenchRun], done: Store, tmp_path: Path) -> None:
    results = collect(planned, done)
    save_results(tmp_path / "results.jsonl", results)
    loaded = load_results(tmp_path / "results.jsonl")
    assert [r.dump() for r in loaded] == [r.dump() for r in results]
    lines = (tmp_path / "results.jsonl").read_text().splitlines()
    for damage, words in (
        (lines[1][:-20], "line 2: this is not a result"),
        ('{"key": "x"}', "line 2: this is not a result"),
        (lines[1].replace('"format": 1', '"format": 9'), "line 2: written by a newer version"),
    ):
        (tmp_path / "bad.jsonl").write_text("\n".join([lines[0], damage]) + "\n")
        with pytest.raises(DataError, match=words):
            load_results(tmp_path / "bad.jsonl")
    with pytest.raises(DataError, match="cannot be read"):
        load_results(tmp_path / "absent.jsonl")


@pytest.mark.parametrize(
    "path", sorted(RESULTS.glob("*/results.jsonl")), ids=lambda path: path.parent.name
)
def test_published_results_are_written_again_byte_for_byte(path: Path) -> None:
    assert "".join(f"{result.dump()}\n" for result in load_results(path)) == path.read_text()
