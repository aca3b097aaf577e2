"""Diagnostics of a step: feasibility, agreement, size."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from expunge.update._kernel import SUMS

WIDTH = len(SUMS) + 2
"""Length of a raw record: the sums, max |Δ|, and the number of parameters."""


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
    return Diagnostics(
        objective_alignment=-raw["dot_u"],
        constraint_alignment=-raw["dot_c"] if constrained else math.nan,
        product=raw["cross"] if constrained else math.nan,
        cosine=raw["cross"] / lengths if constrained and lengths > 0 else math.nan,
        agreement=0.5 + 0.5 * raw["signed_agreement"] / n
        if statistical and constrained
        else math.nan,
        moved=raw["moved"] / n,
        norm=math.sqrt(raw["square"]),
        bound=math.sqrt(raw["moved"]) * peak,
        undecided=raw["agree"] / n if constrained else math.nan,
    )


class DiagnosticSums:
    """Sums over blocks, kept on their devices until somebody reads them.

    They are written into a table made beforehand: small tensors kept from between the kernel's
    large temporaries would leave the heap full of holes too short for the next ones.
    """

    def __init__(self) -> None:
        self._tables: dict[torch.device, _Table] = {}

    def add(self, sums: tuple[Tensor, ...], count: int) -> None:
        """Note the sums of one block of ``count`` parameters: ``SUMS`` and max |Δ|."""
        if sums:
            self.table(sums[0].device).add(sums, count)

    def table(self, device: torch.device) -> _Table:
        """The table of a device; made here, before the first block, if there is none."""
        if device not in self._tables:
            self._tables[device] = _Table(device)
        return self._tables[device]

    def record(self) -> Tensor:
        """The raw record over all devices; on one device this waits for nothing."""
        return merge_records([table.total() for table in self._tables.values()])


def merge_records(records: list[Tensor]) -> Tensor:
    """One raw record from those of disjoint sets of parameters, on the device of the first."""
    if not records:
        return torch.zeros(WIDTH, dtype=torch.float64)
    total, *others = records
    for other in others:
        moved = other.to(total.device, total.dtype)
        peak = torch.maximum(total[len(SUMS)], moved[len(SUMS)])
        total += moved
        total[len(SUMS)] = peak
    return total


class _Table:
    """One row per block: its sums and its max |Δ|."""

    def __init__(self, device: torch.device, rows: int = 256) -> None:
        dtype = torch.float32 if device.type == "mps" else torch.float64
        self._rows = torch.zeros(rows, len(SUMS) + 1, dtype=dtype, device=device)
        self._used = 0
        self._count = 0

    def add(self, sums: tuple[Tensor, ...], count: int) -> None:
        if self._used == len(self._rows):
            self._rows[0] = self._folded()
            self._used = 1
        row = self._rows[self._used]
        if sums[0].dim() == 0:
            row.copy_(torch.stack(sums))
        else:  # compiled: one value per row of the block
            row[:-1] = torch.stack(sums[:-1]).sum(dim=1, dtype=row.dtype)
            row[-1] = sums[-1].amax()
        self._used += 1
        self._count += count

    def total(self) -> Tensor:
        count = torch.full((1,), self._count, dtype=self._rows.dtype, device=self._rows.device)
        return torch.cat([self._folded(), count])

    def _folded(self) -> Tensor:
        rows = self._rows[: self._used]
        return torch.cat([rows[:, :-1].sum(dim=0), rows[:, -1:].amax(dim=0)])
