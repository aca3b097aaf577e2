"""Runs the kernel over all parameters, in blocks, compiled where that pays."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch
from torch import Tensor

from expunge.update import kernel
from expunge.update.diagnostics import Tally
from expunge.update.kernel import Block, Recipe
from expunge.update.layout import flat
from expunge.update.state import State


class Sweep:
    """One step over the parameters: shared by all of them, made anew each step."""

    def __init__(
        self, recipe: Recipe, state: State, coefficients: tuple[float, ...], compile: bool
    ) -> None:
        self.recipe = recipe
        self.state = state
        self.tally = Tally()
        self.compile = compile
        self._values = coefficients
        self._coefficients: dict[tuple[torch.device, torch.dtype], Tensor] = {}

    def run(self, block: Block) -> None:
        """Advance one parameter, given flat."""
        count = block.objective.numel()
        device = block.objective.device
        whole = count - count % kernel.ROW if self._compiles(device) else 0
        for start in range(0, whole, kernel.COMPILED_BLOCK):
            stop = min(whole, start + kernel.COMPILED_BLOCK)
            if not self._run_compiled(block, start, stop):
                whole = start
                break
        size = kernel.CPU_BLOCK if device.type == "cpu" else kernel.DEVICE_BLOCK
        for start in range(whole, count, size):
            piece = self._drawn(block.stretch(start, min(count, start + size)))
            sums = kernel.advance(self.recipe, piece, self._constants(piece), fast=False)
            self.tally.add(sums, piece.objective.numel())

    def _compiles(self, device: torch.device) -> bool:
        return self.compile and device.type not in kernel.broken

    def _run_compiled(self, block: Block, start: int, stop: int) -> bool:
        piece = self._drawn(block.stretch(start, stop, kernel.ROW))
        fast = piece.objective.device.type == "cpu" and piece.objective.dtype != torch.float64
        try:
            function = kernel.compiled(self.recipe)
            with warnings.catch_warnings():  # the compiler's own imports are not ours to mend
                warnings.simplefilter("ignore", DeprecationWarning)
                sums = function(piece, self._constants(piece), fast=fast)
        except Exception as error:  # the compiler's failures share no base class
            kernel.refuse_to_compile(piece.objective.device.type, error)
            return False
        self.tally.add(sums, piece.objective.numel())
        return True

    def _drawn(self, block: Block) -> Block:
        if not self.recipe.addon.draws:
            return block
        draws = torch.rand(
            block.objective.shape,
            generator=self.state.generator(block.objective.device),
            device=block.objective.device,
        )
        return block._replace(uniform=draws)

    def _constants(self, block: Block) -> Tensor:
        reference = block.objective if block.moment_u is None else block.moment_u
        key = (reference.device, reference.dtype)
        if key not in self._coefficients:
            self._coefficients[key] = torch.tensor(
                self._values, dtype=reference.dtype, device=reference.device
            )
        return self._coefficients[key]


def flatten(tensors: Sequence[Tensor]) -> Tensor:
    """All tensors in one vector, a copy, on the first one's device and in its type."""
    first = tensors[0]
    return torch.cat([flat(t).to(first.device, first.dtype) for t in tensors])
