"""What callers hand to an update, checked and put into lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from expunge._errors import InvalidInput
from expunge.update._gradients import Gathered


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


class Bundles(NamedTuple):
    """Gradients given as lists or dicts, in the form that losses would have brought them in."""

    names: list[str] | None
    """The keys, where they were dicts."""
    like: list[Tensor]
    """Tensors shaped and laid out as the parameters must be."""
    first: Gathered
    second: Gathered | None


def bundled(
    objective: Any, constraint: Any, saliency: Any, variances: Any, *, parts: int
) -> Bundles:
    """Check the arguments of ``Update.combine``; what is written to later is copied."""
    names = list(objective) if isinstance(objective, Mapping) else None
    g_u = _listed(objective, names)
    _check_real(g_u)
    ranks: list[Tensor | None] | None = None
    if saliency is not None:
        given = _listed(saliency, names)
        _check_alike("`saliency`", given, g_u)
        ranks = [*given]
    nothing = torch.zeros(())
    if constraint is None:
        first = Gathered([g.clone() for g in g_u], ranks, None, 1, nothing)
        return Bundles(names, g_u, first, None)
    g_c = _listed(constraint, names)
    _check_alike("`constraint`", g_c, g_u, dtype=True)
    spread_u, spread_c = (_doubled(v, names, g_u) for v in variances or (None, None))
    first = Gathered([*g_u], ranks, spread_u, parts, nothing)
    # The step is written over the constraint's gradient.
    second = Gathered([g.clone() for g in g_c], None, spread_c, parts, nothing)
    return Bundles(names, g_u, first, second)


def _doubled(
    variances: Any, names: list[str] | None, gradients: list[Tensor]
) -> list[Tensor] | None:
    """The spread of two parts with these variances, whose scale 1/(K(K-1)) is a half."""
    if variances is None:
        return None
    tensors = _listed(variances, names)
    _check_alike("`variances`", tensors, gradients)
    return [2.0 * v for v in tensors]


def _listed(bundle: Any, names: list[str] | None) -> list[Tensor]:
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


def _check_alike(
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


def _check_real(gradients: Sequence[Tensor]) -> None:
    """Gradients are real floating-point tensors."""
    for g in gradients:
        if not g.dtype.is_floating_point:
            raise InvalidInput(f"Gradients should be real floating-point. (got {g.dtype})")
