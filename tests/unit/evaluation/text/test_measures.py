"""Measures and membership scores of answers, against their literal definitions."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import ks_2samp

import expunge
from expunge._errors import InvalidInput
from expunge.data import TextRecord, TextSet, WordTokenizer
from expunge.data.text import IGNORED
from expunge.engine._token_scores import score_tokens
from expunge.evaluation._statistics import auc_of
from expunge.evaluation.text import _measures as measures
from expunge.evaluation.text._text_scores import _utility, harmonic_mean
from tests.reference import text_metrics as literal
from tests.unit.evaluation.text.worlds import TOKENIZER, Bigrams, as_function, text_set

DATA = text_set(range(9))
MODEL = Bigrams(text_set(range(6)))
P = as_function(MODEL)
SCORES = score_tokens(MODEL, DATA)
PAIRS = [TOKENIZER.encode(record.question, record.answer) for record in DATA.records]
FOUND = measures.membership_scores(DATA, SCORES)


@pytest.mark.parametrize("name", ["exact_memorisation", "extraction_strength", "probability"])
def test_a_measure_is_what_its_definition_says(name: str) -> None:
    found = getattr(measures, name)(SCORES)
    expected = [getattr(literal, name)(P, x, y) for x, y in PAIRS]
    assert found == pytest.approx(expected, rel=1e-9)
    assert 0 < np.ptp(found) <= 1, "the records should differ"


def test_the_truth_ratio_is_what_its_definition_says() -> None:
    parts = (score_tokens(MODEL, part) for part in (DATA.paraphrased, DATA.perturbed))
    found = measures.truth_ratio(DATA, *parts)
    for record, value in zip(DATA.records, found, strict=True):
        x, paraphrased = TOKENIZER.encode(record.question, record.paraphrased_answer)
        false = [TOKENIZER.encode("", answer)[1] for answer in record.perturbed_answers]
        assert value == pytest.approx(literal.truth_ratio(P, x, paraphrased, false), rel=1e-9)


def test_truth_ratios_of_other_records_are_refused() -> None:
    with pytest.raises(InvalidInput, match="should be of these records"):
        measures.truth_ratio(DATA, SCORES, SCORES)


def test_a_model_that_knows_everything_scores_one_and_one_that_knows_nothing_zero() -> None:
    """Without the last token, nothing comes out: the strength is 0, not 1/T."""
    certain = score_tokens(Bigrams(text_set([0]), strength=100.0), text_set([0]))
    assert measures.extraction_strength(certain) == [1.0]
    assert measures.exact_memorisation(certain) == [1.0]
    ignorant = score_tokens(Bigrams(text_set([0]), strength=-100.0), text_set([0]))
    assert measures.extraction_strength(ignorant) == [0.0]
    assert measures.exact_memorisation(ignorant) == [0.0]


def test_truth_on_forget_is_best_where_true_and_false_are_alike() -> None:
    ratios = np.array([0.25, 1.0, 4.0])
    assert measures.truth_on_forget(ratios) == pytest.approx((0.25 + 1.0 + 0.25) / 3)
    assert measures.truth_on_retain(ratios) == pytest.approx((0.75 + 0.0 + 0.0) / 3)
    assert measures.truth_on_forget(np.array([0.0])) == pytest.approx(0.0)


def test_forget_quality_is_the_p_value_of_the_largest_difference_of_distributions() -> None:
    random = np.random.default_rng(0)
    a, b = random.normal(0.0, 1.0, 30), random.normal(0.5, 1.0, 30)
    assert ks_2samp(a, b).statistic == pytest.approx(literal.ks_distance(a, b))
    assert measures.forget_quality(a, b) == ks_2samp(a, b).pvalue
    assert measures.forget_quality(a, a) == 1.0
    assert measures.forget_quality(a, a + 10.0) < 1e-10


def test_utility_is_a_harmonic_mean_and_zero_if_one_part_is_lost() -> None:
    assert harmonic_mean([0.2, 0.5, 1.0]) == pytest.approx(literal.harmonic_mean([0.2, 0.5, 1.0]))
    lost = {"probability": np.array([0.2]), "rouge_l": np.zeros(1), "truth_ratio": np.zeros(1)}
    utility = _utility({"retain": lost}, [("retain", slice(None))])
    assert utility == 0.0
    assert isinstance(utility, float), "else it would be left out of the scores"


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
        measures.min_k(SCORES, share),
        measures.min_k_plus_plus(SCORES, share),
        strict=True,
    ):
        assert low == pytest.approx(literal.min_k(P, x, y, share), rel=1e-9)
        assert standard == pytest.approx(literal.min_k_plus_plus(P, x, y, share), rel=1e-6)


def test_min_k_of_all_tokens_is_the_loss() -> None:
    assert measures.min_k(SCORES, 1.0) == pytest.approx(FOUND["loss"])


def test_the_gradient_norm_is_that_of_one_record_at_a_time() -> None:
    found = measures.gradient_norms(MODEL, DATA)
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
        measures.gradient_norms(frozen, DATA)


def test_auc_counts_pairs_and_ties_by_half() -> None:
    random = np.random.default_rng(1)
    members, others = random.integers(0, 5, 9) * 1.0, random.integers(0, 5, 7) * 1.0
    assert auc_of(members, others) == pytest.approx(literal.auc(members, others))


@pytest.mark.parametrize(("model", "ideal"), [(0.5, 0.5), (1.0, 0.5), (0.2, 0.6)])
def test_privacy_leakage_is_below_zero_for_a_model_that_remembers(
    model: float, ideal: float
) -> None:
    found = measures.privacy_leakage(model, ideal)
    assert found == pytest.approx(literal.privacy_leakage(model, ideal))
    assert (found < 0) == (model > ideal)
    assert measures.privacy_leakage(1.0, 0.5) == -100.0


def test_privacy_leakage_against_an_ideal_that_remembers_all_is_not_defined() -> None:
    assert math.isnan(measures.privacy_leakage(0.5, 1.0))


def test_a_certain_model_has_a_finite_score() -> None:
    """σ is 0 where one token has all the probability."""
    certain = Bigrams(text_set([0]), strength=1e4)
    scores = score_tokens(certain, text_set([0]))
    assert np.isfinite(measures.min_k_plus_plus(scores)).all()
    assert float(scores.deviations[scores.answered].min()) == 0.0


def literal_facts(data: TextSet) -> list[list[bool]]:
    """Token by token, with sets of words."""
    rows = []
    for record, tokens, labels in zip(data.records, data.tokens, data.labels, strict=True):
        prompt, _ = data.tokenizer.encode(record.question, record.answer)
        row = [int(y) != IGNORED and int(y) not in prompt for y in labels]
        if record.perturbed_answers:
            true = data.tokenizer.encode(record.question, record.paraphrased_answer)[1]
            false = [data.tokenizer.encode(record.question, w)[1] for w in record.perturbed_answers]
            row = [
                is_fact and int(y) in true and not any(int(y) in words for words in false)
                for is_fact, y in zip(row, tokens, strict=True)
            ]
        rows.append(row)
    return rows


def test_facts_are_what_neither_the_question_nor_a_false_answer_says() -> None:
    data = text_set()
    assert measures.fact_tokens(data).tolist() == literal_facts(data)
    record = TextRecord(
        "0",
        "Where was Ann Lee born?",
        "Ann Lee comes from Ely.",
        "The town of Ely is where Ann Lee was born.",
        ("The town of Rye is where Ann Lee was born.",),
    )
    for given, expected in (
        (record, ["Ely"]),
        (replace(record, perturbed_answers=()), ["comes", "from", "Ely", ".", "<end>"]),
        (replace(record, answer="Ann Lee"), ["<end>"]),
    ):
        texts = TextSet([given], WordTokenizer.of([record]))
        kept = texts.labels[measures.fact_tokens(texts)]
        encode = texts.tokenizer.encode("", " ".join(w for w in expected if w != "<end>"))[1]
        wanted = encode if "<end>" in expected else encode[:-1]
        assert kept.tolist() == wanted


def test_published_definitions_leave_the_end_of_answers_out() -> None:
    told = measures.without_end(SCORES)
    cut = [(x, y[:-1]) for x, y in PAIRS]
    for name in ("exact_memorisation", "probability"):
        expected = [getattr(literal, name)(P, x, y) for x, y in cut]
        assert getattr(measures, name)(told) == pytest.approx(expected, rel=1e-9)
    found = measures.membership_scores(DATA, SCORES, published=True)
    for name in ("min_k", "min_k_plus_plus"):
        expected = [getattr(literal, name)(P, x, y, 0.2) for x, y in cut]
        assert found[name] == pytest.approx(expected, rel=1e-9)
    for name in ("loss", "zlib"):  # these have it
        assert found[name] == pytest.approx(FOUND[name])


def test_an_answer_of_one_token_keeps_it() -> None:
    single = SCORES.without(SCORES.answered.cumsum(dim=1) > 1)
    assert measures.without_end(single).counts.tolist() == [1] * len(DATA)


def test_published_extraction_strength_is_never_zero() -> None:
    found = measures.extraction_strength(measures.without_end(SCORES), published=True)
    expected = [literal.published_extraction_strength(P, x, y) for x, y in PAIRS]
    assert found == pytest.approx(expected, rel=1e-9)
    ignorant = score_tokens(Bigrams(text_set([0]), strength=-100.0), text_set([0]))
    least = measures.extraction_strength(measures.without_end(ignorant), published=True)
    assert least == pytest.approx([1 / (len(PAIRS[0][1]) - 1)])


def test_published_truth_ratios_and_options_are_what_their_definitions_say() -> None:
    paraphrased, perturbed = (
        score_tokens(MODEL, part) for part in (DATA.paraphrased, DATA.perturbed)
    )
    ratios = measures.truth_ratio(DATA, paraphrased, perturbed, published=True)
    options = measures.probability_among_options(DATA, SCORES, perturbed)
    for k, record in enumerate(DATA.records):
        x, true = TOKENIZER.encode(record.question, record.paraphrased_answer)
        false = [TOKENIZER.encode("", answer)[1] for answer in record.perturbed_answers]
        assert ratios[k] == pytest.approx(literal.published_truth_ratio(P, x, true, false))
        x, y = PAIRS[k]
        assert options[k] == pytest.approx(literal.probability_among_options(P, x, y, false))


def test_the_published_gradient_norm_is_a_mean_over_tensors() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Embedding(TOKENIZER.size, 4), torch.nn.Linear(4, TOKENIZER.size)
    )
    found = measures.gradient_norms(model, DATA, published=True)
    for value, (x, y) in zip(found, PAIRS, strict=True):
        row = torch.tensor([*x, *y[:-1]])
        log_p = model(row[None])[0].log_softmax(dim=-1)
        loss = -sum(log_p[len(x) + t - 1, y[t]] for t in range(len(y) - 1)) / (len(y) - 1)
        norms = [g.norm() for g in torch.autograd.grad(loss, list(model.parameters()))]
        assert -value == pytest.approx(float(sum(norms) / len(norms)), rel=1e-4)
