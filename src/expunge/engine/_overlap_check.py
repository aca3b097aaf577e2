"""Refuse forget and retain sets that overlap, as far as that can be determined."""

from __future__ import annotations

from typing import Any

from torch.utils.data import DataLoader, Dataset, RandomSampler, SequentialSampler, Subset

from expunge._errors import InvalidInput
from expunge.data._batches import Data
from expunge.data._images import ImageSet
from expunge.data._row_hashes import row_hashes


def check_disjoint(forget: Data, retain: Data) -> None:
    """Raise if ``forget`` and ``retain`` overlap.

    Detected are: one dataset given twice; subsets of one dataset with shared indices; image sets
    with an image of the same name, pixels and label in both; and image sets where at least half of
    the forget rows (pixels and label) occur in retain. Fewer equal rows pass: real datasets have
    genuine duplicates (CIFAR-10 does), and names alone may repeat from folder to folder.
    """
    first, second = _examples(forget), _examples(retain)
    if first is None or second is None:
        return
    if first is second:
        raise InvalidInput("Forget and retain should not overlap. (got one dataset for both)")
    if isinstance(first, Subset) and isinstance(second, Subset) and first.dataset is second.dataset:
        shared = sorted(set(map(int, first.indices)) & set(map(int, second.indices)))
        _refuse("shared ids", [str(index) for index in shared])
        return
    left, right = _images(first), _images(second)
    if left is not None and right is not None:
        _check_images(left, right)


def _check_images(forget: ImageSet, retain: ImageSet) -> None:
    rows, others = (row_hashes(part.images, part.labels) for part in (forget, retain))
    if forget.names is not None and retain.names is not None:
        kept = set(zip(retain.names, others, strict=True))
        named = zip(forget.names, rows, strict=True)
        _refuse("shared images", [name for name, row in named if (name, row) in kept])
    retained = set(others)
    copies = [str(index) for index, row in enumerate(rows) if row in retained]
    if 2 * len(copies) >= len(rows):
        _refuse(f"of {len(rows)} forget images are in retain too, at positions", copies)


def _refuse(what: str, shared: list[str]) -> None:
    if shared:
        raise InvalidInput(
            "Forget and retain should not overlap: what stays in retain is not forgotten. "
            f"({len(shared)} {what}, such as {', '.join(shared[:5])})"
        )


def _examples(data: Data) -> Dataset[Any] | None:
    """The dataset that ``data`` goes through completely, if any."""
    if not isinstance(data, DataLoader):
        return data
    whole = isinstance(data.sampler, (RandomSampler, SequentialSampler))
    return data.dataset if whole else None


def _images(data: Dataset[Any]) -> ImageSet | None:
    if isinstance(data, Subset) and isinstance(data.dataset, ImageSet):
        return data.dataset.subset(list(data.indices))
    return data if isinstance(data, ImageSet) else None
