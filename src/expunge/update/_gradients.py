"""Gradients of losses, micro-batch by micro-batch, in the memory layout of the parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from expunge._errors import InvalidInput
from expunge.update._flat_views import moment_dtype
from expunge.update._shards import check_not_gathered, is_sharded, local_gradient, local_part


class Term(NamedTuple):
    """A loss, and the loss whose gradient ranks the parameters, from the same forward pass."""

    loss: Tensor
    saliency: Tensor | None = None
    """The plain loss on forget data; None where the gradient of ``loss`` ranks the same way."""
    weight: float = 1.0
    """The weight of ``loss`` among the micro-batches of a step: its share of the batch, times their
    number, where they differ in size."""
    saliency_weight: float | None = None
    """The same for ``saliency``, where it is a mean over another batch than ``loss``."""


Losses = Tensor | Term | Iterable[Tensor | Term]
"""A scalar loss, or one per micro-batch; a generator makes them lazily."""


class LossGradient(NamedTuple):
    """The gradient of a loss over the micro-batches of a step."""

    gradients: list[Tensor | None]
    salience: list[Tensor | None] | None
    """The gradients of the saliency losses, where they were requested and given."""
    squares: list[Tensor] | None
    """Σₖ (ĝₖ - ĝ)² over the micro-batches, where it was requested."""
    parts: int
    loss: Tensor
    """Mean loss over the micro-batches, detached."""
    weight: float = 1.0
    """Mean weight of the micro-batches."""


def loss_gradient(
    losses: Losses,
    params: Sequence[Tensor],
    *,
    squares: bool = False,
    salient: bool = False,
    retain_graph: bool = False,
    scale: float = 1.0,
) -> LossGradient:
    """The gradient of the mean of ``losses`` with respect to each of ``params``.

    Goes through ``backward`` rather than ``torch.autograd.grad``, so that hooks on parameters fire
    and each gradient owns its memory in its parameter's layout. ``p.grad`` is left at None. Of a
    parameter sharded over processes, only the gradient of the part that is here.

    Each loss is multiplied by ``scale`` before its backward pass, for float16; the gradients stay
    scaled.
    """
    parts = [local_part(p) for p in params]
    mean = _RunningMean(parts, squares=squares)
    ranks = _RunningMean(parts, squares=False)
    seen: list[Tensor] = []
    weights: list[float] = []
    for term in _terms(losses):
        loss, saliency = (_full_value(t) for t in term[:2])
        if salient and saliency is not None:
            weight = term.weight if term.saliency_weight is None else term.saliency_weight
            ranks.add(_backward(saliency, params, retain_graph=True, scale=scale), weight)
        mean.add(_backward(loss, params, retain_graph=retain_graph, scale=scale), term.weight)
        seen.append(loss.detach().reshape(()))
        weights.append(term.weight)
    if not seen:
        raise InvalidInput("A loss should come in at least one part. (got none)")
    if ranks.parts not in (0, len(seen)):
        raise InvalidInput(
            "Every micro-batch should bring a saliency loss, or none. "
            f"(got {ranks.parts} for {len(seen)} micro-batches)"
        )
    salience = ranks.gradients if ranks.parts else None
    loss, weight = _average(seen, weights), sum(weights) / len(weights)
    return LossGradient(mean.gradients, salience, mean.squares, len(seen), loss, weight)


def add_gradients(
    losses: Sequence[Tensor],
    weights: Sequence[float],
    params: Sequence[Tensor],
    *,
    retain_graph: bool,
) -> None:
    """Fill ``p.grad`` with the gradient of Σ weight·loss, added up by the backward passes."""
    for p in params:
        p.grad = None
    for k, (loss, weight) in enumerate(zip(losses, weights, strict=True)):
        _check_loss(loss)
        before = [(p.grad, -1 if p.grad is None else p.grad._version) for p in params]
        _differentiate(weight * loss, list(params), retain_graph=retain_graph and k == 0)
        reached = [
            p.grad is not None and (p.grad is not grad or p.grad._version != version)
            for p, (grad, version) in zip(params, before, strict=True)
        ]
        if not all(reached):
            _check_recomputation(loss)
        if not any(reached):
            for p in params:
                p.grad = None
            raise _unreached(params)
    for p in params:
        if p.grad is not None and p.grad.layout is not torch.strided:
            p.grad = p.grad.to_dense()


def _unreached(params: Sequence[Tensor]) -> InvalidInput:
    return InvalidInput(
        "A loss should depend on `params`. (none of these "
        f"{len(params)} parameters gets a gradient from it) Compute it with the model whose "
        "parameters you pass; a copy or a wrapped model has others."
    )


def _average(losses: list[Tensor], weights: list[float]) -> Tensor:
    stacked = torch.stack(losses)
    if all(weight == 1.0 for weight in weights):
        return stacked.mean()
    return (stacked * stacked.new_tensor(weights)).sum() / sum(weights)


def _full_value(loss: Any) -> Any:
    """The whole value of a loss that is made of sharded parameters themselves."""
    return loss.full_tensor() if is_sharded(loss) else loss


def _terms(losses: Losses) -> Iterator[Term]:
    if isinstance(losses, (Tensor, Term)) or not isinstance(losses, Iterable):
        losses = [losses]
    for loss in losses:
        yield loss if isinstance(loss, Term) else Term(loss)


def _backward(
    loss: Tensor, params: Sequence[Tensor], *, retain_graph: bool, scale: float
) -> list[Tensor | None]:
    _check_loss(loss)
    if scale != 1.0:
        loss = loss * scale
    for p in params:
        p.grad = None
    # The graph of a sharded model hangs on its gathered parameters: its hooks fill `p.grad`.
    inputs = None if any(map(is_sharded, params)) else list(params)
    _differentiate(loss, inputs, retain_graph=retain_graph)
    check_not_gathered(params)
    gradients = [None if p.grad is None else local_gradient(p.grad, p) for p in params]
    for p in params:
        p.grad = None
    if inputs is not None and any(g is None for g in gradients):
        _check_recomputation(loss)
    if all(g is None for g in gradients):
        raise _unreached(params)
    return [
        g.to_dense() if g is not None and g.layout is not torch.strided else g for g in gradients
    ]


def _differentiate(loss: Tensor, inputs: list[Tensor] | None, *, retain_graph: bool) -> None:
    try:
        loss.backward(inputs=inputs, retain_graph=retain_graph)  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        if "backward through the graph a second time" not in str(error):
            raise
        raise InvalidInput(
            "A loss should have a graph that is not used up. Where objective and constraint share "
            "a part of their graphs, pass `retain_graph=True`; else compute the loss anew."
        ) from error


class _RunningMean:
    """Welford's running mean of gradients and, if requested, sum of their squared deviations.

    Both weighted, the mean by shares of the weights. With weights in proportion to the sizes of
    the micro-batches and 1 on average, the squares over K(K-1) estimate the variance of the mean
    without bias, as those of equal micro-batches do.
    """

    def __init__(self, params: Sequence[Tensor], *, squares: bool) -> None:
        self.parts = 0
        self._total = 0.0
        self.squares: list[Tensor] | None = None
        if squares:
            self.squares = [torch.zeros_like(p, dtype=moment_dtype(p.dtype)) for p in params]
        self._means: list[Tensor | None] = [None] * len(params)
        self._dtypes = [p.dtype for p in params]

    @property
    def gradients(self) -> list[Tensor | None]:
        """The mean so far, in the parameters' types; None where no micro-batch had a gradient."""
        pairs = zip(self._means, self._dtypes, strict=True)
        return [None if mean is None else mean.to(dtype) for mean, dtype in pairs]

    @torch.no_grad()
    def add(self, gradients: Sequence[Tensor | None], weight: float = 1.0) -> None:
        """Add the gradients of one more micro-batch; None counts as zero."""
        self.parts += 1
        self._total += weight
        if self.parts == 1:
            self._means = list(gradients)
            return
        for k, gradient in enumerate(gradients):
            if gradient is not None or self._means[k] is not None:
                self._add(k, gradient, weight)

    def _add(self, k: int, gradient: Tensor | None, weight: float) -> None:
        wide = moment_dtype(self._dtypes[k])
        before = self._means[k]
        if before is None:
            assert gradient is not None
            before = torch.zeros_like(gradient)
        before = before.to(wide)
        delta = -before if gradient is None else gradient.to(wide) - before
        self._means[k] = before.add_(delta, alpha=weight / self._total)
        if self.squares is not None:
            # gradient - new mean = delta·(total-weight)/total
            earlier = self._total - weight
            self.squares[k].addcmul_(delta, delta, value=weight * earlier / self._total)


def _check_recomputation(loss: Tensor) -> None:
    """Refuse a graph whose reentrant checkpoints hid their parameters from this backward pass."""
    seen: set[Any] = set()
    waiting = [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if node.name().startswith("CheckpointFunctionBackward"):
            raise InvalidInput(
                "Activations should be recomputed without reentering the graph, else their "
                "parameters get no gradient here: pass `use_reentrant=False` to "
                "`torch.utils.checkpoint`. (got a reentrant checkpoint)"
            )
        waiting.extend(following for following, _ in node.next_functions)


def check_scalar(loss: object) -> None:
    """Raise unless ``loss`` is a tensor of one real number."""
    if not isinstance(loss, Tensor) or loss.numel() != 1 or loss.is_complex():
        shape = tuple(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
        raise InvalidInput(f"A loss should be a scalar tensor, reduced by its mean. (got {shape})")


def _check_loss(loss: Any) -> None:
    check_scalar(loss)
    if not loss.requires_grad:
        raise InvalidInput(
            "A loss should depend on the parameters; this one needs no gradient. If the model is "
            "frozen below adapters and recomputes its activations, call "
            "`model.enable_input_require_grads()`, or recompute with `use_reentrant=False`."
        )
