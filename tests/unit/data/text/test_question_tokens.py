"""Words that questions give, and whether retained records are about the same people."""

from __future__ import annotations

import math

import pytest

from expunge.data import TextRecord, TextSet, WordTokenizer, invent_corpus
from expunge.data.text._question_tokens import (
    is_given_by_retained,
    question_tokens,
    shares_of_subjects,
)

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
