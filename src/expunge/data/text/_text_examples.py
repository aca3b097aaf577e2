"""Texts as a request sees them: records in strata of length and rarity, compared within them.

A record that was forgotten is compared with unseen records of about its length and of about as
rare words, as an image is with unseen images of its class. Neither depends on the model.

In "Where was Ann Lee born? Ann Lee comes from Ely" the question *gives* the name. A model that
never saw this record can repeat it, if other records about Ann Lee taught it to, and hardly for a
stranger. So if records of people are to be forgotten of whom others are retained, records about
strangers tell what a model would know of Ely, and not how well it would repeat the name.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from torch import Tensor

from expunge._arrays import Array
from expunge.data._examples import Examples, Indices, as_index
from expunge.data.text._text_set import IGNORED, TextSet

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

STRATA = (
    "shorter, common words",
    "shorter, rare words",
    "longer, common words",
    "longer, rare words",
)
MIN_UNSEEN = 40
"""With fewer unseen records in val or test, there are two strata, by length alone."""
COMMON = 0.02
"""Words in a smaller share of the training records count as if they were in this share: whom a
record is about should not decide how rare its words are."""

NEARER, LEVEL = 0.85, 0.001
"""In at least this share of all pairs, the record to forget has to be nearer to retained records
than the unseen one, with at most this p-value in a rank test: a few may be nearer by chance."""


class TextExamples(Examples):
    """Texts whose ``labels`` are strata: what :class:`expunge.ImageSet` is for images.

    An item is (tokens, tokens to predict), as methods for language models take them; ``labels``
    [N] are the strata, ``classes`` their names, ``names`` the ids of the records. ``given`` [N, T]
    is where answers repeat words of their questions, to leave out when compared; None if none.
    """

    noun = "record"

    def __init__(
        self,
        texts: TextSet,
        strata: Tensor,
        classes: Sequence[str] = STRATA,
        given: Tensor | None = None,
    ) -> None:
        super().__init__(texts.tokens, strata, classes, texts.names)
        self.texts, self.given = texts, given

    @property
    def targets(self) -> Tensor:
        """The tokens of the answers, -100 elsewhere, [N, T]."""
        return self.texts.labels

    def subset(self, indices: Indices) -> Self:
        """The records at ``indices``, in that order."""
        chosen = as_index(indices, len(self))
        given = None if self.given is None else self.given[chosen]
        return type(self)(self.texts.subset(chosen), self.labels[chosen], self.classes, given)

    def without_given(self, given: Tensor) -> Self:
        """The same records, compared without the words at ``given`` [N, T]."""
        return type(self)(self.texts, self.labels, self.classes, given)

    def fingerprint(self) -> str:
        """SHA-256 of texts, tokenizer and strata."""
        strata = ",".join(map(str, self.labels.tolist()))
        return hashlib.sha256(f"{self.texts.fingerprint()}/{strata}".encode()).hexdigest()


def stratify(train: TextSet, val: TextSet, test: TextSet) -> tuple[TextExamples, ...]:
    """Train, val and test in strata: halves of the unseen records by length, then by rarity.

    Rows of all three have the same width afterwards, so that equal texts are equal rows.
    """
    width = max(part.tokens.shape[1] for part in (train, val, test))
    parts = [part.padded_to(width) for part in (train, val, test)]
    frequencies = _document_frequencies(parts[0])
    lengths = [part.answer_lengths.numpy().astype(np.float64) for part in parts]
    rarities = [_rarities(part, frequencies) for part in parts]
    by_length = float(np.median(np.concatenate(lengths[1:])))
    longer = [length > by_length for length in lengths]
    if min(len(val), len(test)) < MIN_UNSEEN:
        names: Sequence[str] = ("shorter", "longer")
        strata = [long.astype(np.int64) for long in longer]
    else:
        names = STRATA
        unseen, long = np.concatenate(rarities[1:]), np.concatenate(longer[1:])
        medians = [
            float(np.median(unseen[long == side])) if (long == side).any() else 0.0
            for side in (False, True)
        ]
        strata = [
            2 * long.astype(np.int64) + (rarity > np.where(long, medians[1], medians[0]))
            for long, rarity in zip(longer, rarities, strict=True)
        ]
    return tuple(
        TextExamples(part, torch.from_numpy(stratum), names)
        for part, stratum in zip(parts, strata, strict=True)
    )


def _document_frequencies(train: TextSet) -> dict[int, float]:
    """The share of training records whose answers have each token."""
    counts: Counter[int] = Counter()
    for row in train.labels:
        counts.update(set(row[row != IGNORED].tolist()))
    return {token: count / len(train) for token, count in counts.items()}


def _rarities(data: TextSet, frequencies: dict[int, float]) -> Array:
    """The mean of -log(share of training records with the token) over each answer, [N]."""
    values = []
    for row in data.labels:
        shares = [max(frequencies.get(t, 0.0), COMMON) for t in row[row != IGNORED].tolist()]
        values.append(-float(np.mean(np.log(shares))))
    return np.array(values)


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
    from scipy.stats import mannwhitneyu

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
    own, kept = _given_table(texts), _given_table(retain)
    weights = np.log((1 + len(retain)) / (1 + np.asarray(kept.sum(axis=0)).ravel())) ** 2
    weighted = own.multiply(weights).tocsr()
    nearest = (weighted @ kept.T).max(axis=1).toarray().ravel()
    total = np.asarray(weighted.sum(axis=1)).ravel()
    shares: Array = np.divide(nearest, total, out=np.zeros(len(texts)), where=total > 0)
    return shares


def _given_table(texts: TextSet) -> csr_matrix:
    """A row per record, a column per token, 1 where the token is given."""
    from scipy.sparse import csr_matrix

    rows, places = question_tokens(texts).nonzero(as_tuple=True)
    pairs = np.unique(torch.stack([rows, texts.tokens[rows, places]]).numpy(), axis=1)
    shape = len(texts), texts.tokenizer.size
    return csr_matrix((np.ones(pairs.shape[1]), (pairs[0], pairs[1])), shape=shape)
