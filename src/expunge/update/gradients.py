"""Gradients of losses, in the parameters' own memory, micro-batch by micro-batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from expunge.errors import InvalidInput
from expunge.update.layout import moment_dtype


class Term(NamedTuple):
    """A loss, and the loss whose gradient ranks the parameters, from the same forward pass."""

    loss: Tensor
    saliency: Tensor | None = None
    """The plain loss on forget data; None where the gradient of ``loss`` already ranks alike."""


Losses = Tensor | Term | Iterable[Tensor | Term]
"""A scalar loss, or one a micro-batch, made lazily where it is a generator."""


class Gathered(NamedTuple):
    """A gradient, and how it came about."""

    gradients: list[Tensor | None]
    salience: list[Tensor | None] | None
    """The gradients of the saliency losses, where they were asked for and given."""
    spread: list[Tensor] | None
    """Σₖ (ĝₖ - ĝ)² over the micro-batches, where it was asked for."""
    parts: int
    loss: Tensor
    """Mean loss over the micro-batches, detached."""


def gather(
    losses: Losses,
    params: Sequence[Tensor],
    *,
    spread: bool = False,
    salient: bool = False,
    retain_graph: bool = False,
) -> Gathered:
    """The gradient of the mean of ``losses`` with respect to each of ``params``.

    Goes through ``backward`` rather than ``torch.autograd.grad``, so that hooks on parameters fire
    and each gradient owns its memory in its parameter's layout. ``p.grad`` is left at None.
    """
    mean: list[Tensor | None] = [None] * len(params)
    ranks: list[Tensor | None] | None = None
    squares = [torch.zeros_like(p, dtype=moment_dtype(p.dtype)) for p in params] if spread else None
    losses_seen: list[Tensor] = []
    for parts, (loss, saliency) in enumerate(_terms(losses), start=1):
        if salient and saliency is not None:
            ranks = ranks or [None] * len(params)
            _merge(ranks, _backward(saliency, params, retain_graph=True), parts, None)
        _merge(mean, _backward(loss, params, retain_graph=retain_graph), parts, squares)
        losses_seen.append(loss.detach())
    if not losses_seen:
        raise InvalidInput("A loss should come in at least one part. (got none)")
    average = torch.stack([loss.reshape(()) for loss in losses_seen]).mean()
    return Gathered(mean, ranks, squares, len(losses_seen), average)


def _terms(losses: Losses) -> Iterator[Term]:
    one = isinstance(losses, (Tensor, Term))
    for loss in [losses] if one else losses:  # type: ignore[list-item]
        yield loss if isinstance(loss, Term) else Term(loss)  # type: ignore[arg-type]


def _backward(
    loss: Tensor, params: Sequence[Tensor], *, retain_graph: bool
) -> list[Tensor | None]:
    _check_loss(loss)
    for p in params:
        p.grad = None
    loss.backward(inputs=list(params), retain_graph=retain_graph)  # type: ignore[no-untyped-call]
    gradients = [p.grad for p in params]
    for p in params:
        p.grad = None
    return gradients


def _merge(
    mean: list[Tensor | None],
    new: Sequence[Tensor | None],
    parts: int,
    squares: list[Tensor] | None,
) -> None:
    """Welford's update of running means and of the sums of squared deviations, in place."""
    for k, gradient in enumerate(new):
        if gradient is None and mean[k] is None:
            continue
        if parts == 1:
            mean[k] = gradient
            continue
        before = mean[k]
        if before is None:
            assert gradient is not None
            before = torch.zeros_like(gradient)
        delta = -before if gradient is None else gradient - before
        after = before.add_(delta, alpha=1.0 / parts)
        mean[k] = after
        if squares is not None:
            # gradient - after = delta·(parts-1)/parts
            wide = delta.to(squares[k].dtype)
            squares[k].addcmul_(wide, wide, value=(parts - 1) / parts)


def _check_loss(loss: object) -> None:
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        shape = tuple(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
        raise InvalidInput(f"A loss should be a scalar tensor, reduced by its mean. (got {shape})")
    if not loss.requires_grad:
        raise InvalidInput("A loss should depend on the parameters; this one needs no gradient.")
