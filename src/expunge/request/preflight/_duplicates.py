"""Duplicates of forgotten records that remain: they keep in the model what should be forgotten.

*Exact* duplicates have the same bytes, whatever their label. *Near* duplicates are more similar to
a forgotten record, by the cosine of the model's features, than all but one in a thousand unrelated
records. The threshold comes from the data: for a forget set of n records, n others of the same
class mix are drawn from what remains (repeatedly, until at least 200 are drawn), and the 99.9th
percentile of every remaining record's largest similarity to such a draw is the threshold. There is
one threshold for train and one for val and test, since a model pulls together what it was trained
on. So one record in a thousand is found by chance alone; ``expected`` says how many that is.

If near duplicates are common throughout the data, those of the forgotten records cannot be told
apart: the threshold is then close to 1, and a note says so.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from expunge.data import row_hashes
from expunge.evidence import DuplicateCounts
from expunge.request._job import IncludeDuplicates
from expunge.request.preflight._features import nearest_neighbours
from expunge.request.subject._load import Subject

QUANTILE = 0.999
MIN_DRAWN = 200
"""Records to draw in all, in one draw or several."""
MAX_SIMILARITIES = 100_000
"""If there are more similarities than this, the percentile rests on every n-th record."""
MAX_LISTED = 100
"""Near duplicates that are listed in full."""
USELESS_THRESHOLD = 1 - 1e-5
"""A threshold above this tells next to nothing."""

RemainingRecords = Mapping[str, tuple[str, Sequence[int]]]
"""For "retain", "val" and "test": the split that holds the records, and their indices in it."""
ContentHashes = Mapping[str, Sequence[bytes]]
"""For "train", "val" and "test": a hash of every record's content."""


@dataclass(frozen=True)
class Duplicate:
    """A remaining record, the forgotten record it is most similar to, and how similar."""

    forgotten: int
    split: str
    index: int
    similarity: float


@dataclass(frozen=True)
class Duplicates:
    """Duplicates that remain in retain, val or test, each once, the most similar first.

    ``expected`` is the number of near duplicates that chance alone would give. A threshold is
    infinite if nothing of the forgotten classes is left that it could be estimated from.
    """

    exact: tuple[Duplicate, ...]
    near: tuple[Duplicate, ...]
    expected: float
    thresholds: Mapping[str, float]
    notes: tuple[str, ...] = ()

    def to_include(self, kind: IncludeDuplicates) -> tuple[Duplicate, ...]:
        """The duplicates in retain that are to be forgotten as well."""
        chosen = {"none": (), "exact": self.exact, "near": (*self.exact, *self.near)}[kind]
        return tuple(duplicate for duplicate in chosen if duplicate.split == "retain")

    def count(self, split: str) -> tuple[int, int]:
        """Number of exact and of near duplicates in a split."""
        exact, near = (sum(d.split == split for d in kind) for kind in (self.exact, self.near))
        return exact, near

    def listed(self) -> list[tuple[int, str, int, float]]:
        """The forgotten record, split, index and similarity of each; not all of the near ones."""
        return [
            (each.forgotten, each.split, each.index, round(each.similarity, 6))
            for each in (*self.exact, *self.near[:MAX_LISTED])
        ]

    def counts(self) -> DuplicateCounts:
        """What is written of them: none of them singly."""
        return DuplicateCounts(
            exact=len(self.exact),
            near=len(self.near),
            in_retain=dict(zip(("exact", "near"), self.count("retain"), strict=True)),
            near_expected_by_chance=round(self.expected, 2),
            thresholds={
                name: round(value, 6) if math.isfinite(value) else None
                for name, value in self.thresholds.items()
            },
            quantile=QUANTILE,
            notes=list(self.notes),
        )


