from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from expunge.data import ImageSet

Make = Callable[..., ImageSet]


@pytest.fixture
def make() -> Make:
    """A little image set whose pixels tell the images apart."""

    def build(labels: list[int], classes: int = 10, names: list[str] | None = None) -> ImageSet:
        count = len(labels)
        images = torch.arange(count * 12).remainder(251).to(torch.uint8).view(count, 3, 2, 2)
        return ImageSet(images, torch.tensor(labels), [f"c{i}" for i in range(classes)], names)

    return build
