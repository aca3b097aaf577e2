"""One step of Algorithm 1 over all parameters, between the two gradients and the optimizer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from expunge._errors import InvalidInput
from expunge.update._addons import Addon, NoAddon, Signals
from expunge.update._aggregate import Alone, WeightedSum
from expunge.update._block_loop import BlockLoop
from expunge.update._diagnostics import DiagnosticSums, merge_records
from expunge.update._gradients import LossGradient
from expunge.update._kernel import SUMS, Block, KernelSpec, signed_agreement
from expunge.update._noise_floor import balance_of, largest_entry, noise_level
from expunge.update._quantiles import Interpolation, absolute_quantile
from expunge.update._shards import WHOLE, ShardedParameters, ShardLayout
from expunge.update._state import State, flat, flatten, laid_out, moment_dtype
from expunge.update._stochastic_rounding import salt_of
from expunge.update._weighted import AdaptiveSum, Readings, read_products


class StepResult(NamedTuple):
    """The result of a step, for the parameters that some loss reached."""

    used: list[int]
    """The indices of these parameters."""
    steps: list[Tensor]
    """-Δ, or under ``strict`` the aggregation alone."""
    weights: list[Tensor]
    """Under ``strict``, the weights of the add-on."""
    record: Tensor | None
    """Raw diagnostics."""


@torch.no_grad()
def compute_step(
    spec: KernelSpec,
    state: State,
    params: Sequence[Tensor],
    first: LossGradient,
    second: LossGradient | None,
    *,
    compile: bool,
    shards: ShardedParameters | None = None,
) -> StepResult:
    """Turn both gradients into a step, in their own memory, and advance ``state``.

    Where parameters are sharded over processes, ``params`` and the gradients are the parts that
    are here.
    """
    # Without a constraint there is nothing to weigh against: only a ranking is left.
    if second is None:
        if not spec.addon.needs_saliency and not spec.strict:
            return _pass_on(first, shards, diagnostics=spec.diagnostics)
        addon = spec.addon if spec.addon.needs_saliency else NoAddon()
        spec = KernelSpec(addon, Alone(), spec.strict, spec.diagnostics)
    # Both gradients of the parameters that some loss reaches, laid out like them.
    coefficients = _advance_state(spec, state, params, first, second)
    used, g_u, g_c = [], [], []
    sides = first.gradients, second.gradients if second else first.gradients
    for k, (u, c) in enumerate(zip(*sides, strict=True)):
        if u is not None or c is not None:
            used.append(k)
            g_u.append(laid_out(u, params[k]))
            g_c.append(laid_out(c, params[k]) if second else g_u[-1].clone())
    # An aggregation that is not elementwise sees all of them at once; one that weighs them anew
    # at every step decides now.
    everything = [(WHOLE, [*range(len(used))])]
    layouts = everything if shards is None else shards.by_layout(used)
    whole, weights, ratio = None, None, None
    if isinstance(spec.aggregate, WeightedSum) and spec.aggregate.beta > 0:
        ratio = spec.aggregate.alpha / spec.aggregate.beta
    if isinstance(spec.aggregate, AdaptiveSum):
        loss = None if second is None else second.loss
        readings = _readings(spec.aggregate, layouts, g_u, g_c, loss)
        weights = spec.aggregate.weights(readings, state.aggregate)
    elif not spec.aggregate.elementwise:
        whole = spec.aggregate.combine(flatten(g_u), flatten(g_c)) if used else None
    if weights is not None or not spec.aggregate.elementwise:
        # The kernel no longer aggregates, so neither should its compilation depend on how.
        spec = KernelSpec(spec.addon, Alone(), spec.strict, spec.diagnostics)
    # The scales that tell a gradient from rounding.
    salience = first.salience
    scales = Scales(weights=weights, ratio=ratio)
    if spec.addon.compares_signs:
        scales = scales._replace(balance=balance_of(*_largest(layouts, g_u, g_c)))
    if spec.addon.needs_saliency:
        ranked = g_u if salience is None else [salience[k] for k in used]
        [largest] = _largest(layouts, ranked)
        scales = scales._replace(floor=noise_level(largest.dtype) * largest)
    # Moments, agreement, weight and aggregation, block by block.
    records: list[Tensor] = []
    for layout, members in layouts:
        loop = BlockLoop(spec, state, coefficients, compile, layout.stream)
        chosen = [(used[j], g_u[j], g_c[j]) for j in members]
        blocks = _blocks(spec, state, params, chosen, whole, salience, shards, scales)
        if spec.addon.has_threshold:
            blocks = _with_thresholds(spec, blocks, coefficients, layout, scales)
        loop.run(blocks)
        if spec.diagnostics:
            records.append(_over_processes(loop.sums, layout))
    record = merge_records(records) if spec.diagnostics else None
    return StepResult(used, g_c, g_u if spec.strict else [], record)


def _pass_on(
    first: LossGradient, shards: ShardedParameters | None, *, diagnostics: bool
) -> StepResult:
    """The objective's gradient itself, where there is no constraint and nothing to rank by."""
    used = [k for k, g in enumerate(first.gradients) if g is not None]
    gradients = [g for g in first.gradients if g is not None]
    if not diagnostics:
        return StepResult(used, gradients, [], None)
    everything = [(WHOLE, [*range(len(used))])]
    layouts = everything if shards is None else shards.by_layout(used)
    records = [
        _over_processes(_lengths([gradients[j] for j in members]), layout)
        for layout, members in layouts
    ]
    return StepResult(used, gradients, [], merge_records(records))


