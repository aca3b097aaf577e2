"""A protocol of a language model, from its stages to its table, figure, claims and page."""

from __future__ import annotations

from pathlib import Path

import pytest

from expunge import _tensors as tensors
from expunge.bench._protocol_file import load_protocol
from expunge.bench._publish import publish
from expunge.bench._results import BenchResult, BenchRun, load_results
from expunge.bench._run import collect, run_planned
from expunge.bench._stages import plan
from expunge.bench._text_stages import text_scorer
from expunge.data import divide_texts, load_corpus
from expunge.dispatch import InlineEngine
from expunge.evaluation import METRICS, TextIdeal
from expunge.models import build_language_model
from expunge.store import Store
from tests.unit.bench.paper.claims.made_runs import judge_claims
from tests.unit.bench.tiny_texts import write_tiny_texts


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> list[BenchRun]:
    path = write_tiny_texts(tmp_path_factory.mktemp("protocol"))
    return plan(load_protocol(path), device="cpu")


@pytest.fixture(scope="module")
def done(planned: list[BenchRun], tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(tmp_path_factory.mktemp("texts") / "store")
    run_planned(planned, store, engine=InlineEngine(store)).check()
    return store


@pytest.fixture(scope="module")
def results(planned: list[BenchRun], done: Store) -> list[BenchResult]:
    return collect(planned, done)


def test_results_hold_every_metric_and_the_versions_of_their_definitions(
    results: list[BenchResult],
) -> None:
    assert [result.label for result in results] == ["initial", "ideal", "NPO", "NPO-FOCUS (adam)"]
    for result in results:
        assert result.is_text
        assert 0 <= result.final["model_utility"] <= 1
        assert result.definitions["truth_ratio"] == METRICS["truth_ratio"].version
        assert set(result.definitions) <= set(METRICS)
    last = results[-1].final
    assert last["epoch"] == 2
    assert {"auc_gradient_norm", "forget_quality", "gap_exact_memorisation"} <= set(last)
    assert "auc_gradient_norm" not in results[-1].epochs[1], "a backward pass per record, once"


def test_the_ideal_model_is_told_from_itself_by_nothing(results: list[BenchResult]) -> None:
    _, ideal = results[:2]
    assert ideal.final["forget_quality"] == 1.0
    assert ideal.final["privacy_leakage"] == 0.0
    assert ideal.final["gap_exact_memorisation"] == 0.0


def test_the_final_row_is_what_evaluate_says_of_the_kept_weights(
    planned: list[BenchRun], done: Store, results: list[BenchResult]
) -> None:
    splits = load_corpus("invented-people", people=6, unseen=2)
    division = divide_texts(splits, "people:0.2", 0)
    sizes = {"vocabulary": splits.train.tokenizer.size, "context": splits.context}

    def model(stage: object) -> object:
        net = build_language_model("small-transformer", **sizes, width=16, layers=1, heads=2)
        net.load_state_dict(tensors.load(done.open(stage).path("weights.safetensors"))[0])
        return net.eval()

    run = planned[-1]
    ideal = model(run.reference.parents[1])
    first = text_scorer(division)(ideal)
    best = TextIdeal.of(first)
    scores = text_scorer(division, best)(model(run.stage)).as_dict()
    for name in ("exact_memorisation", "forget_quality", "model_utility", "privacy_leakage"):
        assert results[-1].final[name] == pytest.approx(scores[name], rel=1e-5), name


def test_publishing_writes_a_table_and_a_page(
    planned: list[BenchRun], results: list[BenchResult], tmp_path: Path
) -> None:
    protocol = load_protocol(write_tiny_texts(tmp_path))
    paths, _ = publish(protocol, results, tmp_path / "out")
    names = {path.relative_to(tmp_path / "out").as_posix() for path in paths}
    assert {"tables/texts.md", "results.jsonl", "report.html"} <= names
    assert not any("table1" in name or "figures" in name or "claims" in name for name in names)
    text = (tmp_path / "out" / "README.md").read_text()
    assert "invented people, small transformer, 6 people, 20 % of the people" in text
    assert "| NPO-FOCUS" in text
    assert load_results(tmp_path / "out" / "results.jsonl") == results


def test_claims_about_images_say_nothing_about_texts(results: list[BenchResult]) -> None:
    assert {finding.status for finding in judge_claims(results)} == {"no data"}
