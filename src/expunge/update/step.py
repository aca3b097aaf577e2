"""One step of Algorithm 1 over all parameters, between the two gradients and the optimizer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from expunge.update.addons import NoAddon
from expunge.update.aggregate import Alone
from expunge.update.diagnostics import Tally
from expunge.update.gradients import Gathered
from expunge.update.kernel import SUMS, Block, Recipe
from expunge.update.layout import flat, flatten, laid_out
from expunge.update.state import State
from expunge.update.sweep import Sweep


class Step(NamedTuple):
    """What a step came to, for the parameters that some loss reached."""

    used: list[int]
    """Which parameters these are."""
    steps: list[Tensor]
    """-Δ, or under ``strict`` the aggregation alone."""
    weights: list[Tensor]
    """Under ``strict``, the weights of the add-on."""
    record: Tensor | None
    """Raw diagnostics."""


@torch.no_grad()
def take_step(
    recipe: Recipe,
    state: State,
    params: Sequence[Tensor],
    first: Gathered,
    second: Gathered | None,
    *,
    compile: bool,
) -> Step:
    """Turn both gradients into a step, in their own memory, and advance ``state``."""
    if second is None:
        if not recipe.addon.ranks and not recipe.strict:
            return _pass_on(first, diagnose=recipe.diagnose)
        addon = recipe.addon if recipe.addon.ranks else NoAddon()
        recipe = Recipe(addon, Alone(), recipe.strict, recipe.diagnose)
    coefficients = _advance_state(recipe, state, params, first, second)
    pairs = zip(first.gradients, second.gradients if second else first.gradients, strict=True)
    used = [k for k, (u, c) in enumerate(pairs) if u is not None or c is not None]
    g_u = [_dense(first.gradients[k], params[k]) for k in used]
    if second is None:
        g_c = [u.clone() for u in g_u]
    else:
        g_c = [_dense(second.gradients[k], params[k]) for k in used]
    whole = None
    if not recipe.aggregate.elementwise:
        whole = recipe.aggregate.combine(flatten(g_u), flatten(g_c)) if used else None
        # The kernel no longer aggregates, so neither should its compilation depend on how.
        recipe = Recipe(recipe.addon, Alone(), recipe.strict, recipe.diagnose)
    sweep = Sweep(recipe, state, coefficients, compile)
    sweep.run(_blocks(recipe, state, params, used, g_u, g_c, whole, first.salience))
    record = sweep.tally.record() if recipe.diagnose else None
    return Step(used, g_c, g_u if recipe.strict else [], record)


def _pass_on(first: Gathered, *, diagnose: bool) -> Step:
    """No constraint and nothing to rank by: the gradient itself, and its length."""
    used = [k for k, g in enumerate(first.gradients) if g is not None]
    gradients = [g for g in first.gradients if g is not None]
    tally = Tally()
    for g in gradients if diagnose else []:
        if g.numel():
            dtype = torch.promote_types(g.dtype, torch.float32)
            square = torch.linalg.vector_norm(g, dtype=dtype).square()
            values = dict.fromkeys(SUMS, torch.zeros_like(square))
            values |= dict.fromkeys(("dot_u", "square_u", "square"), square)
            values["moved"] = torch.full_like(square, g.numel())
            peak = torch.linalg.vector_norm(g, torch.inf, dtype=dtype)
            tally.add((*values.values(), peak), g.numel())
    return Step(used, gradients, [], tally.record() if diagnose else None)


def _advance_state(
    recipe: Recipe,
    state: State,
    params: Sequence[Tensor],
    first: Gathered,
    second: Gathered | None,
) -> tuple[float, float, float, float]:
    """Count the step; the coefficients of its moments: keep, add, and a scale for each loss."""
    moments = recipe.addon.statistics
    if second is None:
        return 0.0, 0.0, 0.0, 0.0
    if moments is None:
        state.step += 1
        return 0.0, 0.0, 0.0, 0.0
    keep, add, scale_u = moments.coefficients(state.step + 1, first.parts)
    scale_c = moments.coefficients(state.step + 1, second.parts).scale
    state.prepare(params)
    state.step += 1
    if first.spread is not None and second.spread is not None:
        torch._foreach_copy_(state.moments_u, first.spread)
        torch._foreach_copy_(state.moments_c, second.spread)
    return keep, add, scale_u, scale_c


def _blocks(
    recipe: Recipe,
    state: State,
    params: Sequence[Tensor],
    used: list[int],
    g_u: list[Tensor],
    g_c: list[Tensor],
    whole: Tensor | None,
    salience: list[Tensor | None] | None,
) -> Iterator[Block]:
    """Each used parameter that is not empty, flat, with all that the kernel reads about it."""
    offset = 0
    for k, u, c in zip(used, g_u, g_c, strict=True):
        count = u.numel()
        if count == 0:
            continue
        block = Block(flat(u), flat(c))
        if recipe.addon.statistics is not None:
            block = block._replace(
                moment_u=flat(state.moments_u[k]), moment_c=flat(state.moments_c[k])
            )
        if whole is not None:
            block = block._replace(aggregated=whole[offset : offset + count].to(u.device))
        if recipe.addon.ranks:
            ranking = u if salience is None else _dense(salience[k], params[k])
            if ranking is u and recipe.strict:
                ranking = u.clone()  # the weight is written over the objective's gradient
            values = flat(ranking)
            block = block._replace(salience=values, threshold=values.abs().median())
        offset += count
        yield block


def _dense(gradient: Tensor | None, parameter: Tensor) -> Tensor:
    """The gradient laid out like its parameter; zeros where there is none."""
    if gradient is None:
        return torch.zeros_like(parameter, requires_grad=False)
    return laid_out(gradient.detach(), parameter)
