"""Labelled images of one split, held in memory as one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from expunge._errors import DataError, InvalidInput
from expunge._kinds import check_kind
from expunge.data._examples import Examples


class ImageSet(Examples):
    """Examples whose inputs are images, which can be shown and augmented.

    Args:
        images: ``uint8`` of shape ``[N, C, H, W]``.
        labels: ``int64`` of shape ``[N]``, each in ``0..len(classes)-1``.
        classes: The name of every class, in label order.
        names: A file name or id for every image, or None.

    >>> blank = torch.zeros(2, 1, 8, 8, dtype=torch.uint8)
    >>> pair = ImageSet(blank, torch.tensor([1, 0]), ("a", "b"))
    >>> len(pair), pair.shape, pair.num_classes, pair[0][1]
    (2, (1, 8, 8), 2, tensor(1))
    """

    noun = "image"

    def __init__(
        self,
        images: Tensor,
        labels: Tensor,
        classes: Sequence[str],
        names: Sequence[str] | None = None,
    ) -> None:
        check_kind("images", Tensor, images)
        if images.dtype != torch.uint8 or images.ndim != 4:
            raise InvalidInput(
                "`images` should be uint8 of shape [N, C, H, W]. "
                f"(got {images.dtype} of shape {list(images.shape)})"
            )
        super().__init__(images, labels, classes, names)

    @property
    def images(self) -> Tensor:
        """The inputs, under the name that says what they are."""
        return self.inputs

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of one image."""
        _, channels, height, width = self.inputs.shape
        return channels, height, width

    def _description(self) -> str:
        return repr(tuple(self.inputs.shape))


def image_set_from(
    source: Path | str,
    images: np.ndarray[Any, Any],
    labels: np.ndarray[Any, Any],
    classes: Sequence[str],
    names: Sequence[str] | None = None,
) -> ImageSet:
    """Make an :class:`ImageSet` of what was read from ``source``; `DataError` if it is invalid."""
    pixels = torch.from_numpy(np.ascontiguousarray(images))
    targets = torch.from_numpy(np.array(labels, dtype=np.int64))
    try:
        return ImageSet(pixels, targets, classes, names)
    except InvalidInput as error:
        raise DataError(f"{source}: {error}") from error