def find_duplicates(
    subject: Subject,
    forgotten: Sequence[int],
    vectors: Mapping[str, Tensor],
    *,
    earlier: Collection[int] = (),
    seed: int = 0,
) -> Duplicates:
    """Find duplicates of the training records ``forgotten`` in the rest of the data.

    ``vectors`` are the model's features of "train", "val" and "test"; ``earlier`` are training
    records that are out of retain already.
    """
    # What remains: retain is what is left of train.
    gone = {*forgotten, *earlier}
    retain = [index for index in range(len(subject.train)) if index not in gone]
    remaining = {
        "retain": ("train", retain),
        "val": ("val", list(range(len(subject.val)))),
        "test": ("test", list(range(len(subject.test)))),
    }
    # Exact duplicates, by content.
    hashes = {
        "train": row_hashes(subject.train),
        "val": row_hashes(subject.val),
        "test": row_hashes(subject.test),
    }
    exact = find_exact(forgotten, remaining, hashes)
    exact_places = {(duplicate.split, duplicate.index) for duplicate in exact}
    rest = {
        name: (split, [i for i in indices if (name, i) not in exact_places])
        for name, (split, indices) in remaining.items()
    }
    # Near duplicates, by similarity beyond that of unrelated records.
    draws = draw_unrelated(subject.train.labels, forgotten, rest["retain"][1], seed)
    near: list[Duplicate] = []
    thresholds: dict[str, float] = {}
    expected = 0.0
    for group in (("retain",), ("val", "test")):
        threshold, size = choose_threshold({s: rest[s] for s in group}, vectors, hashes, draws)
        thresholds[" and ".join(group)] = threshold
        for name in group:
            split, indices = rest[name]
            near += find_near(forgotten, name, indices, vectors["train"], vectors[split], threshold)
            if size:
                expected += len(indices) * max(1 - QUANTILE, 1 / (size + 1))
    near.sort(key=lambda duplicate: (-duplicate.similarity, duplicate.split, duplicate.index))
    notes = [
        f"In {name}, unrelated records can be as similar as {threshold:.6f} to this model, so near "
        "duplicates can hardly be distinguished."
        for name, threshold in thresholds.items()
        if USELESS_THRESHOLD < threshold < math.inf
    ]
    if not all(map(math.isfinite, thresholds.values())):
        notes.append(
            "Hardly anything of the forgotten classes is retained, so that there is nothing to "
            "tell near duplicates by; only exact ones were looked for."
        )
    return Duplicates(exact, tuple(near), expected, thresholds, tuple(notes))


def find_exact(
    forgotten: Sequence[int], remaining: RemainingRecords, hashes: ContentHashes
) -> tuple[Duplicate, ...]:
    """Remaining records with the bytes of a forgotten one (the first, if several have them)."""
    first_with: dict[bytes, int] = {}
    for index in forgotten:
        first_with.setdefault(hashes["train"][index], index)
    return tuple(
        Duplicate(first_with[hashes[split][index]], name, index, 1.0)
        for name, (split, indices) in remaining.items()
        for index in indices
        if hashes[split][index] in first_with
    )


def find_near(
    forgotten: Sequence[int],
    name: str,
    indices: Sequence[int],
    train_vectors: Tensor,
    vectors: Tensor,
    threshold: float,
) -> list[Duplicate]:
    """The records at ``indices`` whose best match among the forgotten is at least ``threshold``.

    ``vectors`` are the features of the split that holds them; ``name`` is "retain", "val" or
    "test".
    """
    if not len(indices):
        return []
    forgotten = list(forgotten)
    similarity, match = nearest_neighbours(vectors[list(indices)], train_vectors[forgotten])
    hits = (similarity >= threshold).nonzero()[:, 0].tolist()
    return [
        Duplicate(forgotten[int(match[k])], name, int(indices[k]), float(similarity[k]))
        for k in hits
    ]


def draw_unrelated(
    labels: Tensor, forgotten: Sequence[int], retain: Sequence[int], seed: int
) -> list[list[int]]:
    """Sets of retained records with the class mix of the forgotten ones, 200 records or more."""
    generator = np.random.default_rng(seed)
    values = labels.cpu().numpy()
    pools = {
        int(label): np.array([i for i in retain if values[i] == label], dtype=np.int64)
        for label in np.unique(values)
    }
    class_mix = np.unique(values[list(forgotten)], return_counts=True)
    draws: list[list[int]] = []
    for _ in range(max(1, -(-MIN_DRAWN // len(forgotten)))):
        drawn: list[int] = []
        for label, count in zip(*class_mix, strict=True):
            pool = pools[int(label)]
            drawn += generator.permutation(pool)[: min(int(count), len(pool) // 2)].tolist()
        if drawn:
            draws.append(sorted(drawn))
    return draws


def choose_threshold(
    remaining: RemainingRecords,
    vectors: Mapping[str, Tensor],
    hashes: ContentHashes,
    draws: Sequence[Sequence[int]],
) -> tuple[float, int]:
    """The similarity that one record in a thousand has to a draw, and how many it rests on.

    Exact duplicates of what was drawn do not count. With nothing to compare, nothing is similar
    enough.
    """
    similarities: list[Tensor] = []
    total = sum(len(indices) for _, indices in remaining.values())
    step = max(1, len(draws) * total // MAX_SIMILARITIES)
    for turn, drawn in enumerate(draws):
        drawn_hashes = {hashes["train"][index] for index in drawn}
        references = vectors["train"][list(drawn)]
        for split, indices in remaining.values():
            candidates = indices[turn % step :: step]
            others = [i for i in candidates if hashes[split][i] not in drawn_hashes]
            if others:
                similarities.append(nearest_neighbours(vectors[split][others], references)[0])
    if not similarities:
        return float("inf"), 0
    pooled = torch.cat(similarities).double().numpy()
    return float(np.quantile(pooled, QUANTILE, method="higher")), len(pooled)
