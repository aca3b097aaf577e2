"""Gradients of losses, micro-batch by micro-batch, in the memory layout of the parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from expunge._errors import InvalidInput
from expunge._kinds import shown
from expunge.update._shards import check_not_gathered, is_sharded, local_gradient, local_shard
from expunge.update._state import moment_dtype


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
"""A scalar loss, or one per micro-batch; a generator makes each when its turn comes."""


class LossGradient(NamedTuple):
    """The gradient of a loss over the micro-batches of a step."""

    gradients: list[Tensor | None]
    saliency_gradient: list[Tensor | None] | None
    """The gradients of the saliency losses, where they were requested and given."""
    squares: list[Tensor] | None
    """Σₖ (ĝₖ - ĝ)² over the micro-batches, where it was requested."""
    micro_batches: int
    loss: Tensor
    """Mean loss over the micro-batches, detached."""
    weight: float = 1.0
    """Mean weight of the micro-batches."""


def trainable(params: Iterable[Tensor]) -> list[Tensor]:
    """The parameters that require a gradient, in order; each should be given once."""
    if isinstance(params, Tensor | Mapping | str) or not isinstance(params, Iterable):
        raise InvalidInput(
            "`params` should be an iterable of parameters, as model.parameters(). "
            f"(got {shown(params)})"
        )
    moving = []
    for p in params:
        if not isinstance(p, Tensor):
            raise InvalidInput(f"`params` should hold tensors. (got {shown(p)})")
        if p.requires_grad:
            moving.append(p)
            if not p.dtype.is_floating_point:
                raise InvalidInput(f"Parameters should be real floating-point. (got {p.dtype})")
    different = len(set(map(id, moving)))
    if different != len(moving):
        raise InvalidInput(
            f"`params` should hold each parameter once. (got {len(moving)}, of which "
            f"{different} differ) Pass model.parameters(), which does."
        )
    if not moving:
        raise InvalidInput("`params` should hold at least one parameter that requires a gradient.")
    return moving


def loss_gradient(
    losses: Losses,
    params: Sequence[Tensor],
    *,
    squares: bool = False,
    with_saliency: bool = False,
    retain_graph: bool = False,
    sharded: bool = False,
) -> LossGradient:
    """The gradient of the mean of ``losses`` with respect to each of ``params``.

    Goes through ``backward`` rather than ``torch.autograd.grad``, so that hooks on parameters fire
    and each gradient owns its memory in its parameter's layout. ``p.grad`` is left at None. Of
    parameters that are ``sharded`` over processes, it is the gradient of the part that is here.
    """
    mean = _RunningMean(params, squares=squares)
    saliency_mean = _RunningMean(params, squares=False) if with_saliency else None
    seen: list[Tensor] = []
    weights: list[float] = []
    if isinstance(losses, (Tensor, Term)) or not isinstance(losses, Iterable):
        losses = (losses,)
    for given in losses:
        term = given if isinstance(given, Term) else Term(given)
        loss, saliency = term.loss, term.saliency
        if sharded:
            loss, saliency = _full_value(loss), _full_value(saliency)
        if saliency_mean is not None and saliency is not None:
            weight = term.weight if term.saliency_weight is None else term.saliency_weight
            saliency_mean.add(_backward(saliency, params, True, sharded), weight)
        mean.add(_backward(loss, params, retain_graph, sharded), term.weight)
        seen.append(loss.detach().reshape(()))
        weights.append(term.weight)
    if not seen:
        raise InvalidInput("A loss should come in at least one part. (got none)")
    count = 0 if saliency_mean is None else saliency_mean.count
    if count not in (0, len(seen)):
        raise InvalidInput(
            "Every micro-batch should bring a saliency loss, or none. "
            f"(got {count} for {len(seen)} micro-batches)"
        )
    saliency_gradient = saliency_mean.gradients if saliency_mean and count else None
    loss, weight = _average(seen, weights), sum(weights) / len(weights)
    return LossGradient(mean.gradients, saliency_gradient, mean.squares, len(seen), loss, weight)


def _full_value(loss: Any) -> Any:
    """The whole value of a loss that is made of sharded parameters themselves."""
    return loss.full_tensor() if is_sharded(loss) else loss


def _average(losses: list[Tensor], weights: list[float]) -> Tensor:
    stacked = torch.stack(losses)
    if set(weights) == {1.0}:
        return stacked.mean()
    return (stacked * stacked.new_tensor(weights)).sum() / sum(weights)


def _backward(
    loss: Tensor, params: Sequence[Tensor], retain_graph: bool, sharded: bool
) -> list[Tensor | None]:
    """The gradients of one loss; ``p.grad`` is None before and after."""
    check_scalar(loss)
    if not loss.requires_grad:
        raise InvalidInput(
            "A loss should depend on the parameters; this one needs no gradient. If the model is "
            "frozen below adapters and recomputes its activations, call "
            "`model.enable_input_require_grads()`, or recompute with `use_reentrant=False`."
        )
    for p in params:
        p.grad = None
    # The graph of a sharded model hangs on its gathered parameters: its hooks fill `p.grad`.
    _differentiate(loss, None if sharded else list(params), retain_graph=retain_graph)
    check_not_gathered(params)
    gradients: list[Tensor | None] = []
    missing = 0
    for p in params:
        gradient, p.grad = p.grad, None
        if gradient is None:
            missing += 1
        elif sharded:
            gradient = local_gradient(gradient, p)
        if gradient is not None and gradient.layout is not torch.strided:
            gradient = gradient.to_dense()
        gradients.append(gradient)
    if missing and not sharded:
        _check_recomputation(loss)
    if missing == len(gradients):
        raise InvalidInput(
            f"A loss should depend on `params`. (none of these {missing} parameters gets a "
            "gradient from it) Compute it with the model whose parameters you pass; a copy or a "
            "wrapped model has others."
        )
    return gradients


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
        self.count = 0
        self._total = 0.0
        self.squares: list[Tensor] | None = None
        if squares:
            shards = map(local_shard, params)
            self.squares = [torch.zeros_like(p, dtype=moment_dtype(p.dtype)) for p in shards]
        self._means: list[Tensor | None] = []
        self._params = params

    @property
    def gradients(self) -> list[Tensor | None]:
        """The mean so far, in the parameters' types; None where no micro-batch had a gradient."""
        if self.count == 1:
            return self._means
        pairs = zip(self._means, self._params, strict=True)
        return [None if mean is None else mean.to(p.dtype) for mean, p in pairs]

    @torch.no_grad()
    def add(self, gradients: list[Tensor | None], weight: float = 1.0) -> None:
        """Add the gradients of one more micro-batch; None counts as zero."""
        self.count += 1
        self._total += weight
        if self.count == 1:
            self._means = gradients
            return
        earlier = self._total - weight
        for k, gradient in enumerate(gradients):
            before = self._means[k]
            if before is None:
                if gradient is None:
                    continue
                before = torch.zeros_like(gradient)
            wide = moment_dtype(self._params[k].dtype)
            before = before.to(wide)
            delta = -before if gradient is None else gradient.to(wide) - before
            self._means[k] = before.add_(delta, alpha=weight / self._total)
            if self.squares is not None:
                # gradient - new mean = delta·(total-weight)/total
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


