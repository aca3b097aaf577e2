"""Duplicates of forgotten records that remain: they keep in the model what should be forgotten.

Duplicates have the same bytes, whatever their label.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from expunge.data import row_hashes
from expunge.request.loading._load import ModelAndData


@dataclass(frozen=True)
class Duplicate:
    """A remaining record of "retain", "val" or "test", and the forgotten record it is equal to."""

    forgotten: int
    split: str
    index: int


def find_duplicates(
    loaded: ModelAndData, forgotten: Sequence[int], earlier: Collection[int] = ()
) -> tuple[Duplicate, ...]:
    """Duplicates of the training records ``forgotten`` in the rest of the data.

    ``earlier`` are training records that are out of retain already. Of several forgotten records
    with the same bytes, the first is named.
    """
    in_train = row_hashes(loaded.train)
    first_with: dict[bytes, int] = {}
    for index in forgotten:
        first_with.setdefault(in_train[index], index)
    gone = {*forgotten, *earlier}
    remaining = {
        "retain": in_train,
        "val": row_hashes(loaded.val),
        "test": row_hashes(loaded.test),
    }
    return tuple(
        Duplicate(first_with[content], split, index)
        for split, hashes in remaining.items()
        for index, content in enumerate(hashes)
        if content in first_with and not (split == "retain" and index in gone)
    )
