"""Diagnostics of a step: feasibility, agreement, size."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from expunge.update._kernel import SUMS

PEAK, COUNT = len(SUMS), len(SUMS) + 1
"""Where a raw record has max |Δ| and the number of parameters, behind its sums."""
WIDTH = len(SUMS) + 2


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
        undecided=raw["agree"] / n if constrained else math.nan,
    )


def record_dtype(device: torch.device) -> torch.dtype:
    """What records are added up in: float64, where a device has it."""
    return torch.float32 if device.type == "mps" else torch.float64


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
            self._records[device] = torch.zeros(WIDTH, dtype=record_dtype(device), device=device)
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
