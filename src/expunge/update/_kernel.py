"""One pass over a block of parameters: moments, agreement, weight, aggregation and diagnostics.

:func:`advance` is the whole of Algorithm 1 between the two gradients and the optimizer, in place.
It runs as it stands over blocks small enough that the temporaries stay in the cache, or compiled
into one loop over memory (:mod:`expunge.update._block_loop`); the meaning is the same.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from expunge.update._addons import Addon, Signals
from expunge.update._aggregate import Aggregate

SUMS = (
    "dot_u",
    "dot_c",
    "square_u",
    "square_c",
    "cross",
    "signed_agreement",
    "moved",
    "square",
    "same_sign",
)
"""The sums over a block for the diagnostics; max |Δ| comes after them."""
PEAK, COUNT = len(SUMS), len(SUMS) + 1
"""Where a raw record has max |Δ| and the number of parameters, behind its sums."""
WIDTH = len(SUMS) + 2

Coefficients = tuple[float | Tensor, ...]
"""(keep, add, scale_u, scale_c) of the moments: numbers, or scalar tensors where compiled."""


class ParameterSlice(NamedTuple):
    """A slice of the parameters: flat tensors of one length, or scalars for ``threshold``,
    ``balance``, and the weights and the ε of the two gradients."""

    objective: Tensor
    constraint: Tensor
    moment_u: Tensor | None = None
    moment_c: Tensor | None = None
    aggregated: Tensor | None = None
    uniform: Tensor | None = None
    saliency_gradient: Tensor | None = None
    threshold: Tensor | None = None
    balance: Tensor | None = None
    weight_u: Tensor | None = None
    weight_c: Tensor | None = None
    eps_u: Tensor | None = None
    eps_c: Tensor | None = None

    def slice(self, start: int, stop: int) -> ParameterSlice:
        """Elements ``start`` to ``stop``."""
        if start == 0 and stop == self.objective.numel():
            return self
        parts = (t if t is None or t.dim() == 0 else t[start:stop] for t in self)
        return ParameterSlice(*parts)  # type: ignore[arg-type]

    def rows(self, length: int) -> ParameterSlice:
        """The same elements in rows of ``length``."""
        rows = (t if t is None or t.dim() == 0 else t.view(-1, length) for t in self)
        return ParameterSlice(*rows)  # type: ignore[arg-type]


@dataclass(frozen=True)
class KernelSpec:
    """The parts that a kernel is made of; equal specs share a compilation."""

    addon: Addon
    aggregate: Aggregate
    strict: bool = False
    diagnostics: bool = True


def advance(
    spec: KernelSpec, block: ParameterSlice, coefficients: Coefficients
) -> tuple[Tensor, ...]:
    """Advance one block and return its diagnostic sums.

    Afterwards ``constraint`` holds -Δ and the moments are those of this step; under
    ``spec.strict`` ``constraint`` holds the aggregation and ``objective`` the weight. The sums
    follow ``SUMS`` with max |Δ| last, reduced over the last dimension of the block.
    """
    # Half precisions are widened to float32.
    g_u, g_c = (
        g if g.dtype == torch.float64 else g.float() for g in (block.objective, block.constraint)
    )
    signed = _signed_agreement(spec.addon, block, g_u, g_c, coefficients)
    weight = None
    if spec.strict or not spec.addon.moves_all:
        given = (block.uniform, block.saliency_gradient, block.threshold, block.balance)
        weight = spec.addon.weight(Signals(g_u, g_c, signed, *given))
    if block.aggregated is not None:
        aggregated = block.aggregated.to(g_u.dtype)
    elif block.weight_u is not None and block.weight_c is not None:
        aggregated = block.weight_u.to(g_u.dtype) * g_u + block.weight_c.to(g_u.dtype) * g_c
    else:
        aggregated = spec.aggregate.combine(g_u, g_c)
    step = aggregated if weight is None else weight * aggregated
    sums: tuple[Tensor, ...] = ()
    if spec.diagnostics:
        sums = _diagnose(g_u, g_c, signed, weight, step)
    if spec.strict:
        assert weight is not None
        block.constraint.copy_(aggregated)
        block.objective.copy_(weight)
    else:
        block.constraint.copy_(step)
    return sums


def _signed_agreement(
    addon: Addon, block: ParameterSlice, g_u: Tensor, g_c: Tensor, coefficients: Coefficients
) -> Tensor | None:
    """2f - 1 after bringing the moments up to this step, for add-ons that have moments."""
    if addon.moment_estimator is None or block.moment_u is None or block.moment_c is None:
        return None
    keep, add, *scales = coefficients
    if not addon.moment_estimator.from_micro_batches:
        for moment, g in ((block.moment_u, g_u), (block.moment_c, g_c)):
            if isinstance(add, Tensor):
                moment.mul_(keep).add_(g * g * add)
            else:  # one pass less
                moment.mul_(keep).addcmul_(g, g, value=add)
    moments = (block.moment_u, block.moment_c)
    eps = (block.eps_u, block.eps_c) if addon.epsilon is None else addon.epsilon
    return signed_agreement(g_u, g_c, *moments, eps, (scales[0], scales[1]))


def _diagnose(
    g_u: Tensor, g_c: Tensor, signed: Tensor | None, weight: Tensor | None, step: Tensor
) -> tuple[Tensor, ...]:
    """The sums over the last dimension."""
    square_u = _dot(g_u, g_u)
    moved = torch.full_like(square_u, step.shape[-1])
    return (
        _dot(step, g_u),
        _dot(step, g_c),
        square_u,
        _dot(g_c, g_c),
        _dot(g_u, g_c),
        torch.zeros_like(square_u) if signed is None else signed.sum(-1),
        moved if weight is None else weight.ne(0.0).to(step.dtype).sum(-1),
        _dot(step, step),
        # A sign times a gradient never vanishes, as the product of two gradients may.
        torch.sign(g_u).mul_(g_c).gt_(0.0).sum(-1),
        step.abs().amax(-1),
    )


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """Σ a·b over the last dimension: a compiler fuses the product, and dot needs none."""
    return torch.dot(a, b) if a.dim() == 1 else (a * b).sum(-1)


def signed_agreement(
    objective: Tensor,
    constraint: Tensor,
    moment_u: Tensor,
    moment_c: Tensor,
    eps: float | tuple[Any, Any],
    scales: tuple[float | Tensor, float | Tensor] = (1.0, 1.0),
) -> Tensor:
    """``2f - 1``, in [-1, 1]: 1 where the gradients surely agree, -1 where they surely do not.

    With ``φ = Φ(ĝ/√(v+ε)) = (1 + e)/2`` and ``e = erf(ĝ/√(2(v+ε)))``, the probability of (18)

        f = φ_U φ_C + (1-φ_U)(1-φ_C) = (1 + e_U e_C) / 2,

    so ``2f - 1 = e_U e_C``: exact, free of cancellation near f = 1/2, and two ``erf`` in all.
    Elementwise over tensors of one shape; the variance ``v`` is a moment times its scale. ``eps``
    is a number, or a pair of scalars for the two gradients.
    """
    eps_u, eps_c = eps if isinstance(eps, tuple) else (eps, eps)
    e_u = _signed_confidence(objective, moment_u, scales[0], eps_u)
    e_c = _signed_confidence(constraint, moment_c, scales[1], eps_c)
    return e_u.mul_(e_c)


def _signed_confidence(
    gradient: Tensor, moment: Tensor, scale: float | Tensor, eps: float | Tensor
) -> Tensor:
    """2Φ(ĝ/√(v+ε)) - 1, in few passes: without a compiler every operation is one."""
    if isinstance(scale, Tensor) or isinstance(eps, Tensor):  # compiled, or relative
        doubled = moment * (2.0 * scale) + 2.0 * eps
    else:
        doubled = torch.rsub(moment, 2.0 * eps, alpha=-2.0 * scale)
    return doubled.rsqrt_().mul_(gradient).erf_()


@dataclass(frozen=True)
class Diagnostics:
    """One step, seen through its two gradients. Δ is the step handed to the optimizer.

    The update is feasible (9) when both alignments are ≤ 0. A quantity that does not exist is nan:
    what concerns the constraint where there is none, ``agreement`` for add-ons without moments.
    """

    objective_alignment: float
    """⟨Δ, ĝ_U⟩"""
    constraint_alignment: float
    """⟨Δ, ĝ_C⟩"""
    product: float
    """⟨ĝ_U, ĝ_C⟩"""
    cosine: float
    """cos(ĝ_U, ĝ_C); Proposition 6 supposes it near zero."""
    agreement: float
    """Mean of f over the parameters."""
    moved: float
    """Share of parameters with a weight above zero."""
    norm: float
    """‖Δ‖₂"""
    bound: float
    """‖m‖₀^{1/2}·‖Δ‖_∞, the bound of Proposition 3 on ‖Δ‖₂."""
    undecided: float
    """Share of parameters with ĝ_U·ĝ_C > 0, which Proposition 1 rules out at an equilibrium."""

    @property
    def feasible(self) -> bool:
        """Whether the update is negatively aligned with both gradients (or with the only one)."""
        alone = math.isnan(self.constraint_alignment)
        return self.objective_alignment <= 0 and (alone or self.constraint_alignment <= 0)

    def as_dict(self) -> dict[str, float]:
        """Plain numbers by name."""
        return asdict(self)


def read_record(record: Tensor, *, constrained: bool, statistical: bool) -> Diagnostics:
    """Diagnostics from a raw record of shape (``WIDTH``,); reading it waits for the device."""
    *sums, peak, count = record.tolist()
    raw = dict(zip(SUMS, sums, strict=True))
    n = max(count, 1.0)
    lengths = math.sqrt(raw["square_u"]) * math.sqrt(raw["square_c"])
    agreement = 0.5 + 0.5 * raw["signed_agreement"] / n
    return Diagnostics(
        objective_alignment=-raw["dot_u"],
        constraint_alignment=-raw["dot_c"] if constrained else math.nan,
        product=raw["cross"] if constrained else math.nan,
        cosine=raw["cross"] / lengths if constrained and lengths > 0 else math.nan,
        agreement=agreement if statistical and constrained else math.nan,
        moved=raw["moved"] / n,
        norm=math.sqrt(raw["square"]),
        bound=math.sqrt(raw["moved"]) * peak,
        undecided=raw["same_sign"] / n if constrained else math.nan,
    )


class DiagnosticSums:
    """Sums over blocks: a raw record for each device, kept there until somebody reads it."""

    def __init__(self) -> None:
        self._records: dict[torch.device, Tensor] = {}

    def add(self, sums: tuple[Tensor, ...], count: int) -> None:
        """Add the sums of one block of ``count`` parameters: ``SUMS`` and max |Δ|."""
        if not sums:
            return
        device = sums[0].device
        if device not in self._records:
            wide = torch.float32 if device.type == "mps" else torch.float64  # where there is one
            self._records[device] = torch.zeros(WIDTH, dtype=wide, device=device)
        record, values = self._records[device], torch.stack(sums)
        peak = values[PEAK].amax()
        if values.dim() == 2:  # compiled: one value per row of the block
            values = values.sum(dim=1, dtype=record.dtype)
        record[:PEAK] += values[:PEAK]
        record[PEAK] = torch.maximum(record[PEAK], peak)
        record[COUNT] += count

    def record(self) -> Tensor:
        """The raw record over all devices; on one device this waits for nothing."""
        return merge_records([record.clone() for record in self._records.values()])


def merge_records(records: list[Tensor]) -> Tensor:
    """One raw record from those of disjoint sets of parameters, on the device of the first."""
    if not records:
        return torch.zeros(WIDTH, dtype=torch.float64)
    total, *others = records
    for other in others:
        moved = other.to(total.device, total.dtype)
        peak = torch.maximum(total[PEAK], moved[PEAK])
        total += moved
        total[PEAK] = peak
    return total
