"""Runs the kernel over all parameters, in blocks, compiled where that pays."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from expunge.update import _compiler as compiler
from expunge.update._compiler import ROW
from expunge.update._diagnostics import Tally
from expunge.update._kernel import Block, Recipe, advance
from expunge.update._layout import moment_dtype
from expunge.update._small_tensors import Pack
from expunge.update._state import State

COMPILED_BLOCK = 1 << 20
CPU_BLOCK = 1 << 18
DEVICE_BLOCK = 1 << 23
SMALL = 1 << 14
"""Parameters below this size are packed together: a pass over each would be mostly overhead."""


class Sweep:
    """One step over the parameters: shared by all of them, created again in each step.

    The order of the elements, and so the random stream, is the same compiled or not: the whole
    rows of each large parameter in turn, the packed rest whenever it fills a block.
    """

    def __init__(
        self,
        recipe: Recipe,
        state: State,
        coefficients: tuple[float, ...],
        compile: bool,
        stream: str = "",
    ) -> None:
        self.recipe = recipe
        self.state = state
        self.compile = compile
        self.tally = Tally()
        self._stream = stream
        self._coefficients = coefficients
        self._constants: dict[tuple[torch.device, torch.dtype], Tensor] = {}
        self._packs: dict[tuple[object, ...], Pack] = {}

    def run(self, blocks: Iterable[Block]) -> None:
        """Advance every parameter, each given as one flat block."""
        with warnings.catch_warnings():
            if self.compile:  # the compiler's own imports are not ours to mend
                warnings.simplefilter("ignore", DeprecationWarning)
            for block in blocks:
                self._parameter(block)
            for pack in self._packs.values():
                self._unpack(pack)

    def _parameter(self, block: Block) -> None:
        count, device = block.objective.numel(), block.objective.device
        whole = 0 if count < SMALL else count - count % ROW
        for start, stop in _pieces(whole, self._block_size(device)):
            self._advance(block.stretch(start, stop))
        if whole < count:
            rest = block.stretch(whole, count)
            pack = self._packs.setdefault(Pack.key(rest), Pack(self.recipe))
            pack.add(rest)
            if pack.size >= CPU_BLOCK:
                self._unpack(pack)

    def _block_size(self, device: torch.device) -> int:
        if self._compiles(device):
            return COMPILED_BLOCK
        return CPU_BLOCK if device.type == "cpu" else DEVICE_BLOCK

    def _compiles(self, device: torch.device) -> bool:
        return self.compile and (device.type, self.recipe) not in compiler.broken

    def _advance(self, block: Block) -> None:
        """Advance whole rows."""
        if self.state.offload:
            home, block = block, _fetched(block, copy=True)
            self._advance_here(block)
            _return(block, home)
        else:
            self._advance_here(block)

    def _advance_here(self, block: Block) -> None:
        block = self._drawn(block)
        if self._compiles(block.objective.device):
            sums = compiler.run_compiled(self.recipe, block, self._on_device(block))
            if sums is not None:
                self.tally.add(sums, block.objective.numel())
                return
        self._advance_eagerly(block)

    def _advance_eagerly(self, block: Block) -> None:
        if self.recipe.diagnose:
            self.tally.table(block.objective.device)
        self.tally.add(advance(self.recipe, block, self._coefficients), block.objective.numel())

    def _unpack(self, pack: Pack) -> None:
        if pack.size:
            block = self._drawn(_fetched(pack.join(), copy=False))
            self._advance_eagerly(block)
            pack.return_to_owners(block)

    def _drawn(self, block: Block) -> Block:
        if not self.recipe.addon.draws:
            return block
        device = block.objective.device
        generator = self.state.generator(device, self._stream)
        draws = torch.rand(
            block.objective.shape, generator=generator, device=device, dtype=torch.float32
        )
        return block._replace(uniform=draws)

    def _on_device(self, block: Block) -> Tensor:
        """The coefficients as a tensor; filled, since copying from the host would wait for it."""
        reference = block.objective if block.moment_u is None else block.moment_u
        key = (reference.device, moment_dtype(reference.dtype))
        if key not in self._constants:
            values = [torch.full((), v, dtype=key[1], device=key[0]) for v in self._coefficients]
            self._constants[key] = torch.stack(values)
        return self._constants[key]


def _pieces(count: int, limit: int) -> Iterator[tuple[int, int]]:
    """Even pieces of whole rows, none above ``limit``: a leftover of one row would recompile."""
    rows, parts = count // ROW, -(-count // limit)
    stop = 0
    for part in range(1, parts + 1):
        start, stop = stop, rows * part // parts * ROW
        yield start, stop


def _fetched(block: Block, *, copy: bool) -> Block:
    """The block with its moments beside its gradients, whatever keeps them."""
    if block.moment_u is None or block.moment_c is None:
        return block
    device = block.objective.device
    return block._replace(
        moment_u=block.moment_u.to(device, non_blocking=True, copy=copy),
        moment_c=block.moment_c.to(device, non_blocking=True, copy=copy),
    )


def _return(block: Block, home: Block) -> None:
    """Write fetched moments back where they are kept."""
    for moment, kept in ((block.moment_u, home.moment_u), (block.moment_c, home.moment_c)):
        if moment is not None and kept is not None:
            kept.copy_(moment, non_blocking=True)
