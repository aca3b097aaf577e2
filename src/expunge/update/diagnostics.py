"""What a step was like: feasibility, agreement, size."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from expunge.update.kernel import SUMS

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


def read(record: Tensor, *, constrained: bool, statistical: bool) -> Diagnostics:
    """Diagnostics from a raw record of shape (``WIDTH``,); reading it waits for the device."""
    *sums, peak, count = record.tolist()
    raw = dict(zip(SUMS, sums, strict=True))
    n = max(count, 1.0)
    lengths = math.sqrt(raw["square_u"]) * math.sqrt(raw["square_c"])
    return Diagnostics(
        objective_alignment=-raw["dot_u"],
        constraint_alignment=-raw["dot_c"] if constrained else math.nan,
        cosine=raw["cross"] / lengths if constrained and lengths > 0 else math.nan,
        agreement=0.5 + 0.5 * raw["accord"] / n if statistical and constrained else math.nan,
        moved=raw["moved"] / n,
        norm=math.sqrt(raw["square"]),
        bound=math.sqrt(raw["moved"]) * peak,
        undecided=raw["agree"] / n if constrained else math.nan,
    )


class Tally:
    """Sums over blocks, kept on their devices, read by nobody until asked."""

    def __init__(self) -> None:
        self._sums: dict[torch.device, list[tuple[Tensor, ...]]] = {}
        self._counts: dict[torch.device, int] = {}

    def add(self, sums: tuple[Tensor, ...], count: int) -> None:
        """Note the sums of one block of ``count`` parameters: ``SUMS`` and max |Δ|."""
        if sums:
            device = sums[0].device
            self._sums.setdefault(device, []).append(sums)
            self._counts[device] = self._counts.get(device, 0) + count

    def record(self) -> Tensor:
        """The raw record over all devices; on one device this waits for nothing."""
        records = [self._on(device) for device in self._sums]
        if not records:
            return torch.zeros(WIDTH, dtype=torch.float64)
        total, *others = records
        for other in others:
            moved = other.to(total.device, total.dtype)
            peak = torch.maximum(total[len(SUMS)], moved[len(SUMS)])
            total += moved
            total[len(SUMS)] = peak
        return total

    def _on(self, device: torch.device) -> Tensor:
        dtype = torch.float32 if device.type == "mps" else torch.float64
        columns = [_join(column) for column in zip(*self._sums[device], strict=True)]
        sums = [column.sum(dtype=dtype) for column in columns[:-1]]
        count = torch.full((), self._counts[device], dtype=dtype, device=device)
        return torch.stack([*sums, columns[-1].amax().to(dtype), count])


def _join(values: tuple[Tensor, ...]) -> Tensor:
    """One vector of scalars (one a block) and of vectors (one value a row of a block)."""
    scalars = [value for value in values if value.dim() == 0]
    vectors = [value for value in values if value.dim() == 1]
    if scalars:
        vectors.append(torch.stack(scalars))
    return torch.cat(vectors)
