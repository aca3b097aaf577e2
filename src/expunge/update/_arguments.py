"""The arguments of ``Update.combine``, checked and put into lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from expunge._errors import InvalidInput
from expunge.update._aggregate import Aggregate
from expunge.update._gradients import LossGradient
from expunge.update._shards import is_sharded


class CombineArguments(NamedTuple):
    """Gradients given as lists or dicts, in the form that losses would have brought them in."""

    names: list[str] | None
    """The keys, where they were dicts."""
    like: list[Tensor]
    """Tensors shaped and laid out as the parameters must be."""
    first: LossGradient
    second: LossGradient | None


def check_combine_arguments(
    objective: Any, constraint: Any, saliency: Any, variances: Any, *, parts: int
) -> CombineArguments:
    """Check the arguments of ``Update.combine``, and copy what is written to later."""
    names = list(objective) if isinstance(objective, Mapping) else None
    g_u = _listed(objective, names)
    for g in g_u:
        if not g.dtype.is_floating_point:
            raise InvalidInput(f"Gradients should be real floating-point. (got {g.dtype})")
        if is_sharded(g):
            raise InvalidInput("`combine` takes whole tensors; with sharded ones, use `backward`.")
    ranks: list[Tensor | None] | None = None
    if saliency is not None:
        given = _listed(saliency, names)
        _check_alike("`saliency`", given, g_u)
        ranks = [*given]
    nothing = torch.zeros(())
    if constraint is None:
        first = LossGradient([g.clone() for g in g_u], ranks, None, 1, nothing)
        return CombineArguments(names, g_u, first, None)
    g_c = _listed(constraint, names)
    _check_alike("`constraint`", g_c, g_u, dtype=True)
    squares_u, squares_c = (_squared_deviations(v, names, g_u) for v in variances or (None, None))
    first = LossGradient([*g_u], ranks, squares_u, parts, nothing)
    # The step is written over the constraint's gradient.
    second = LossGradient([g.clone() for g in g_c], None, squares_c, parts, nothing)
    return CombineArguments(names, g_u, first, second)


def _squared_deviations(
    variances: Any, names: list[str] | None, gradients: list[Tensor]
) -> list[Tensor] | None:
    """Those of two micro-batches with these variances, whose scale 1/(K(K-1)) is a half."""
    if variances is None:
        return None
    tensors = _listed(variances, names)
    _check_alike("`variances`", tensors, gradients)
    if any(bool((v < 0).any()) for v in tensors):
        raise InvalidInput("`variances` should not be negative.")
    return [2.0 * v for v in tensors]


def _listed(bundle: Any, names: list[str] | None) -> list[Tensor]:
    """A list or a dict of tensors as a list; a dict's in the order of ``names``."""
    listed = isinstance(bundle, Sequence) and not isinstance(bundle, str)
    tensors = bundle.values() if isinstance(bundle, Mapping) else bundle if listed else [None]
    if isinstance(bundle, Mapping) == (names is None) or not all(
        isinstance(tensor, Tensor) for tensor in tensors
    ):
        raise InvalidInput("Either all arguments should be lists of tensors, or all dicts.")
    if names is None:
        return list(bundle)
    if set(bundle) != set(names):
        different = sorted(set(bundle) ^ set(names))
        raise InvalidInput(
            f"All dicts of tensors should have the same names. (differ in {different})"
        )
    return [bundle[name] for name in names]


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
