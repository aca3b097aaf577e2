"""All scores of a language model together."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import expunge
from expunge._errors import InvalidInput
from expunge.data import TextSet
from expunge.engine import PredictionCache
from expunge.evaluation import METRICS, TextScores, evaluate_text
from tests.reference import text_metrics as literal
from tests.unit.evaluation.text.worlds import Bigrams, text_set

FORGET, RETAIN = text_set(range(6)), text_set(range(6, 18))
UNSEEN, GENERAL = text_set(kind="unseen"), text_set(range(9), kind="facts")
SPLITS = {"forget": FORGET, "retain": RETAIN, "test": UNSEEN, "general": GENERAL}


@pytest.fixture(scope="module")
def initial() -> Bigrams:
    """Knows what is to be forgotten and what is retained."""
    return Bigrams(text_set())


@pytest.fixture(scope="module")
def ideal() -> Bigrams:
    """Never saw what is to be forgotten."""
    return Bigrams(RETAIN, seed=1)


@pytest.fixture(scope="module")
def scores(initial: nn.Module, ideal: nn.Module) -> TextScores:
    return evaluate_text(initial, **SPLITS, ideal=ideal, reference=ideal, attacks=True)


def test_every_score_is_a_registered_metric(scores: TextScores) -> None:
    numbers = {f.name for f in dataclasses.fields(TextScores)} - {"gaps", "by_record"}
    assert numbers == set(scores.as_dict()) - {f"gap_{name}" for name in scores.gaps}
    for name in numbers:
        assert METRICS[name].formula
        assert METRICS[name].citation
        assert f"definition {METRICS[name].version}" in METRICS.summary(name)
    assert scores.definitions == dict.fromkeys(scores.as_dict().keys() & set(METRICS), 1)


def test_scores_are_means_over_records(scores: TextScores) -> None:
    forget, retain = scores.by_record["forget"], scores.by_record["retain"]
    assert scores.probability == pytest.approx(forget["probability"].mean())
    assert scores.retain_rouge_l == pytest.approx(retain["rouge_l"].mean())
    ratios = forget["truth_ratio"]
    assert scores.truth_ratio == pytest.approx(np.minimum(ratios, 1 / ratios).mean())
    assert len(scores.by_record["test"]["probability"]) == len(UNSEEN)


def test_utility_is_the_harmonic_mean_of_six_numbers(scores: TextScores) -> None:
    names = ("probability", "rouge_l", "truth_ratio")
    parts = [getattr(scores, f"{s}_{n}") for s in ("retain", "general") for n in names]
    assert scores.model_utility == pytest.approx(literal.harmonic_mean(parts))


def test_a_model_that_remembers_is_told_from_one_that_never_saw(
    scores: TextScores, ideal: nn.Module
) -> None:
    assert scores.auc_loss is not None
    assert scores.privacy_leakage is not None
    assert scores.auc_loss > 0.9
    assert scores.privacy_leakage < -50
    assert scores.gaps["exact_memorisation"] > 0.2
    best = evaluate_text(ideal, **SPLITS, ideal=ideal, generate=False)
    assert best.forget_quality == 1.0
    assert best.privacy_leakage == 0.0
    assert set(best.gaps.values()) == {0.0}


def test_a_model_is_asked_once_about_the_same_records(ideal: Bigrams) -> None:
    model, cache = Bigrams(RETAIN, seed=2), PredictionCache()
    evaluate_text(model, **SPLITS, generate=False, cache=cache)
    answers = sum(len(data) for data in SPLITS.values())
    variants = 6 * (len(FORGET) + len(RETAIN) + len(GENERAL))
    assert model.rows == answers + variants
    again = model.rows
    evaluate_text(model, **SPLITS, ideal=ideal, generate=False, cache=cache)
    assert model.rows == again
    with torch.no_grad():
        model.table.mul_(2.0)
    evaluate_text(model, **SPLITS, generate=False, cache=cache)
    assert model.rows == 2 * again


def test_without_generation_there_is_no_rouge_and_no_utility(initial: nn.Module) -> None:
    scores = evaluate_text(initial, **SPLITS, generate=False)
    assert scores.rouge_l is None
    assert scores.model_utility is None
    assert scores.auc_gradient_norm is None


def test_records_without_false_answers_have_no_truth_ratio(initial: nn.Module) -> None:
    plain = [dataclasses.replace(r, perturbed_answers=()) for r in FORGET.records]
    forget = type(FORGET)(plain, FORGET.tokenizer)
    scores = evaluate_text(initial, forget=forget, retain=RETAIN, test=UNSEEN, ideal=initial)
    assert scores.truth_ratio is None
    assert scores.forget_quality is None
    assert scores.privacy_leakage == 0.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"test": TensorDataset(torch.zeros(1), torch.zeros(1))}, "`test` should be a TextSet"),
        ({"ideal": "model"}, "`ideal` should be a torch.nn.Module"),
    ],
)
def test_what_does_not_go_with_texts_is_refused(
    initial: nn.Module, change: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        evaluate_text(initial, **(SPLITS | change))


def test_texts_are_not_examples_with_one_label(initial: nn.Module) -> None:
    with pytest.raises(InvalidInput, match="evaluate_text"):
        expunge.evaluate(initial, forget=FORGET, retain=RETAIN, test=UNSEEN)


def test_published_definitions_reach_every_score(initial: nn.Module, ideal: nn.Module) -> None:
    options = {"ideal": ideal, "attacks": True, "definitions": "open-unlearning"}
    found, own = (
        evaluate_text(initial, **SPLITS, **given)
        for given in (options, options | {"definitions": "expunge"})
    )
    changed = {name for name, value in found.as_dict().items() if value != own.as_dict()[name]}
    assert changed >= {"exact_memorisation", "extraction_strength", "truth_ratio"}
    assert changed >= {"general_probability", "auc_gradient_norm", "model_utility"}
    assert not changed & {"probability", "retain_probability", "rouge_l", "auc_loss", "auc_zlib"}
    assert found.gaps


def test_published_utility_counts_every_file_of_general_records(initial: nn.Module) -> None:
    """Three numbers of retained records, and three of each file that ids begin with."""
    named = [
        replace(r, id=f"{'authors' if k < 4 else 'facts'}-{k}")
        for k, r in enumerate(GENERAL.records)
    ]
    general = TextSet(named, GENERAL.tokenizer)
    found = evaluate_text(initial, **SPLITS | {"general": general}, definitions="open-unlearning")
    records = found.by_record["general"]
    parts = [found.retain_probability, found.retain_rouge_l, found.retain_truth_ratio]
    for rows in (slice(0, 4), slice(4, None)):
        parts += [records["probability"][rows].mean(), records["rouge_l"][rows].mean()]
        parts.append(np.maximum(0.0, 1.0 - records["truth_ratio"][rows]).mean())
    assert found.model_utility == pytest.approx(literal.harmonic_mean(parts))
