"""What of the records to forget can be compared with unseen ones: all, or what is not given."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import torch

from expunge.data.text import TextExamples, is_given_by_retained, question_tokens
from expunge.request.subject._load import Subject


def with_comparable_answers(
    subject: Subject, to_forget: Collection[int], earlier: Collection[int]
) -> Subject:
    """The subject of a request for these training records, ``earlier`` ones being gone.

    Where other records about the same people are retained, and unseen records are about strangers,
    answers to forget and unseen ones are compared without the words that their questions give.
    This depends on the texts alone, not on the model.
    """
    train, val, test = subject.train, subject.val, subject.test
    if not (
        isinstance(train, TextExamples)
        and isinstance(val, TextExamples)
        and isinstance(test, TextExamples)
    ):
        return subject
    gone = {*to_forget, *earlier}
    retain = train.texts.subset([i for i in range(len(train)) if i not in gone])
    forget = train.texts.subset(sorted(to_forget))
    if not is_given_by_retained(forget, retain, (val.texts, test.texts)):
        return subject
    is_gone = torch.tensor([i in gone for i in range(len(train))])
    return replace(
        subject,
        train=train.without_given(question_tokens(train.texts) & is_gone[:, None]),
        val=val.without_given(question_tokens(val.texts)),
        test=test.without_given(question_tokens(test.texts)),
    )


def compares_all_words(subject: Subject) -> bool:
    """Whether whole answers are compared."""
    return not isinstance(subject.val, TextExamples) or subject.val.given is None
