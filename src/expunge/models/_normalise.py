"""Input normalisation as a layer, so that a weights file carries it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from expunge._errors import InvalidInput
from expunge._kinds import check_arguments


class Standardise(nn.Module):
    """``(x - mean) / std`` per column of vectors [N, F]; both are kept with the weights."""

    shape: ClassVar[tuple[int, ...]] = (-1,)
    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        check_arguments(Standardise.__init__, locals())
        finite = all(math.isfinite(value) for value in (*mean, *std))
        if not mean or len(mean) != len(std) or not finite or not all(s > 0 for s in std):
            raise InvalidInput(
                "`mean` and `std` should pair up and be finite, `std` positive. "
                f"(got {list(mean)}, {list(std)})"
            )
        self.register_buffer("mean", torch.tensor(list(mean)).view(self.shape))
        self.register_buffer("std", torch.tensor(list(std)).view(self.shape))

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.std


class Normalise(Standardise):
    """``(x - mean) / std`` per channel, for x in [0, 1]; uint8 images are divided by 255 first.

    >>> layer = Normalise(mean=[0.5], std=[0.25])
    >>> layer(torch.full((1, 1, 1, 1), 255, dtype=torch.uint8)).item()
    2.0
    """

    shape = (1, -1, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype == torch.uint8:
            return (x.to(self.mean.dtype) - 255.0 * self.mean) / (255.0 * self.std)
        return super().forward(x)


class Rescale(Standardise):
    """``mean + std * x``: a network predicts standardised numbers, its user gets them in units."""

    shape = ()

    def __init__(self, mean: float, std: float) -> None:
        super().__init__([float(mean)], [float(std)])

    def forward(self, x: Tensor) -> Tensor:
        return self.mean + self.std * x


def column_statistics(vectors: Tensor) -> tuple[list[float], list[float]]:
    """Mean and deviation of each column of vectors [N, F]; 0 and 1 for constant and 0/1 columns."""
    values = vectors.double()
    mean, std = values.mean(dim=0), values.std(dim=0, correction=0)
    binary = ((values == 0) | (values == 1)).all(dim=0)
    plain = binary | (std < 1e-12 * mean.abs().clamp_min(1.0))
    return mean.masked_fill(plain, 0.0).tolist(), std.masked_fill(plain, 1.0).tolist()


def channel_statistics(images: Tensor) -> tuple[list[float], list[float]]:
    """Mean and standard deviation of each channel of uint8 images [N, C, H, W], in [0, 1].

    >>> channel_statistics(torch.tensor([[[[0, 255]]]], dtype=torch.uint8))
    ([0.5], [0.5])
    """
    check_arguments(channel_statistics, locals())
    if images.dtype != torch.uint8 or images.ndim != 4 or not len(images):
        raise InvalidInput(
            "`images` should be uint8 of shape [N, C, H, W], N > 0. "
            f"(got {images.dtype} of shape {list(images.shape)})"
        )
    levels = torch.arange(256, dtype=torch.float64) / 255.0
    mean, std = [], []
    for channel in range(images.shape[1]):
        counts = torch.bincount(images[:, channel].reshape(-1), minlength=256).double()
        share = counts / counts.sum()
        m = float((share * levels).sum())
        mean.append(m)
        std.append(max(float((share * (levels - m) ** 2).sum().sqrt()), 1e-3))
    return mean, std
