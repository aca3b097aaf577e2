"""Small parameters and the ends of large ones, joined: one pass over them instead of one each."""

from __future__ import annotations

import torch
from torch import Tensor

from expunge.update._kernel import Block, Recipe


class Pack:
    """Pieces waiting to be advanced together; all on one device and of the same types."""

    def __init__(self, recipe: Recipe) -> None:
        self.size = 0
        self._pieces: list[Block] = []
        self._written = ["constraint"]
        if recipe.strict:
            self._written.append("objective")
        if recipe.addon.statistics is not None and not recipe.addon.statistics.from_parts:
            self._written += ["moment_u", "moment_c"]

    @staticmethod
    def key(piece: Block) -> tuple[object, ...]:
        """What pieces need in common to share a pack."""
        return (piece.objective.device, *(None if t is None else t.dtype for t in piece))

    def add(self, piece: Block) -> None:
        """Hold a piece back until the pack is joined."""
        self._pieces.append(piece)
        self.size += piece.objective.numel()

    def join(self) -> Block:
        """One block of all pieces, a copy."""
        return Block(*(self._joined(field) for field in Block._fields))  # type: ignore[arg-type]

    def return_to_owners(self, block: Block) -> None:
        """Write what the kernel changed in the joined ``block`` back to the pieces; empty out."""
        sizes = [piece.objective.numel() for piece in self._pieces]
        owners: list[Tensor] = []
        values: list[Tensor] = []
        for field in self._written:
            owners += [getattr(piece, field) for piece in self._pieces]
            values += getattr(block, field).split(sizes)
        torch._foreach_copy_(owners, values)
        self._pieces = []
        self.size = 0

    def _joined(self, field: str) -> Tensor | None:
        parts: list[Tensor] = [getattr(piece, field) for piece in self._pieces]
        if parts[0] is None or field == "balance":  # one for all parameters
            return parts[0]
        if field == "threshold":  # one per parameter
            parts = [
                t.expand(piece.objective.shape)
                for t, piece in zip(parts, self._pieces, strict=True)
            ]
        return torch.cat(parts)
