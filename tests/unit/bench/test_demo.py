"""The demo, at a tiny size, from models to files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from expunge._errors import InvalidInput
from expunge.bench._demo import (
    METRIC_NAMES,
    Demo,
    label,
    run_demo,
    summarise,
    total_parts,
    write_demo,
)

TINY = Demo(seeds=2, limit=40, width=0.1, train_epochs=2, epochs=2, batch_size=16)


@pytest.fixture(scope="module")
def records() -> list[dict[str, object]]:
    heard: list[str] = []
    found = run_demo(TINY, workers=2, tick=heard.append)
    assert len(heard) == total_parts(TINY)
    return found


def test_every_arm_and_reference_is_there_for_every_seed(records: list[dict[str, object]]) -> None:
    names = {"initial", "ideal", *(label(*arm) for arm in TINY.arms)}
    assert {(r["label"], r["seed"]) for r in records} == {(n, s) for n in names for s in (0, 1)}


def test_the_arms_are_those_of_the_paper() -> None:
    names = [label(*arm) for arm in TINY.arms]
    assert names[:2] == ["FT", "GA"]
    assert {"SRL", "SRL-SalUn", "SRL-AND", "SRL-PROB", "SRL-BER", "SRL-FOCUS"} <= set(names)
    assert {"NGPlus", "NGPlus-FOCUS", "SCRUB", "SCRUB-FOCUS"} <= set(names)


def test_curves_start_at_the_initial_model(records: list[dict[str, object]]) -> None:
    initial = {r["seed"]: r["final"]["ua"] for r in records if r["label"] == "initial"}  # type: ignore[index]
    for record in records:
        if record["label"] not in ("initial", "ideal"):
            epochs = record["epochs"]
            assert len(epochs) == TINY.epochs + 1  # type: ignore[arg-type]
            assert epochs[0]["ua"] == initial[record["seed"]]  # type: ignore[index]


def test_the_ideal_row_is_at_zero(records: list[dict[str, object]]) -> None:
    summary = summarise(TINY, records)
    assert summary.ideal is not None
    assert summary.ideal.mean("rua") == 0
    assert summary.ideal.mean("fid") == 100
    assert all(summary.ideal.values[m] for m in METRIC_NAMES)


def test_everything_is_written(records: list[dict[str, object]], tmp_path: Path) -> None:
    for path in write_demo(TINY, records, tmp_path):
        assert path.stat().st_size > 0
    assert "SRL-FOCUS" in (tmp_path / "table.md").read_text()
    lines = (tmp_path / "records.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == records
    with Image.open(tmp_path / "curves.png") as picture:
        assert picture.width > 1000
    assert (tmp_path / "curves.pdf").read_bytes().startswith(b"%PDF")


def test_a_demo_without_seeds_is_refused() -> None:
    with pytest.raises(InvalidInput, match="seeds"):
        Demo(seeds=0)
