"""One step of Algorithm 1 over all parameters, between the two gradients and the optimizer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from expunge.update._addons import Addon, NoAddon
from expunge.update._aggregate import Alone
from expunge.update._block_loop import Sweep
from expunge.update._diagnostics import Tally, joined
from expunge.update._gradients import Gathered
from expunge.update._kernel import SUMS, Block, Recipe
from expunge.update._layout import flat, flatten, laid_out
from expunge.update._median import absolute_medians
from expunge.update._noise_floor import balance_of, largest_entry, noise_level
from expunge.update._rounding import salt_of
from expunge.update._shards import Family, Shards, divided
from expunge.update._state import State


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
    shards: Shards | None = None,
) -> Step:
    """Turn both gradients into a step, in their own memory, and advance ``state``.

    Where parameters are sharded over processes, ``params`` and the gradients are the parts that
    are here.
    """
    if second is None:
        if not recipe.addon.ranks and not recipe.strict:
            return _pass_on(first, shards, diagnose=recipe.diagnose)
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
    families = divided(shards, used)
    salience = first.salience
    ranked = g_u if salience is None else [salience[k] for k in used]
    scales = _scales(recipe.addon, families, g_u, g_c, ranked)
    records: list[Tensor] = []
    for family, members in families:
        sweep = Sweep(recipe, state, coefficients, compile, family.stream)
        chosen = [(used[j], g_u[j], g_c[j]) for j in members]
        sweep.run(_blocks(recipe, state, params, chosen, whole, salience, family, scales))
        if recipe.diagnose:
            records.append(_over_processes(sweep.tally, family))
    record = joined(records) if recipe.diagnose else None
    return Step(used, g_c, g_u if recipe.strict else [], record)


def _pass_on(first: Gathered, shards: Shards | None, *, diagnose: bool) -> Step:
    """No constraint and nothing to rank by: the gradient itself, and its length."""
    used = [k for k, g in enumerate(first.gradients) if g is not None]
    gradients = [g for g in first.gradients if g is not None]
    if not diagnose:
        return Step(used, gradients, [], None)
    records = [
        _over_processes(_lengths([gradients[j] for j in members]), family)
        for family, members in divided(shards, used)
    ]
    return Step(used, gradients, [], joined(records))


def _lengths(gradients: Sequence[Tensor]) -> Tally:
    tally = Tally()
    for g in gradients:
        if g.numel():
            dtype = torch.promote_types(g.dtype, torch.float32)
            square = torch.linalg.vector_norm(g, dtype=dtype).square()
            values = dict.fromkeys(SUMS, torch.zeros_like(square))
            values |= dict.fromkeys(("dot_u", "square_u", "square"), square)
            values["moved"] = torch.full_like(square, g.numel())
            peak = torch.linalg.vector_norm(g, torch.inf, dtype=dtype)
            tally.add((*values.values(), peak), g.numel())
    return tally


def _over_processes(tally: Tally, family: Family) -> Tensor:
    """The record of a family over all processes that hold a part of it."""
    record = tally.record()
    return joined([*family.gathered(record)]) if family.groups else record


def _advance_state(
    recipe: Recipe,
    state: State,
    params: Sequence[Tensor],
    first: Gathered,
    second: Gathered | None,
) -> tuple[float, ...]:
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
    coefficients = (keep, add, scale_u, scale_c)
    return (*coefficients, salt_of(state.step)) if state.narrow else coefficients


def _blocks(
    recipe: Recipe,
    state: State,
    params: Sequence[Tensor],
    chosen: Sequence[tuple[int, Tensor, Tensor]],
    whole: Tensor | None,
    salience: list[Tensor | None] | None,
    family: Family,
    scales: Scales,
) -> Iterator[Block]:
    """Each chosen parameter that is not empty, flat, with all that the kernel reads about it."""
    rankings: list[Tensor] = []
    thresholds: list[Tensor] = []
    if recipe.addon.ranks and family.groups:
        # All medians together, before the first block: each exchange serves every tensor.
        rankings = [_ranking(recipe, u, salience, params, k) for k, u, _ in chosen]
        thresholds = absolute_medians([flat(r) for r in rankings], family.total)
    offset = 0
    for j, (k, u, c) in enumerate(chosen):
        count = u.numel()
        if count == 0:
            continue
        block = Block(flat(u), flat(c))
        if scales.balance is not None:
            block = block._replace(balance=scales.balance.to(u.device))
        if recipe.addon.statistics is not None:
            block = block._replace(
                moment_u=flat(state.moments_u[k]), moment_c=flat(state.moments_c[k])
            )
        if whole is not None:
            block = block._replace(aggregated=whole[offset : offset + count].to(u.device))
        if recipe.addon.ranks:
            values = flat(rankings[j] if rankings else _ranking(recipe, u, salience, params, k))
            threshold = thresholds[j] if thresholds else values.abs().median()
            if scales.floor is not None:
                threshold = threshold.masked_fill(threshold <= scales.floor.to(u.device), 0.0)
            block = block._replace(salience=values, threshold=threshold)
        offset += count
        yield block


class Scales(NamedTuple):
    """How large the gradients are over all parameters, where an add-on tells it from rounding."""

    balance: Tensor | None = None
    """‖ĝ_C‖∞/‖ĝ_U‖∞, for add-ons that compare signs."""
    floor: Tensor | None = None
    """The level of rounding of the gradient that ranks, for add-ons that rank."""


def _scales(
    addon: Addon,
    families: Sequence[tuple[Family, list[int]]],
    g_u: Sequence[Tensor],
    g_c: Sequence[Tensor],
    ranked: Sequence[Tensor | None],
) -> Scales:
    """One pass over the gradients, for the add-ons that need it."""
    balance = floor = None
    if addon.compares_signs:
        balance = balance_of(*_largest(families, g_u, g_c))
    if addon.ranks:
        [largest] = _largest(families, ranked)
        floor = noise_level(largest.dtype) * largest
    return Scales(balance, floor)


def _largest(
    families: Sequence[tuple[Family, list[int]]], *gradients: Sequence[Tensor | None]
) -> Tensor:
    """The largest entry of each of several gradients, over all parameters and processes."""
    everything = [g for side in gradients for g in side if g is not None]
    dtype = torch.float32
    for gradient in everything:
        dtype = torch.promote_types(dtype, gradient.dtype)
    device = everything[0].device if everything else None
    largest = torch.zeros(len(gradients), dtype=dtype, device=device)
    for family, members in families:
        sides = [[side[j] for j in members] for side in gradients]
        row = torch.stack([largest_entry(side, largest[0]) for side in sides])
        if family.groups:
            row = family.gathered(row).amax(dim=0).to(largest.device)
        largest = torch.maximum(largest, row)
    return largest


def _ranking(
    recipe: Recipe,
    objective: Tensor,
    salience: list[Tensor | None] | None,
    params: Sequence[Tensor],
    k: int,
) -> Tensor:
    """The gradient that ranks the elements of parameter ``k``."""
    if salience is not None:
        return _dense(salience[k], params[k])
    # Under `strict` the weight is written over the objective's gradient.
    return objective.clone() if recipe.strict else objective


def _dense(gradient: Tensor | None, parameter: Tensor) -> Tensor:
    """The gradient laid out like its parameter; zeros where there is none."""
    if gradient is None:
        return torch.zeros_like(parameter, requires_grad=False)
    return laid_out(gradient.detach(), parameter)
