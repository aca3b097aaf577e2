"""Exact quantiles of |x| in a tensor, also of one whose parts are on several processes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import torch
from torch import Tensor

DIGIT = 8
CHUNK = 1 << 22
"""Elements processed together: bounds the scratch memory."""


Interpolation = Literal["lower", "midpoint", "linear"]
"""What a quantile between two values is: the lower, their mean, or in proportion to its place."""


def absolute_quantile(
    values: Tensor, quantile: float = 0.5, interpolation: Interpolation = "lower"
) -> Tensor:
    """The quantile of |x| over a whole tensor, which is not empty.

    >>> x = torch.tensor([3.0, -1.0, 2.0, -4.0])
    >>> [float(absolute_quantile(x, 0.5, rule)) for rule in ("lower", "midpoint", "linear")]
    [2.0, 2.5, 2.5]
    >>> round(float(absolute_quantile(x, 0.9, "linear")), 4)
    3.7
    """
    sizes = values.abs().flatten()
    if quantile == 0.5 and interpolation == "lower":
        return sizes.median()
    place = quantile * (sizes.numel() - 1)
    low, high = (sizes.kthvalue(k + 1).values for k in (math.floor(place), math.ceil(place)))
    share = torch.tensor(place - math.floor(place), dtype=torch.float64)
    return _between(low, high, share.to(sizes.device), interpolation)


def absolute_quantiles(
    parts: Sequence[Tensor],
    total: Callable[[Tensor], None],
    quantile: float = 0.5,
    interpolation: Interpolation = "lower",
    *,
    chunk: int = CHUNK,
) -> list[Tensor]:
    """:func:`absolute_quantile` over all parts of each tensor, without gathering them.

    It is nan where there is a nan. ``parts`` are this process's flat parts, possibly empty;
    ``total`` sums a tensor over the processes, in place.

    The bits of non-negative floats are ordered as the floats are, so a value of a given rank is
    found digit by digit: a histogram of the leading 8 bits, added up over the processes, tells
    which digit it has; then one of the next 8 bits among the numbers that begin so. Four rounds
    for float32, each one exchange of 257 counts per tensor, whatever its size; twice as many where
    two neighbours are interpolated.

    >>> absolute_quantiles([torch.tensor([3.0, -1.0, 2.0, -4.0])], lambda counts: None)
    [tensor(2.)]
    """
    quantiles: list[Tensor] = [torch.empty(0)] * len(parts)
    kinds = [(str(p.device), p.dtype == torch.float64) for p in parts]
    for kind in sorted(set(kinds)):
        chosen = [k for k, other in enumerate(kinds) if other == kind]
        own = [parts[k] for k in chosen]
        selected, counts = _select(own, total, chunk, quantile, math.floor)
        if interpolation != "lower":
            above, _ = _select(own, total, chunk, quantile, math.ceil)
            place = quantile * (counts - 1).double()
            selected = _between(selected, above, place - place.floor(), interpolation)
        for k, value in zip(chosen, selected, strict=True):
            quantiles[k] = value.to(parts[k].dtype)
    return quantiles


def _between(low: Tensor, high: Tensor, share: Tensor, interpolation: Interpolation) -> Tensor:
    """A value between two neighbours, ``share`` of the way; the lower where there is no way."""
    if interpolation == "lower":
        return low
    weight = torch.where(share > 0, 0.5, 0.0) if interpolation == "midpoint" else share
    return torch.where(weight > 0, torch.lerp(low, high, weight.to(low.dtype)), low)


def _select(
    parts: list[Tensor],
    total: Callable[[Tensor], None],
    chunk: int,
    quantile: float,
    round_rank: Callable[[float], int],
) -> tuple[Tensor, Tensor]:
    """The value at a quantile of each tensor, its rank rounded down or up; and their sizes."""
    length = 63 if parts[0].dtype == torch.float64 else 31
    prefix = torch.zeros(len(parts), dtype=torch.int64, device=parts[0].device)
    rank = unordered = sizes = torch.zeros_like(prefix)
    for shift in (*range(length - DIGIT, 0, -DIGIT), 0):
        digits = 1 << (DIGIT if shift else length % DIGIT)
        histograms = [_histogram(p, prefix[k], shift, digits, chunk) for k, p in enumerate(parts)]
        counts = torch.stack(histograms)
        total(counts)
        counts, extra = counts[:, :-1], counts[:, -1]
        if shift == length - DIGIT:
            unordered = extra
            sizes = counts.sum(dim=1)
            place = quantile * (sizes - 1).double()
            rank = (place.floor() if round_rank is math.floor else place.ceil()).long()
        upto = counts.cumsum(dim=1)
        digit = (upto <= rank[:, None]).sum(dim=1).clamp_(max=digits - 1)
        rank = rank - (upto - counts).gather(1, digit[:, None]).squeeze(1)
        prefix = prefix * digits + digit
    values = prefix.view(torch.float64) if length == 63 else prefix.int().view(torch.float32)
    return torch.where(unordered > 0, torch.nan, values), sizes


def _histogram(part: Tensor, prefix: Tensor, shift: int, digits: int, chunk: int) -> Tensor:
    """Counts of the digit after ``prefix``, in numbers that begin with it; last, that of nan."""
    counts = torch.zeros(digits + 1, dtype=torch.int64, device=part.device)
    for piece in _pieces(part, chunk):
        if piece.dtype == torch.float64:
            kind, magnitude = torch.int64, (1 << 63) - 1
        else:
            kind, magnitude = torch.int32, (1 << 31) - 1
            piece = piece.float()
        leading = (piece.view(kind) & magnitude) >> shift
        if shift == magnitude.bit_length() - DIGIT:
            counts[:-1] += count(leading, digits)
            counts[-1] += piece.isnan().sum()
        else:
            begins = leading >> (digits.bit_length() - 1) == prefix.to(kind)
            following = torch.where(begins, leading & (digits - 1), digits)
            counts[:-1] += count(following, digits + 1)[:-1]
    return counts


def count(digits: Tensor, length: int) -> Tensor:
    """How often each of 0..length-1 occurs, without waiting for the device."""
    if digits.device.type == "cpu":
        return torch.bincount(digits, minlength=length)
    return tally(digits, length)


def tally(digits: Tensor, length: int) -> Tensor:
    """:func:`count` for accelerators, where ``bincount`` would wait to learn the largest."""
    zeros = torch.zeros(length, dtype=torch.int64, device=digits.device)
    places = digits.to(torch.int64)
    return zeros.scatter_add_(0, places, torch.ones_like(places))


def _pieces(part: Tensor, chunk: int) -> Iterator[Tensor]:
    for start in range(0, part.numel(), chunk):
        yield part[start : start + chunk]
