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
    mean = _Mean(params, spread=spread)
    ranks = _Mean(params, spread=False)
    seen: list[Tensor] = []
    for loss, saliency in _terms(losses):
        if salient and saliency is not None:
            ranks.add(_backward(saliency, params, retain_graph=True))
        mean.add(_backward(loss, params, retain_graph=retain_graph))
        seen.append(loss.detach().reshape(()))
    if not seen:
        raise InvalidInput("A loss should come in at least one part. (got none)")
    if ranks.parts not in (0, len(seen)):
        raise InvalidInput(
            "Every micro-batch should bring a saliency loss, or none. "
            f"(got {ranks.parts} for {len(seen)} micro-batches)"
        )
    salience = ranks.gradients if ranks.parts else None
    return Gathered(mean.gradients, salience, mean.squares, len(seen), torch.stack(seen).mean())


def _terms(losses: Losses) -> Iterator[Term]:
    if isinstance(losses, (Tensor, Term)) or not isinstance(losses, Iterable):
        losses = [losses]
    for loss in losses:
        yield loss if isinstance(loss, Term) else Term(loss)


def _backward(loss: Tensor, params: Sequence[Tensor], *, retain_graph: bool) -> list[Tensor | None]:
    _check_loss(loss)
    for p in params:
        p.grad = None
    loss.backward(inputs=list(params), retain_graph=retain_graph)  # type: ignore[no-untyped-call]
    gradients = [p.grad for p in params]
    for p in params:
        p.grad = None
    return [
        g.to_dense() if g is not None and g.layout is not torch.strided else g for g in gradients
    ]


class _Mean:
    """Welford's running mean of gradients and, if asked, sum of their squared deviations."""

    def __init__(self, params: Sequence[Tensor], *, spread: bool) -> None:
        self.parts = 0
        self.squares: list[Tensor] | None = None
        if spread:
            self.squares = [torch.zeros_like(p, dtype=moment_dtype(p.dtype)) for p in params]
        self._means: list[Tensor | None] = [None] * len(params)
        self._dtypes = [p.dtype for p in params]

    @property
    def gradients(self) -> list[Tensor | None]:
        """The mean so far, in the types of the parameters; None where no part had a gradient."""
        pairs = zip(self._means, self._dtypes, strict=True)
        return [None if mean is None else mean.to(dtype) for mean, dtype in pairs]

    @torch.no_grad()
    def add(self, gradients: Sequence[Tensor | None]) -> None:
        """Take in the gradients of one more part; None counts as zero."""
        self.parts += 1
        if self.parts == 1:
            self._means = list(gradients)
            return
        for k, gradient in enumerate(gradients):
            if gradient is not None or self._means[k] is not None:
                self._add(k, gradient)

    def _add(self, k: int, gradient: Tensor | None) -> None:
        wide = moment_dtype(self._dtypes[k])
        before = self._means[k]
        if before is None:
            assert gradient is not None
            before = torch.zeros_like(gradient)
        before = before.to(wide)
        delta = -before if gradient is None else gradient.to(wide) - before
        self._means[k] = before.add_(delta, alpha=1.0 / self.parts)
        if self.squares is not None:
            # gradient - new mean = delta·(parts-1)/parts
            self.squares[k].addcmul_(delta, delta, value=(self.parts - 1) / self.parts)


def _check_loss(loss: object) -> None:
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        shape = tuple(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
        raise InvalidInput(f"A loss should be a scalar tensor, reduced by its mean. (got {shape})")
    if not loss.requires_grad:
        raise InvalidInput("A loss should depend on the parameters; this one needs no gradient.")