def _lengths(gradients: Sequence[Tensor]) -> DiagnosticSums:
    sums = DiagnosticSums()
    for g in gradients:
        if g.numel():
            dtype = torch.promote_types(g.dtype, torch.float32)
            square = torch.linalg.vector_norm(g, dtype=dtype).square()
            values = dict.fromkeys(SUMS, torch.zeros_like(square))
            values |= dict.fromkeys(("dot_u", "square_u", "square"), square)
            values["moved"] = torch.full_like(square, g.numel())
            peak = torch.linalg.vector_norm(g, torch.inf, dtype=dtype)
            sums.add((*values.values(), peak), g.numel())
    return sums


def _over_processes(sums: DiagnosticSums, layout: ShardLayout) -> Tensor:
    """The record of a layout over all processes that hold a part of it."""
    record = sums.record()
    return merge_records([*layout.gather_rows(record)]) if layout.groups else record


def _advance_state(
    spec: KernelSpec,
    state: State,
    params: Sequence[Tensor],
    first: LossGradient,
    second: LossGradient | None,
) -> tuple[float, ...]:
    """Count the step; return the coefficients of its moments: keep, add, a scale for each loss."""
    moments = spec.addon.statistics
    if second is None:
        return 0.0, 0.0, 0.0, 0.0
    if moments is None:
        state.step += 1
        return 0.0, 0.0, 0.0, 0.0
    keep, add, scale_u = moments.coefficients(state.step + 1, first.parts)
    scale_c = scale_u
    if second.parts != first.parts:
        scale_c = moments.coefficients(state.step + 1, second.parts).scale
    state.prepare(params)
    state.step += 1
    if first.squares is not None and second.squares is not None:
        torch._foreach_copy_(state.moments_u, first.squares)
        torch._foreach_copy_(state.moments_c, second.squares)
    coefficients = (keep, add, scale_u, scale_c)
    return (*coefficients, salt_of(state.step)) if state.narrow else coefficients


def _blocks(
    spec: KernelSpec,
    state: State,
    params: Sequence[Tensor],
    chosen: Sequence[tuple[int, Tensor, Tensor]],
    whole: Tensor | None,
    salience: list[Tensor | None] | None,
    shards: ShardedParameters | None,
    scales: Scales,
) -> Iterator[Block]:
    """Each chosen parameter that is not empty, flat, with all that the kernel reads about it."""
    moments, ranked = spec.addon.statistics, spec.addon.needs_saliency
    thresholds: list[Tensor] = []
    if ranked and shards is not None:
        # Before the first block: a process may hold no part of a tensor that it helps to gather.
        for k, u, _ in chosen:
            part = u if salience is None else laid_out(salience[k], params[k])
            thresholds.append(_quantile(spec.addon, shards.gathered(k, part)))
    offset = 0
    for j, (k, u, c) in enumerate(chosen):
        count = u.numel()
        if count == 0:
            continue
        if moments is None:
            block = Block(flat(u), flat(c))
        else:
            block = Block(flat(u), flat(c), flat(state.moments_u[k]), flat(state.moments_c[k]))
        if scales.balance is not None:
            block = block._replace(balance=scales.balance.to(u.device))
        if scales.weights is not None:
            weight_u, weight_c = (weight.to(u.device) for weight in scales.weights)
            block = block._replace(weight_u=weight_u, weight_c=weight_c)
        if whole is not None:
            block = block._replace(aggregated=whole[offset : offset + count].to(u.device))
        if ranked:
            values = _ranking(spec, u, salience, params, k)
            threshold = thresholds[j] if thresholds else _quantile(spec.addon, values)
            if scales.floor is not None:
                threshold = threshold.masked_fill(threshold <= scales.floor.to(u.device), 0.0)
            block = block._replace(salience=flat(values), threshold=threshold)
        offset += count
        yield block


