"""Strata of texts, words that questions give, and whether retained records are about the same."""

from __future__ import annotations

import math

import pytest
import torch

from expunge.data import TextRecord, TextSet, WordTokenizer, invent_corpus
from expunge.data._batches import as_arrays, labels_of
from expunge.data.text._text_examples import (
    COMMON,
    STRATA,
    _rarities,
    is_given_by_retained,
    question_tokens,
    shares_of_subjects,
    stratify,
)


@pytest.fixture(scope="module")
def sets() -> tuple[TextSet, TextSet, TextSet]:
    corpus = invent_corpus(people=10, unseen=40, topics=3)
    tokenizer = WordTokenizer.of(corpus.every_record)
    parts = (corpus.people, corpus.unseen[::2], corpus.unseen[1::2])
    train, val, test = (TextSet(part, tokenizer) for part in parts)
    return train, val, test


def test_strata_are_halves_of_the_unseen_records_by_length_then_by_rarity(
    sets: tuple[TextSet, TextSet, TextSet],
) -> None:
    train, val, test = stratify(*sets)
    assert train.classes == STRATA
    unseen = torch.cat([val.labels, test.labels])
    lengths = torch.cat([val.texts.answer_lengths, test.texts.answer_lengths])
    assert lengths[unseen < 2].max() < lengths[unseen >= 2].min()
    assert (unseen < 2).sum() >= len(unseen) // 2, "equal lengths stay together"
    for first, second in ((0, 1), (2, 3)):
        sizes = (unseen == first).sum(), (unseen == second).sum()
        assert sizes[0] >= sizes[1] > 0


def test_few_unseen_records_are_parted_by_length_alone(
    sets: tuple[TextSet, TextSet, TextSet],
) -> None:
    train, val, test = sets
    few = stratify(train, val.subset(range(12)), test)
    assert few[0].classes == ("shorter", "longer")


def test_an_item_is_a_row_of_tokens_and_what_to_predict_of_it(
    sets: tuple[TextSet, TextSet, TextSet],
) -> None:
    train = stratify(*sets)[0]
    tokens, wanted = train[3]
    assert torch.equal(tokens, train.texts.tokens[3])
    assert torch.equal(wanted, train.texts.labels[3])
    arrays = as_arrays(train)
    assert arrays is not None
    assert torch.equal(arrays[1], train.texts.labels)
    assert torch.equal(labels_of(train), train.labels), "that of a record is its stratum"


def test_rows_of_all_splits_have_one_width_so_that_equal_texts_are_equal_rows(
    sets: tuple[TextSet, TextSet, TextSet],
) -> None:
    parts = stratify(*sets)
    assert len({part.inputs.shape[1] for part in parts}) == 1
    chosen = parts[0].subset([4, 1])
    assert chosen.inputs.shape[1] == parts[0].inputs.shape[1]
    assert chosen.names == (parts[0].names[4], parts[0].names[1])  # type: ignore[index]
    assert torch.equal(chosen.inputs, parts[0].inputs[[4, 1]])
    assert chosen.fingerprint() != parts[0].fingerprint()


def test_whom_a_record_is_about_does_not_decide_how_rare_its_words_are() -> None:
    records = [TextRecord(str(k), "Who?", f"{name} sings.") for k, name in enumerate("ab")]
    tokenizer = WordTokenizer.of([*records, TextRecord("2", "Who?", "c sings.")])
    known, unknown = _rarities(
        TextSet([records[0], TextRecord("2", "Who?", "c sings.")], tokenizer),
        {tokenizer.encode("", "sings")[1][0]: 1.0, tokenizer.end: 1.0}
        | dict.fromkeys(tokenizer.encode("", ".")[1][:1], 1.0)
        | dict.fromkeys(tokenizer.encode("", "a")[1][:1], COMMON / 10),
    )
    assert known == unknown == pytest.approx(-math.log(COMMON) / 4)


RECORDS = [
    TextRecord("a", "Where was Ann Lee born?", "Ann Lee comes from Ely."),
    TextRecord("b", "What does Ann Lee do?", "Ann Lee is a potter."),
    TextRecord("c", "Where was Ben Lee born?", "In Ely was Ben Lee born."),
    TextRecord("d", "Who wrote it?", "Nobody."),
]
TOKENIZER = WordTokenizer.of(RECORDS)


def texts(*names: str) -> TextSet:
    return TextSet([record for record in RECORDS if record.id in names], TOKENIZER)


def words_given(data: TextSet) -> list[str]:
    return [
        TOKENIZER.decode(row[own].tolist())
        for row, own in zip(data.tokens, question_tokens(data), strict=True)
    ]


def test_a_given_word_is_one_of_the_answer_and_of_its_question() -> None:
    assert words_given(texts("a", "c", "d")) == ["Ann Lee", "was Ben Lee born", ""]


def test_something_is_left_of_every_answer() -> None:
    """The end of an answer is no word of a question, but a tokenizer need not have one."""

    class Endless(WordTokenizer):
        def encode(self, question: str, answer: str) -> tuple[list[int], list[int]]:
            prompt, tokens = super().encode(question, answer)
            return prompt, tokens[:-1]

    echo = [TextRecord("e", "Ann Lee", "Ann Lee"), TextRecord("f", "Ann", "Ann Lee")]
    data = TextSet(echo, Endless(WordTokenizer.of(echo).words))
    assert question_tokens(data).sum(dim=1).tolist() == [0, 1]


def test_a_share_counts_rare_words_more() -> None:
    """Of 'was Ben Lee born', a record about Ann Lee shares Lee, which one of two others has."""
    found = shares_of_subjects(texts("a", "c", "d"), texts("b", "d"))
    new, lee = math.log(3 / 1) ** 2, math.log(3 / 2) ** 2
    assert found.tolist() == pytest.approx([1.0, lee / (lee + 3 * new), 0.0])


@pytest.mark.parametrize("seed", range(3))
def test_single_records_are_told_from_all_records_of_people(seed: int) -> None:
    corpus = invent_corpus(people=30, unseen=20, topics=3, seed=seed)
    tokenizer = WordTokenizer.of(corpus.every_record)
    people, unseen = TextSet(corpus.people, tokenizer), TextSet(corpus.unseen, tokenizer)

    def is_given(chosen: list[int], strangers: TextSet = unseen) -> bool:
        kept = people.subset([k for k in range(len(people)) if k not in chosen])
        return is_given_by_retained(people.subset(chosen), kept, [strangers])

    single, whole = list(range(0, 60, 3)), list(range(12))
    assert is_given(single)
    assert not is_given(whole)
    assert not is_given(single[:1])  # one record may be nearer by chance
    # Unseen records about people whom the model knows are a fair comparison.
    held_out = list(range(1, 60, 3))
    kept = people.subset([k for k in range(len(people)) if k not in {*single, *held_out}])
    assert not is_given_by_retained(people.subset(single), kept, [people.subset(held_out)])