def given_gradients(
    objective: Sequence[Tensor],
    constraint: Sequence[Tensor] | None,
    saliency: Sequence[Tensor] | None,
    variances: tuple[Sequence[Tensor], Sequence[Tensor]] | None,
    count: int,
) -> tuple[LossGradient, LossGradient | None]:
    """Given gradients, checked, as from losses of ``count`` micro-batches; copies to write to."""
    for g in objective:
        if not g.dtype.is_floating_point:
            raise InvalidInput(f"Gradients should be real floating-point. (got {g.dtype})")
        if is_sharded(g):
            raise InvalidInput("`combine` takes whole tensors; with sharded ones, use `backward`.")
    if saliency is not None:
        _check_alike("`saliency`", saliency, objective)
    given_saliency: list[Tensor | None] | None = None if saliency is None else [*saliency]
    nothing = torch.zeros(())
    if constraint is None:
        return LossGradient([g.clone() for g in objective], given_saliency, None, 1, nothing), None
    _check_alike("`constraint`", constraint, objective, dtype=True)
    squares: list[list[Tensor] | None] = [None, None]
    if variances is not None:
        squares = [_squared_deviations(each, objective) for each in variances]
    first = LossGradient([*objective], given_saliency, squares[0], count, nothing)
    # The step is written over the constraint's gradient.
    return first, LossGradient([g.clone() for g in constraint], None, squares[1], count, nothing)


def _squared_deviations(variances: Sequence[Tensor], like: Sequence[Tensor]) -> list[Tensor]:
    """Those of two micro-batches with these variances, whose scale 1/(K(K-1)) is a half."""
    _check_alike("`variances`", variances, like)
    if any(bool((v < 0).any()) for v in variances):
        raise InvalidInput("`variances` should not be negative.")
    return [2.0 * v for v in variances]


def _check_alike(
    name: str, tensors: Sequence[Tensor], gradients: Sequence[Tensor], *, dtype: bool = False
) -> None:
    """Check that ``tensors`` match the objective's ``gradients`` in number, shape and device."""
    shapes, wanted = [tuple(t.shape) for t in tensors], [tuple(g.shape) for g in gradients]
    if shapes != wanted:
        raise InvalidInput(
            f"{name} should have as many tensors as the objective's gradients, of the same "
            f"shapes. (got {shapes} and {wanted})"
        )
    for t, g in zip(tensors, gradients, strict=True):
        if t.device != g.device or (dtype and t.dtype != g.dtype):
            raise InvalidInput(
                f"{name} should be of the type and on the device of the objective's gradients. "
                f"(got {t.dtype} on {t.device} and {g.dtype} on {g.device})"
            )


def check_constraint_loss(aggregate: object, loss: float | Tensor | None) -> Tensor:
    """The constraint's loss as a scalar, for an aggregation that reads it."""
    if loss is None:
        raise InvalidInput(
            f"The aggregation {aggregate!r} reads the constraint's loss: give `constraint_loss`, "
            "or use `backward`."
        )
    value = torch.as_tensor(loss).detach()
    if value.numel() != 1 or not bool(value.isfinite()):
        raise InvalidInput(f"`constraint_loss` should be a finite number. (got {loss})")
    return value.reshape(())
