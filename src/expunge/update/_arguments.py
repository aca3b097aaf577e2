"""The arguments of ``Update.combine``, checked."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from expunge._errors import InvalidInput
from expunge.update._aggregate import Aggregate
from expunge.update._gradients import LossGradient
from expunge.update._shards import is_sharded


def check_combine_arguments(
    objective: Sequence[Tensor],
    constraint: Sequence[Tensor] | None,
    saliency: Sequence[Tensor] | None,
    variances: tuple[Sequence[Tensor], Sequence[Tensor]] | None,
    *,
    parts: int,
) -> tuple[LossGradient, LossGradient | None]:
    """The arguments of ``Update.combine`` as losses would have brought them; copies to write to."""
    for g in objective:
        if not g.dtype.is_floating_point:
            raise InvalidInput(f"Gradients should be real floating-point. (got {g.dtype})")
        if is_sharded(g):
            raise InvalidInput("`combine` takes whole tensors; with sharded ones, use `backward`.")
    if saliency is not None:
        _check_alike("`saliency`", saliency, objective)
    ranks: list[Tensor | None] | None = None if saliency is None else [*saliency]
    nothing = torch.zeros(())
    if constraint is None:
        return LossGradient([g.clone() for g in objective], ranks, None, 1, nothing), None
    _check_alike("`constraint`", constraint, objective, dtype=True)
    squares: list[list[Tensor] | None] = [None, None]
    if variances is not None:
        squares = [_squared_deviations(each, objective) for each in variances]
    first = LossGradient([*objective], ranks, squares[0], parts, nothing)
    # The step is written over the constraint's gradient.
    return first, LossGradient([g.clone() for g in constraint], None, squares[1], parts, nothing)


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


def check_constraint_loss(aggregate: Aggregate, loss: float | Tensor | None) -> Tensor:
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
