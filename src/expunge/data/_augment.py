"""Random crops and mirror images of whole batches."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from expunge._errors import InvalidInput
from expunge._kinds import NaturalNumber, Part
from expunge.distributed import BatchShare


@dataclass(frozen=True)
class Augment(Part):
    """Mirror each image with probability 1/2, then crop it at random after zero padding.

    Works on ``[B, C, H, W]`` of any dtype, where the batch lives. The few random numbers come
    from a CPU generator, so a seed gives the same batch on every device; they are copied without a
    host sync. ``padding=0, flip=False`` is the identity.

    >>> batch = torch.arange(8, dtype=torch.uint8).view(1, 1, 2, 4)
    >>> Augment(padding=1)(batch, torch.Generator().manual_seed(0)).shape
    torch.Size([1, 1, 2, 4])
    """

    padding: NaturalNumber = 4
    flip: bool = True

    def __call__(
        self, images: Tensor, generator: torch.Generator, share: BatchShare | None = None
    ) -> Tensor:
        """Augment the images; a ``share`` of a batch as if the whole batch were augmented."""
        if images.ndim != 4:
            raise InvalidInput(
                f"`images` should be of shape [B, C, H, W]. (got {list(images.shape)})"
            )
        share = share or BatchShare(0, len(images), len(images))
        if len(images) and self.flip:
            images = _flip(images, generator, share)
        if len(images) and self.padding:
            images = _crop(images, self.padding, generator, share)
        return images


def _flip(images: Tensor, generator: torch.Generator, share: BatchShare) -> Tensor:
    count = len(images)
    mirrored = torch.randint(2, (share.total,), generator=generator)[share.start : share.stop]
    chosen = (torch.arange(count) + count * mirrored).to(images.device, non_blocking=True)
    return torch.cat((images, images.flip(3))).index_select(0, chosen)


def _crop(images: Tensor, padding: int, generator: torch.Generator, share: BatchShare) -> Tensor:
    """Crop by picking, for each image, one window into the padded batch by its start."""
    count, channels, height, width = images.shape
    padded = F.pad(images, (padding,) * 4)
    batch, *inner = padded.stride()  # not always contiguous: channels-last stays so
    draws = torch.randint(2 * padding + 1, (2, share.total), generator=generator)
    down, right = draws[:, share.start : share.stop]
    start = torch.arange(count) * batch + down * inner[1] + right * inner[2]
    starts = (count - 1) * batch + 2 * padding * (inner[1] + inner[2]) + 1
    windows = padded.as_strided((starts, channels, height, width), (1, *inner))
    return windows.index_select(0, start.to(images.device, non_blocking=True))
