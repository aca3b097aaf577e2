"""Copies of forgotten records that remain: they keep in the model what should be forgotten.

*Exact* copies have the same bytes, whatever their label. *Near* copies are as similar to a
forgotten record, by the cosine of the model's features, as records that have nothing to do with
each other hardly ever are. How similar that is, the data tell: for a forget set of n records, n
others of the same class mix are drawn from what remains (again and again, until they are 200 or
more), and the 99.9th percentile of every remaining record's largest similarity to such a draw is
the threshold, one for train and one for val and test, since a model pulls together what it was
trained on. So one in a thousand is found by chance alone; ``expected`` says how many that is.

Where near copies are common throughout the data, this cannot tell those of the forgotten records:
the threshold is then close to 1, and a note says so.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from expunge.evaluation._train_test_overlap import content_hashes
from expunge.request._job import Include
from expunge.request.preflight._neighbours import nearest
from expunge.request.preflight._similarity import (
    QUANTILE,
    Hashes,
    Remaining,
    choose_threshold,
    draw_references,
)
from expunge.request.subject._load import Subject

LISTED = 100
"""Near copies that are listed in full."""
CLOSE = 1 - 1e-5
"""A threshold above this tells next to nothing."""


@dataclass(frozen=True)
class Copy:
    """A remaining record, the forgotten one it is most like, and how much."""

    forgotten: int
    split: str
    index: int
    similarity: float

    def as_list(self) -> list[Any]:
        """Plain values: forgotten index, split, index, similarity."""
        return [self.forgotten, self.split, self.index, round(self.similarity, 6)]


@dataclass(frozen=True)
class Duplicates:
    """Copies that remain in retain, val or test, each once, the most similar first.

    ``expected`` says how many of the near ones chance alone would give.
    """

    exact: tuple[Copy, ...]
    near: tuple[Copy, ...]
    expected: float
    thresholds: Mapping[str, float]
    notes: tuple[str, ...] = ()

    def to_include(self, kind: Include) -> tuple[Copy, ...]:
        """The copies in retain that are to be forgotten along."""
        chosen = {"none": (), "exact": self.exact, "near": (*self.exact, *self.near)}[kind]
        return tuple(copy for copy in chosen if copy.split == "retain")

    def in_retain(self, *, near: bool = False) -> tuple[int, ...]:
        """Training indices of the exact copies, and of the near ones if asked for."""
        return tuple(sorted(c.index for c in self.to_include("near" if near else "exact")))

    def count(self, split: str) -> tuple[int, int]:
        """Exact and near copies in a split."""
        exact, near = (sum(c.split == split for c in part) for part in (self.exact, self.near))
        return exact, near

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "exact": [copy.as_list() for copy in self.exact],
            "near": [copy.as_list() for copy in self.near[:LISTED]],
            "near_count": len(self.near),
            "in_retain": dict(zip(("exact", "near"), self.count("retain"), strict=True)),
            "near_expected_by_chance": round(self.expected, 2),
            "thresholds": {name: round(value, 6) for name, value in self.thresholds.items()},
            "quantile": QUANTILE,
            "notes": list(self.notes),
        }


def find_duplicates(
    subject: Subject,
    forgotten: Sequence[int],
    vectors: Mapping[str, Tensor],
    *,
    earlier: Collection[int] = (),
    seed: int = 0,
) -> Duplicates:
    """Copies of the training records ``forgotten`` in the rest of the data.

    ``vectors`` are the model's features of "train", "val" and "test"; ``earlier`` are training
    records that are out of retain already.
    """
    gone = {*forgotten, *earlier}
    retain = [index for index in range(len(subject.train)) if index not in gone]
    remaining = {
        "retain": ("train", retain),
        "val": ("val", list(range(len(subject.val)))),
        "test": ("test", list(range(len(subject.test)))),
    }
    hashes = {
        "train": content_hashes(subject.train),
        "val": content_hashes(subject.val),
        "test": content_hashes(subject.test),
    }
    exact = find_exact(forgotten, remaining, hashes)
    known = {(copy.split, copy.index) for copy in exact}
    rest = {
        split: (part, [i for i in indices if (split, i) not in known])
        for split, (part, indices) in remaining.items()
    }
    draws = draw_references(subject.train.labels, forgotten, rest["retain"][1], seed)
    near: list[Copy] = []
    thresholds: dict[str, float] = {}
    expected = 0.0
    for group in (("retain",), ("val", "test")):
        threshold, size = choose_threshold({s: rest[s] for s in group}, vectors, hashes, draws)
        thresholds[" and ".join(group)] = threshold
        for split in group:
            part, indices = rest[split]
            near += find_near(forgotten, split, indices, vectors["train"], vectors[part], threshold)
            expected += len(indices) * max(1 - QUANTILE, 1 / (size + 1))
    near.sort(key=lambda copy: (-copy.similarity, copy.split, copy.index))
    notes = tuple(
        f"In {name}, unrelated records can be as similar as {value:.6f} to this model, so near "
        "copies can hardly be told."
        for name, value in thresholds.items()
        if value > CLOSE
    )
    return Duplicates(exact, tuple(near), expected, thresholds, notes)


def find_exact(forgotten: Sequence[int], remaining: Remaining, hashes: Hashes) -> tuple[Copy, ...]:
    """Remaining records with the bytes of a forgotten one (the first, where several have them)."""
    first: dict[bytes, int] = {}
    for index in forgotten:
        first.setdefault(hashes["train"][index], index)
    return tuple(
        Copy(first[hashes[part][index]], split, index, 1.0)
        for split, (part, indices) in remaining.items()
        for index in indices
        if hashes[part][index] in first
    )


def find_near(
    forgotten: Sequence[int],
    split: str,
    indices: Sequence[int],
    train: Tensor,
    own: Tensor,
    threshold: float,
) -> list[Copy]:
    """The records at ``indices`` of a split whose best match is at least ``threshold``."""
    if not len(indices):
        return []
    chosen = list(forgotten)
    similarity, where = nearest(own[list(indices)], train[chosen])
    hits = (similarity >= threshold).nonzero()[:, 0].tolist()
    return [Copy(chosen[int(where[k])], split, int(indices[k]), float(similarity[k])) for k in hits]
