"""Membership scores, against their literal definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest

import expunge
from expunge._errors import InvalidInput
from expunge.engine._token_scores import score_tokens
from expunge.evaluation._statistics import auc_of
from expunge.evaluation.text import _membership as membership
from tests.reference import text_metrics as literal
from tests.unit.evaluation.text.worlds import TOKENIZER, Bigrams, as_function, text_set

DATA = text_set(range(7))
MODEL = Bigrams(text_set(range(4)))
P = as_function(MODEL)
SCORES = score_tokens(MODEL, DATA)
PAIRS = [TOKENIZER.encode(record.question, record.answer) for record in DATA.records]
FOUND = membership.membership_scores(DATA, SCORES)


def test_loss_and_zlib_are_what_their_definitions_say() -> None:
    for (x, y), record, loss, zlib in zip(
        PAIRS, DATA.records, FOUND["loss"], FOUND["zlib"], strict=True
    ):
        assert loss == pytest.approx(literal.loss_score(P, x, y), rel=1e-9)
        assert zlib == pytest.approx(literal.zlib_score(P, x, y, record.answer), rel=1e-9)


@pytest.mark.parametrize("share", [0.01, 0.2, 0.4, 1.0])
def test_min_k_and_its_successor_are_what_their_definitions_say(share: float) -> None:
    for (x, y), low, standard in zip(
        PAIRS,
        membership.min_k(SCORES, share),
        membership.min_k_plus_plus(SCORES, share),
        strict=True,
    ):
        assert low == pytest.approx(literal.min_k(P, x, y, share), rel=1e-9)
        assert standard == pytest.approx(literal.min_k_plus_plus(P, x, y, share), rel=1e-6)


def test_min_k_of_all_tokens_is_the_loss() -> None:
    assert membership.min_k(SCORES, 1.0) == pytest.approx(FOUND["loss"])


def test_the_gradient_norm_is_that_of_one_record_at_a_time() -> None:
    found = membership.gradient_norms(MODEL, DATA)
    for k, value in enumerate(found):
        MODEL.zero_grad()
        tokens, labels = DATA[k]
        expunge.methods.next_token_loss(MODEL(tokens[None]), labels[None]).backward()
        total = sum(float(p.grad.square().sum()) for p in MODEL.parameters() if p.grad is not None)
        assert value == pytest.approx(-math.sqrt(total), rel=1e-9)
    MODEL.zero_grad()


def test_a_model_without_gradients_has_no_gradient_norm() -> None:
    frozen = Bigrams().requires_grad_(False)
    with pytest.raises(InvalidInput, match="parameters that take gradients"):
        membership.gradient_norms(frozen, DATA)


def test_auc_counts_pairs_and_ties_by_half() -> None:
    random = np.random.default_rng(1)
    members, others = random.integers(0, 5, 9) * 1.0, random.integers(0, 5, 7) * 1.0
    assert auc_of(members, others) == pytest.approx(literal.auc(members, others))


@pytest.mark.parametrize(("model", "ideal"), [(0.5, 0.5), (1.0, 0.5), (0.2, 0.6)])
def test_privacy_leakage_is_below_zero_for_a_model_that_remembers(
    model: float, ideal: float
) -> None:
    found = membership.privacy_leakage(model, ideal)
    assert found == pytest.approx(literal.privacy_leakage(model, ideal))
    assert (found < 0) == (model > ideal)
    assert membership.privacy_leakage(1.0, 0.5) == -100.0


def test_privacy_leakage_against_an_ideal_that_remembers_all_is_not_defined() -> None:
    assert math.isnan(membership.privacy_leakage(0.5, 1.0))


def test_a_certain_model_has_a_finite_score() -> None:
    """σ is 0 where one token has all the probability."""
    certain = Bigrams(text_set([0]), strength=1e4)
    scores = score_tokens(certain, text_set([0]))
    assert np.isfinite(membership.min_k_plus_plus(scores)).all()
    assert float(scores.deviations[scores.answered].min()) == 0.0
