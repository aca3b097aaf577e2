"""One step of Algorithm 1 over all parameters, between the two gradients and the optimizer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from expunge._errors import InvalidInput
from expunge.update._adaptive import AdaptiveSum, Readings, products_of
from expunge.update._addons import RELATIVE_EPS, NoAddon, Signals, absolute_quantile
from expunge.update._aggregate import Alone, WeightedSum
from expunge.update._block_loop import BlockLoop
from expunge.update._gradients import LossGradient
from expunge.update._kernel import KernelSpec, ParameterSlice, merge_records
from expunge.update._noise_floor import balance_of, largest_entry, noise_level
from expunge.update._shards import WHOLE, ShardedParameters, ShardLayout
from expunge.update._state import State, common_dtype, flat, flatten, laid_out, moment_dtype


class Step:
    """The gradients of a step, or the parts that are here, and what the kernel reads besides them.

    It advances ``state`` when it is made; :meth:`run` writes the step over the gradients of the
    parameters ``used``, which some loss reached: ``g_c`` is then -Δ or, under ``strict``, the
    aggregation alone, and ``g_u`` under ``strict`` the weights of the add-on.
    """

    def __init__(
        self,
        spec: KernelSpec,
        state: State,
        params: Sequence[Tensor],
        objective: LossGradient,
        constraint: LossGradient | None,
        shards: ShardedParameters | None,
    ) -> None:
        # Without a constraint there is nothing to weigh against: only saliency is left.
        if constraint is None:
            addon = spec.addon if spec.addon.needs_saliency else NoAddon()
            spec = replace(spec, addon=addon, aggregate=Alone())
        self._spec, self._state, self._shards = spec, state, shards
        self._coefficients = _advance_state(spec, state, params, objective, constraint)
        # Both gradients of the parameters that some loss reaches, laid out like them.
        self.used: list[int] = []
        self.g_u: list[Tensor] = []
        self.g_c: list[Tensor] = []
        sides = objective.gradients, constraint.gradients if constraint else objective.gradients
        for k, (u, c) in enumerate(zip(*sides, strict=True)):
            if u is not None or c is not None:
                self.used.append(k)
                self.g_u.append(laid_out(u, params[k]))
                self.g_c.append(laid_out(c, params[k]) if constraint else self.g_u[-1])
        if constraint is None and spec.strict:  # both are written to
            self.g_c = [g.clone() for g in self.g_u]
        self._layouts: Sequence[tuple[ShardLayout, list[int]]]
        everything = [*range(len(self.used))]
        self._layouts = [(WHOLE, everything)] if shards is None else shards.by_layout(self.used)
        # What is known of the aggregation, and what the add-on reads about whole gradients.
        self._ratio: float | None = None
        self._scalars: dict[str, Tensor] = {}
        """Fields of a block that are the same for all parameters."""
        self._aggregated: Sequence[Tensor] | None = None
        self._aggregate(None if constraint is None else constraint.loss)
        if spec.addon.compares_signs:
            self._scalars["balance"] = balance_of(*self._largest_entries(self.g_u, self.g_c))
        if spec.addon.moment_estimator is not None and spec.addon.epsilon is None:
            *squares, _, count = self._products(self._layouts).unbind()
            means = torch.stack(squares) / count.clamp_min(1.0)
            eps = (RELATIVE_EPS * means).clamp_min(torch.finfo(means.dtype).tiny)
            self._scalars["eps_u"], self._scalars["eps_c"] = eps.unbind()
        self._saliency_gradient: list[Tensor] = []
        self._thresholds: list[Tensor] = []
        if spec.addon.needs_saliency:
            self._find_thresholds(params, objective.saliency_gradient)

    def run(self, compile: bool) -> Tensor | None:
        """Moments, agreement, weight and aggregation, block by block; the raw diagnostics."""
        spec = self._spec
        records: list[Tensor] = []
        for layout, members in self._layouts:
            if layout.groups and spec.addon.cuts_products:
                raise InvalidInput(
                    "This add-on sorts whole tensors, so parameters should not be sharded over "
                    f"processes. (got {spec.addon!r})"
                )
            loop = BlockLoop(spec, self._state, self._coefficients, compile, layout.stream)
            loop.run(self._blocks(members))
            if spec.diagnostics:
                record = loop.sums.record()
                records += [*layout.gather_rows(record)] if layout.groups else [record]
        return merge_records(records) if spec.diagnostics else None

    def _aggregate(self, loss: Tensor | None) -> None:
        """Aggregate what is not elementwise; ask for the weights that are decided at each step."""
        aggregate = self._spec.aggregate
        if isinstance(aggregate, WeightedSum):
            self._ratio = aggregate.alpha / aggregate.beta if aggregate.beta > 0 else None
            return
        if isinstance(aggregate, AdaptiveSum):
            products = self._products(self._layouts if aggregate.reads_products else ())
            square_u, square_c, product, _ = products.unbind()
            readings = Readings(square_u, square_c, product, loss if aggregate.reads_loss else None)
            weights = aggregate.weights(readings, self._state.aggregate)
            self._scalars["weight_u"], self._scalars["weight_c"] = weights
        elif aggregate.elementwise:
            return
        elif self.used:
            whole = aggregate.combine(flatten(self.g_u), flatten(self.g_c))
            self._aggregated = torch.split(whole, [g.numel() for g in self.g_u])
        # The kernel no longer aggregates, so neither should its compilation depend on how.
        self._spec = replace(self._spec, aggregate=Alone())

    def _products(self, layouts: Sequence[tuple[ShardLayout, list[int]]]) -> Tensor:
        """⟨ĝ_U, ĝ_U⟩, ⟨ĝ_C, ĝ_C⟩, ⟨ĝ_U, ĝ_C⟩ and the number of entries, of all processes [4]."""
        total = torch.zeros(4, device=self.g_u[0].device if self.g_u else None)
        for layout, members in layouts:
            sides = [[side[j] for j in members] for side in (self.g_u, self.g_c)]
            part = products_of(*sides)
            part = torch.cat([part, part.new_full((1,), sum(g.numel() for g in sides[0]))])
            layout.sum_over_shards(part)
            total = total + part.to(total.device)
        return total

    def _largest_entries(self, *gradients: Sequence[Tensor]) -> Tensor:
        """The largest entry of each of several gradients, over all parameters and processes."""
        everything = [g for side in gradients for g in side]
        device = everything[0].device if everything else None
        largest = torch.zeros(len(gradients), dtype=common_dtype(everything), device=device)
        for layout, members in self._layouts:
            sides = [[side[j] for j in members] for side in gradients]
            row = torch.stack([largest_entry(side, largest[0]) for side in sides])
            if layout.groups:
                row = layout.gather_rows(row).amax(dim=0).to(largest.device)
            largest = torch.maximum(largest, row)
        return largest

    def _find_thresholds(self, params: Sequence[Tensor], given: list[Tensor | None] | None) -> None:
        """The saliency gradient, by default the objective's, and its quantile in each tensor."""
        if given is not None:
            self._saliency_gradient = [laid_out(given[k], params[k]) for k in self.used]
        else:  # under `strict` the weight is written over the objective's gradient
            self._saliency_gradient = [g.clone() if self._spec.strict else g for g in self.g_u]
        # A quantile at the level of rounding counts as 0.
        [largest] = self._largest_entries(self._saliency_gradient)
        floor = noise_level(largest.dtype) * largest
        for k, values in zip(self.used, self._saliency_gradient, strict=True):
            whole = values if self._shards is None else self._shards.gathered(k, values)
            threshold = absolute_quantile(whole, self._spec.addon.quantile)
            rounding = threshold <= floor.to(values.device)
            self._thresholds.append(threshold.masked_fill(rounding, 0.0))

    def _blocks(self, members: list[int]) -> Iterator[ParameterSlice]:
        """Each of these parameters that is not empty, flat, with all that the kernel reads."""
        for j in members:
            u, c = self.g_u[j], self.g_c[j]
            if u.numel() == 0:
                continue
            scalars = {name: each.to(u.device) for name, each in self._scalars.items()}
            block = ParameterSlice(flat(u), flat(c), **scalars)
            if self._spec.addon.moment_estimator is not None:
                moments = self._state.moments_u[self.used[j]], self._state.moments_c[self.used[j]]
                block = block._replace(moment_u=flat(moments[0]), moment_c=flat(moments[1]))
            if self._aggregated is not None:
                block = block._replace(aggregated=self._aggregated[j].to(u.device))
            if self._saliency_gradient:
                saliency, threshold = flat(self._saliency_gradient[j]), self._thresholds[j]
                block = block._replace(saliency_gradient=saliency, threshold=threshold)
            if self._spec.addon.cuts_products:
                u, c = (g.to(moment_dtype(g.dtype)) for g in (block.objective, block.constraint))
                signals = Signals(u, c, balance=block.balance)
                block = block._replace(threshold=self._spec.addon.threshold(signals, self._ratio))
            yield block


def _advance_state(
    spec: KernelSpec,
    state: State,
    params: Sequence[Tensor],
    objective: LossGradient,
    constraint: LossGradient | None,
) -> tuple[float, ...]:
    """Count the step; return the coefficients of its moments: keep, add, a scale for each loss."""
    moments = spec.addon.moment_estimator
    if constraint is None or moments is None:
        state.step += constraint is not None
        return 0.0, 0.0, 0.0, 0.0
    keep, add, scale_u = moments.coefficients(state.step + 1, objective.micro_batches)
    scale_c = moments.coefficients(state.step + 1, constraint.micro_batches).scale
    state.prepare(params)
    state.step += 1
    if objective.squares is not None and constraint.squares is not None:
        torch._foreach_copy_(state.moments_u, objective.squares)
        torch._foreach_copy_(state.moments_c, constraint.squares)
    return keep, add, scale_u, scale_c
