"""``expunge demo``, at a tiny size, from models to files."""

from __future__ import annotations

import csv
import json
import re
import sys
from pathlib import Path

import pytest
from PIL import Image

from expunge.bench import _protocol_file
from expunge.bench._protocol import Protocol, variants_of
from expunge.bench._protocol_file import load_protocol
from expunge.bench._results import BenchResult, load_results
from expunge.cli import _demo, main
from tests.stand_ins import compute_in_this_process
from tests.unit.cli.conftest import Expunge

ARMS = ("FT", "GA", "SRL", "SRL-AND", "SRL-FOCUS")


def tiny_demo(name: str) -> Protocol:
    """The demo with fewer variants, on fewer images, for fewer epochs."""
    protocol = load_protocol(name)
    (block,) = protocol.only((_demo.BLOCK,)).block
    training = block.training.model_copy(update={"epochs": 2})
    unlearning = block.unlearning.model_copy(update={"epochs": 2})
    smaller = {
        "limit": 40,
        "test_limit": 60,
        "width": 0.1,
        "methods": ("SRL",),
        "addons": ("none", "AND", "FOCUS"),
        "baselines": ("FT", "GA"),
        "training": training,
        "unlearning": unlearning,
    }
    smaller_block = block.model_copy(update=smaller)
    return protocol.model_copy(update={"block": (smaller_block,), "evaluate_at": (1, 2)})


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished demo with two seeds."""
    folder = tmp_path_factory.mktemp("demo") / "out"
    with pytest.MonkeyPatch.context() as patch:
        compute_in_this_process(patch)
        patch.setattr(_protocol_file, "load_protocol", tiny_demo)
        patch.setattr(_demo, "TRAINED", 300)
        patch.setattr(_demo, "FORGOTTEN", 60)
        patch.setattr(_demo, "EPOCHS", 10)
        patch.setattr(sys, "argv", ["expunge", "demo", "-o", str(folder), "--seeds", "2"])
        with pytest.raises(SystemExit) as ending:
            main()
    assert ending.value.code == 0
    return folder


@pytest.fixture(scope="module")
def results(out: Path) -> list[BenchResult]:
    return load_results(out / "results.jsonl")


def test_every_arm_and_reference_is_there_for_every_seed(results: list[BenchResult]) -> None:
    names = {"initial", "ideal", *ARMS}
    assert {(r.label, r.seed) for r in results} == {(n, s) for n in names for s in (0, 1)}


def test_the_arms_are_those_of_the_paper() -> None:
    (block,) = load_protocol("demo").only((_demo.BLOCK,)).block
    names = [run.label for run, _ in variants_of(block)]
    assert {"SRL", "SRL-SalUn", "SRL-PROB", "SRL-FOCUS"} <= set(names)
    assert {"NGPlus", "NGPlus-FOCUS", "SCRUB", "SCRUB-FOCUS"} <= set(names)


def test_the_request_is_shown_beside_a_retrained_model(
    out: Path, expunge: Expunge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_protocol_file, "load_protocol", tiny_demo)
    found = json.loads(expunge("demo", "-o", out, "--seeds", "2", "--json").out)
    scores = found["request"]["scores"]
    assert list(scores) == ["before", "after", "after benign steps", "retrained"]
    assert scores["before"]["ua"] > scores["retrained"]["ua"]
    assert scores["before"]["loss_auc"] > scores["retrained"]["loss_auc"]
    assert found["request"]["status"] in ("achieved", "not achieved", "inconclusive")
    assert (Path(found["request"]["folder"]) / "report.html").is_file()


def test_what_focus_did_is_one_sentence(
    out: Path, expunge: Expunge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_protocol_file, "load_protocol", tiny_demo)
    printed = " ".join(expunge("demo", "-o", out, "--seeds", "2").out.split())
    assert re.search(r"What FOCUS did to rUA.*: SRL from [-+]\S+ to [-+]\d+\.\d\.", printed)


def test_curves_start_at_the_initial_model(results: list[BenchResult]) -> None:
    initial = {r.seed: r.value("ua") for r in results if r.label == "initial"}
    for result in results:
        if not result.is_reference:
            assert [row["epoch"] for row in result.evaluated] == [0, 1, 2]
            assert result.value("ua", 0) == initial[result.seed]


def test_the_ideal_row_is_at_zero(out: Path) -> None:
    with (out / "tables" / "table2.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["label"] == "ideal"]
    means = {row["metric"]: float(row["mean"]) for row in rows}
    assert means["rua"] == 0
    assert means["fid"] == 100


def test_everything_is_written_as_by_bench_run(out: Path) -> None:
    assert "SRL-FOCUS" in (out / "README.md").read_text(encoding="utf-8")
    assert "SRL-FOCUS" in (out / "tables" / "table2.tex").read_text(encoding="utf-8")
    assert (out / "claims.md").is_file()
    for name in ("figure6-focus-methods", "figure5-addons-srl"):
        stem = f"{name}-digits-small-cnn-random-0.5"
        with Image.open(out / "figures" / f"{stem}.png") as picture:
            assert picture.width > 1000
        assert (out / "figures" / f"{stem}.pdf").read_bytes().startswith(b"%PDF")


def test_a_second_demo_computes_nothing_again(
    out: Path, expunge: Expunge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_protocol_file, "load_protocol", tiny_demo)
    before = {path: path.stat().st_mtime_ns for path in (out / "store" / "unlearn").iterdir()}
    page = (out / "README.md").read_bytes()
    again = expunge("demo", "-o", out, "--seeds", "2")
    assert again.code == 0
    assert "done" not in again.err
    assert "SRL-FOCUS" in again.out
    assert {p: p.stat().st_mtime_ns for p in (out / "store" / "unlearn").iterdir()} == before
    assert (out / "README.md").read_bytes() == page


def test_a_page_of_something_else_is_not_overwritten(expunge: Expunge, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine", encoding="utf-8")
    ending = expunge("demo", "-o", tmp_path)
    assert ending.code != 0
    assert "--force" in ending.err
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == "mine"


def test_a_demo_without_seeds_is_refused(expunge: Expunge, tmp_path: Path) -> None:
    ending = expunge("demo", "--seeds", "0", "-o", tmp_path / "demo")
    assert ending.code == 2
    assert "--seeds" in ending.err
    assert not (tmp_path / "demo").exists()
