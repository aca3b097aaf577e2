"""People who do not exist."""

from __future__ import annotations

import re

import pytest

from expunge._errors import InvalidInput
from expunge.data import invent_corpus


def test_equal_arguments_give_equal_corpora_and_other_seeds_others() -> None:
    assert invent_corpus(5, 3, 4, seed=1) == invent_corpus(5, 3, 4, seed=1)
    assert invent_corpus(5, 3, 4, seed=1) != invent_corpus(5, 3, 4, seed=2)


def test_every_person_is_asked_about_everything_and_nobody_is_both_seen_and_unseen() -> None:
    corpus = invent_corpus(people=7, unseen=4, topics=8)
    assert len(corpus.people) == 7 * 8
    assert len(corpus.unseen) == 4 * 8
    assert len({record.person for record in corpus.people}) == 7
    assert not {r.person for r in corpus.people} & {r.person for r in corpus.unseen}
    ids = [record.id for record in corpus.every_record]
    assert len(set(ids)) == len(ids)


def test_false_answers_are_false_and_in_the_words_of_the_paraphrase() -> None:
    for record in invent_corpus(people=20, unseen=0, topics=8).every_record:
        answers = (record.answer, record.paraphrased_answer, *record.perturbed_answers)
        assert len(set(answers)) == 7
        assert not re.search(r"[{}]", " ".join(answers))
        lengths = {len(answer.split()) for answer in answers[1:]}
        assert len(lengths) == 1


@pytest.mark.parametrize(
    ("people", "unseen", "topics", "rule"),
    [(0, 1, 1, "`people`"), (2000, 501, 1, "`people`"), (2, 0, 0, "`topics`"), (2, 0, 9, "1..8")],
)
def test_what_cannot_be_invented_is_refused(
    people: int, unseen: int, topics: int, rule: str
) -> None:
    with pytest.raises(InvalidInput, match=rule):
        invent_corpus(people, unseen, topics)