class Scales(NamedTuple):
    """The sizes of the gradients over all parameters, which tell them from rounding."""

    balance: Tensor | None = None
    """‖ĝ_C‖∞/‖ĝ_U‖∞, for add-ons that compare signs."""
    floor: Tensor | None = None
    """The level of rounding of the gradient that ranks, for add-ons that rank."""
    weights: tuple[Tensor, Tensor] | None = None
    """Of ĝ_U and ĝ_C, from an aggregation that decides them at every step."""
    ratio: float | None = None
    """α/β of the aggregation ``linear``."""


def _quantile(addon: Addon, values: Tensor) -> Tensor:
    """The threshold of a whole tensor, for add-ons that rank."""
    interpolation: Interpolation = getattr(addon, "interpolation", "lower")
    return absolute_quantile(values, getattr(addon, "quantile", 0.5), interpolation)


def _readings(
    aggregate: AdaptiveSum,
    layouts: Sequence[tuple[ShardLayout, list[int]]],
    g_u: Sequence[Tensor],
    g_c: Sequence[Tensor],
    loss: Tensor | None,
) -> Readings:
    """The products of the gradients over all parameters and processes, and the loss."""
    total = read_products([], [])
    if g_u:
        total = Readings(*(value.to(g_u[0].device) for value in total[:3]))
    if aggregate.reads_products:
        for layout, members in layouts:
            part = torch.stack(
                read_products([g_u[j] for j in members], [g_c[j] for j in members])[:3]
            )
            layout.sum_parts(part)
            sums = [a + b.to(a.device) for a, b in zip(total[:3], part.unbind(), strict=True)]
            total = Readings(*sums)
    return total._replace(constraint=loss if aggregate.reads_loss else None)


def _with_thresholds(
    spec: KernelSpec,
    blocks: Iterator[Block],
    coefficients: tuple[float, ...],
    layout: ShardLayout,
    scales: Scales,
) -> Iterator[Block]:
    """The blocks with the thresholds that add-ons find from both gradients of a whole tensor."""
    if not spec.addon.has_threshold:
        yield from blocks
        return
    if layout.groups:
        raise InvalidInput(
            "This add-on sorts whole tensors, so parameters should not be sharded over processes. "
            f"(got {spec.addon!r})"
        )
    for block in blocks:
        u, c = (side.to(moment_dtype(side.dtype)) for side in (block.objective, block.constraint))
        sure = None
        moments = spec.addon.statistics
        if moments is not None and block.moment_u is not None and block.moment_c is not None:
            keep, add, scale_u, scale_c, *_ = coefficients
            kept = (block.moment_u.to(u), block.moment_c.to(c))
            if not moments.from_parts:
                kept = (keep * kept[0] + add * u * u, keep * kept[1] + add * c * c)
            sure = signed_agreement(u, c, *kept, spec.addon.stability, (scale_u, scale_c))
        signals = Signals(u, c, sure, balance=block.balance)
        yield block._replace(threshold=spec.addon.threshold(signals, scales.ratio))


def _largest(
    layouts: Sequence[tuple[ShardLayout, list[int]]], *gradients: Sequence[Tensor | None]
) -> Tensor:
    """The largest entry of each of several gradients, over all parameters and processes."""
    everything = [g for side in gradients for g in side if g is not None]
    dtype = torch.float32
    for gradient in everything:
        dtype = torch.promote_types(dtype, gradient.dtype)
    device = everything[0].device if everything else None
    largest = torch.zeros(len(gradients), dtype=dtype, device=device)
    for layout, members in layouts:
        sides = [[side[j] for j in members] for side in gradients]
        row = torch.stack([largest_entry(side, largest[0]) for side in sides])
        if layout.groups:
            row = layout.gather_rows(row).amax(dim=0).to(largest.device)
        largest = torch.maximum(largest, row)
    return largest


def _ranking(
    spec: KernelSpec,
    objective: Tensor,
    salience: list[Tensor | None] | None,
    params: Sequence[Tensor],
    k: int,
) -> Tensor:
    """The gradient that ranks the elements of parameter ``k``."""
    if salience is not None:
        return laid_out(salience[k], params[k])
    # Under `strict` the weight is written over the objective's gradient.
    return objective.clone() if spec.strict else objective
