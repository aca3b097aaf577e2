"""A data set by name: (train, test) as sets of images."""

from typing import Any

import torch

from expunge.data import Format, ImageSet

CLASSES = ("top left", "top right", "bottom left", "bottom right")


def load_blobs(path: Any) -> tuple[ImageSet, ImageSet]:
    """Images of 8 x 8: noise, and a bright quarter that tells the class."""
    return _blobs(400, seed=0), _blobs(200, seed=1)


def _blobs(count: int, seed: int) -> ImageSet:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % len(CLASSES)
    images = torch.randint(0, 160, (count, 1, 8, 8), generator=generator)
    for label in range(len(CLASSES)):
        top, left = 4 * (label // 2), 4 * (label % 2)
        images[labels == label, :, top : top + 4, left : left + 4] += 60
    return ImageSet(images.to(torch.uint8), labels, CLASSES)


BLOBS = Format("blobs", "noise of 8 x 8 with one bright quarter, made up", load_blobs, flip=False)
"""Noise of 8 x 8 with one bright quarter, made up."""
