"""Words of an answer that its question says already, and who is still asked about.

In "Where was Ann Lee born? Ann Lee comes from Ely" the name is given. A model that never saw this
record can repeat it, if other records about Ann Lee taught it to, and hardly for a stranger. So if
records of people are to be forgotten of whom others are retained, records about strangers tell what
a model would know of Ely, and not how well it would repeat the name.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from scipy.sparse import csr_matrix
from scipy.stats import mannwhitneyu
from torch import Tensor

from expunge._arrays import Array
from expunge.data.text._text_set import IGNORED, TextSet

NEARER, LEVEL = 0.85, 0.001
"""A record to forget has to be nearer to retained ones than an unseen one is in so many of all
pairs, and the p-value of a rank test has to be at most this: a few may be nearer by chance."""


def question_tokens(texts: TextSet) -> Tensor:
    """Where a token of an answer is also one of its question, [N, T].

    An answer that has no other token has no given one either: something has to be left of it.
    """
    answered = texts.labels != IGNORED
    before = torch.arange(texts.labels.shape[1]) < answered.long().argmax(dim=1)[:, None]
    given = torch.zeros_like(answered)
    for row, (tokens, asked) in enumerate(zip(texts.tokens, before, strict=True)):
        given[row] = torch.isin(tokens, tokens[asked])
    given &= answered
    return given & (answered & ~given).any(dim=1, keepdim=True)


def is_given_by_retained(forget: TextSet, retain: TextSet, unseen: Sequence[TextSet]) -> bool:
    """Whether records to forget are about who is retained, and unseen ones are not.

    Then unseen records say nothing of how likely the given words should be.
    """
    kept = shares_of_subjects(forget, retain)
    others = np.concatenate([shares_of_subjects(part, retain) for part in unseen])
    test = mannwhitneyu(kept, others, alternative="greater")
    nearer = float(test.statistic) / (len(kept) * len(others))
    return nearer >= NEARER and float(test.pvalue) <= LEVEL


def shares_of_subjects(texts: TextSet, retain: TextSet) -> Array:
    """How much of what is given in a record the retained record nearest to it has as well, [N].

    A word counts by log²((1 + n)/(1 + m)), where m of n retained records have it given: names
    rather than what a question is about.
    """
    vocabulary = texts.tokenizer.size
    own, kept = (_table(_given_sets(part), vocabulary) for part in (texts, retain))
    weights = np.log((1 + len(retain)) / (1 + np.asarray(kept.sum(axis=0)).ravel())) ** 2
    weighted = own.multiply(weights).tocsr()
    nearest = (weighted @ kept.T).max(axis=1).toarray().ravel()
    total = np.asarray(weighted.sum(axis=1)).ravel()
    shares: Array = np.divide(nearest, total, out=np.zeros(len(texts)), where=total > 0)
    return shares


def _given_sets(texts: TextSet) -> list[set[int]]:
    given = question_tokens(texts)
    return [set(row[own].tolist()) for row, own in zip(texts.tokens, given, strict=True)]


def _table(sets: Sequence[set[int]], vocabulary: int) -> csr_matrix:
    """A row per record, a column per token, 1 where it is given."""
    pairs = [(row, token) for row, tokens in enumerate(sets) for token in tokens]
    rows, columns = zip(*pairs, strict=True) if pairs else ((), ())
    return csr_matrix((np.ones(len(pairs)), (rows, columns)), shape=(len(sets), vocabulary))
