"""Records as rows of tokens."""

from __future__ import annotations

import pickle

import pytest
import torch

from expunge._errors import InvalidInput
from expunge.data import TextRecord, TextSet, WordTokenizer, invent_corpus
from expunge.models import SmallTransformer
from tests import tiny

CORPUS = invent_corpus(people=4, unseen=2, topics=3, seed=5)
TOKENIZER = WordTokenizer.of(CORPUS.every_record)
PEOPLE = TextSet(CORPUS.people, TOKENIZER)


def test_only_answers_are_labelled() -> None:
    for record, tokens, labels in zip(PEOPLE.records, PEOPLE.tokens, PEOPLE.labels, strict=True):
        labelled = labels != -100
        assert torch.equal(tokens[labelled], labels[labelled])
        assert TOKENIZER.decode(labels[labelled].tolist()) == record.answer
    assert torch.equal(PEOPLE.answer_lengths, (PEOPLE.labels != -100).sum(1))
    assert int(PEOPLE.lengths.max()) == PEOPLE.tokens.shape[1]


def test_a_subset_has_the_records_it_names() -> None:
    part = PEOPLE.subset([5, 0])
    assert part.names == (PEOPLE.names[5], PEOPLE.names[0])
    assert part.fingerprint() != PEOPLE.subset([0, 5]).fingerprint()
    assert part.fingerprint() == PEOPLE.subset([5, 0]).fingerprint()


def test_variants_ask_the_same_with_other_answers() -> None:
    assert [r.question for r in PEOPLE.paraphrased.records] == [r.question for r in PEOPLE.records]
    perturbed = PEOPLE.perturbed
    assert len(perturbed) == 5 * len(PEOPLE)
    assert perturbed.records[7].answer == PEOPLE.records[1].perturbed_answers[2]
    assert PEOPLE.perturbed is perturbed, "derived once, so that passes over it are kept"
    assert len(pickle.loads(pickle.dumps(PEOPLE)).perturbed) == len(perturbed)


def test_records_without_false_answers_have_no_variants() -> None:
    plain = TextSet([TextRecord("x", "Who?", "Ann.")], WordTokenizer(("Ann",)))
    assert not plain.has_variants
    with pytest.raises(InvalidInput, match=r"1 of 1 have none, such as 'x'"):
        _ = plain.perturbed


def test_a_record_that_is_too_long_is_refused_not_cut() -> None:
    with pytest.raises(InvalidInput, match=r"at most 10 tokens.*\(got \d+ in 'p\d-"):
        TextSet(CORPUS.people, TOKENIZER, max_length=10)
    with pytest.raises(InvalidInput, match="should hold a record"):
        TextSet([], TOKENIZER)


def test_it_can_be_unlearned_as_it_is() -> None:
    torch.manual_seed(0)
    model = SmallTransformer(TOKENIZER.size, PEOPLE.tokens.shape[1], width=8, layers=1, heads=2)
    result = tiny.unlearn(
        model,
        forget=PEOPLE.subset(range(3)),
        retain=PEOPLE.subset(range(3, 12)),
        method="npo",
        epochs=1,
        progress=False,
    )
    assert len(result.history.epochs) == 1
