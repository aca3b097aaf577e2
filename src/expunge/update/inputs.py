"""What callers hand to an update, checked and put into lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch import Tensor

from expunge.errors import InvalidInput


def movable(params: Iterable[Tensor]) -> list[Tensor]:
    """The parameters that require a gradient, each once, in order."""
    if isinstance(params, (Tensor, Mapping)):
        raise InvalidInput("`params` should be an iterable of parameters, as model.parameters().")
    unique = {id(p): p for p in params if p.requires_grad}
    if not unique:
        raise InvalidInput("`params` should hold at least one parameter that requires a gradient.")
    for p in unique.values():
        if not p.dtype.is_floating_point:
            raise InvalidInput(f"Parameters should be real floating-point. (got {p.dtype})")
    return list(unique.values())


def listed(bundle: Any, names: list[str] | None) -> list[Tensor]:
    """A list or a dict of tensors as a list; a dict's in the order of ``names``."""
    if names is None:
        if isinstance(bundle, Mapping):
            raise InvalidInput("Either all arguments should be lists of tensors, or all dicts.")
        return list(bundle)
    if not isinstance(bundle, Mapping):
        raise InvalidInput("Either all arguments should be lists of tensors, or all dicts.")
    if set(bundle) != set(names):
        odd = sorted(set(bundle) ^ set(names))
        raise InvalidInput(f"All dicts of tensors should have the same names. (differ in {odd})")
    return [bundle[name] for name in names]


def check_alike(
    what: str, tensors: Sequence[Tensor], gradients: Sequence[Tensor], *, dtype: bool = False
) -> None:
    """``tensors`` pair up with the objective's ``gradients``, in number, shape, place, type."""
    shapes, wanted = [tuple(t.shape) for t in tensors], [tuple(g.shape) for g in gradients]
    if shapes != wanted:
        raise InvalidInput(
            f"{what} should have as many tensors as the objective's gradients, of the same "
            f"shapes. (got {shapes} and {wanted})"
        )
    for t, g in zip(tensors, gradients, strict=True):
        if t.device != g.device or (dtype and t.dtype != g.dtype):
            raise InvalidInput(
                f"{what} should be of the type and on the device of the objective's gradients. "
                f"(got {t.dtype} on {t.device} and {g.dtype} on {g.device})"
            )


def check_real(gradients: Sequence[Tensor]) -> None:
    """Gradients are real floating-point tensors."""
    for g in gradients:
        if not g.dtype.is_floating_point:
            raise InvalidInput(f"Gradients should be real floating-point. (got {g.dtype})")
