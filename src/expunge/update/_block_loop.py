"""The loop that runs the kernel over all parameters, in blocks, compiled where that pays."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from expunge.update import _compiler as compiler
from expunge.update._compiler import ROW
from expunge.update._diagnostics import DiagnosticSums
from expunge.update._kernel import Block, KernelSpec, advance
from expunge.update._state import State, moment_dtype

COMPILED_BLOCK = 1 << 20
CPU_BLOCK = 1 << 17
DEVICE_BLOCK = 1 << 23
SMALL = 1 << 14
"""Parameters below this size are joined: a pass over each would be mostly overhead."""


ONE_FOR_ALL = ("balance", "weight_u", "weight_c")
"""Fields of a block that are the same for all parameters."""


class BlockLoop:
    """One step over the parameters; made afresh for each step.

    The order of the elements, and so the random stream, is the same compiled or not: the whole
    rows of each large parameter in turn, then the joined small tensors whenever they fill a block.
    """

    def __init__(
        self,
        spec: KernelSpec,
        state: State,
        coefficients: tuple[float, ...],
        compile: bool,
        stream: str = "",
    ) -> None:
        self.spec = spec
        self.state = state
        self.compile = compile
        self.sums = DiagnosticSums()
        self._stream = stream
        self._coefficients = coefficients
        self._constants: dict[tuple[torch.device, torch.dtype], Tensor] = {}
        self._small: dict[tuple[torch.device, torch.dtype], SmallTensors] = {}

    def run(self, blocks: Iterable[Block]) -> None:
        """Advance every parameter, each given as one flat block."""
        with warnings.catch_warnings():
            if self.compile:  # warnings from the compiler's own imports
                warnings.simplefilter("ignore", DeprecationWarning)
            for block in blocks:
                if block.objective.numel() < SMALL:
                    self._hold_back(block)
                else:
                    self._advance_large(block)
            for small in self._small.values():
                self._advance_joined(small)

    def _advance_large(self, block: Block) -> None:
        """Whole rows in place, a range after the other; what is left waits for more of its kind."""
        count, device = block.objective.numel(), block.objective.device
        whole = count - count % ROW
        if not self.spec.addon.draws and not self._compiles(device):
            whole = count  # nobody needs whole rows
        for start, stop in _even_ranges(whole, count, self._block_size(device)):
            self._advance_rows(block.slice(start, stop))
        if whole < count:
            self._hold_back(block.slice(whole, count))

    def _hold_back(self, block: Block) -> None:
        """Keep a small block until those of its device and type fill a larger one."""
        key = (block.objective.device, block.objective.dtype)
        small = self._small.get(key)
        if small is None:
            small = self._small[key] = SmallTensors(self.spec)
        small.pieces.append(block)
        small.size += block.objective.numel()
        if small.size >= CPU_BLOCK:
            self._advance_joined(small)

    def _block_size(self, device: torch.device) -> int:
        if self._compiles(device):
            return COMPILED_BLOCK
        return CPU_BLOCK if device.type == "cpu" else DEVICE_BLOCK

    def _compiles(self, device: torch.device) -> bool:
        return self.compile and (device.type, self.spec) not in compiler.broken

    def _advance_rows(self, block: Block) -> None:
        if self.state.offload:
            home, block = block, _fetch_moments(block, copy=True)
            self._advance_on_device(block)
            _return_moments(block, home)
        else:
            self._advance_on_device(block)

    def _advance_on_device(self, block: Block) -> None:
        block = self._with_draws(block)
        if self._compiles(block.objective.device):
            sums = compiler.run_compiled(self.spec, block, self._constants_for(block))
            if sums is not None:
                self.sums.add(sums, block.objective.numel())
                return
        self._advance_eagerly(block)

    def _advance_eagerly(self, block: Block) -> None:
        if self.spec.diagnostics:
            self.sums.table(block.objective.device)
        self.sums.add(advance(self.spec, block, self._coefficients), block.objective.numel())

    def _advance_joined(self, small: SmallTensors) -> None:
        if small.size:
            block = small.join()
            if self.state.offload:
                block = _fetch_moments(block, copy=False)
            block = self._with_draws(block)
            self._advance_eagerly(block)
            small.write_back(block)

    def _with_draws(self, block: Block) -> Block:
        if not self.spec.addon.draws:
            return block
        device = block.objective.device
        generator = self.state.generator(device, self._stream)
        draws = torch.rand(
            block.objective.shape, generator=generator, device=device, dtype=torch.float32
        )
        return block._replace(uniform=draws)

    def _constants_for(self, block: Block) -> Tensor:
        """The coefficients as a tensor; filled, since copying from the host would wait for it."""
        reference = block.objective if block.moment_u is None else block.moment_u
        key = (reference.device, moment_dtype(reference.dtype))
        if key not in self._constants:
            values = [torch.full((), v, dtype=key[1], device=key[0]) for v in self._coefficients]
            self._constants[key] = torch.stack(values)
        return self._constants[key]


class SmallTensors:
    """Small parameters, and the ends of large ones, that are advanced together.

    All are on one device and of one type: one pass over them instead of one each.
    """

    def __init__(self, spec: KernelSpec) -> None:
        self.size = 0
        self.pieces: list[Block] = []
        moments = spec.addon.statistics
        self._written = ["constraint"]
        if spec.strict:
            self._written.append("objective")
        if moments is not None and not moments.from_parts:
            self._written += ["moment_u", "moment_c"]

    def join(self) -> Block:
        """One block of all pieces, a copy."""
        joined: list[Tensor | None] = []
        for field, tensors in zip(Block._fields, zip(*self.pieces, strict=True), strict=True):
            if tensors[0] is None or field in ONE_FOR_ALL:
                joined.append(tensors[0])
            elif field == "threshold":  # one per parameter
                pairs = zip(tensors, self.pieces, strict=True)
                joined.append(torch.cat([t.expand(p.objective.shape) for t, p in pairs]))
            else:
                joined.append(torch.cat(tensors))
        return Block(*joined)  # type: ignore[arg-type]

    def write_back(self, block: Block) -> None:
        """Copy what the kernel changed in the joined ``block`` to the pieces, and drop them."""
        sizes = [piece.objective.numel() for piece in self.pieces]
        owners: list[Tensor] = []
        values: list[Tensor] = []
        for field in self._written:
            owners += [getattr(piece, field) for piece in self.pieces]
            values += getattr(block, field).split(sizes)
        torch._foreach_copy_(owners, values)
        self.pieces = []
        self.size = 0


def _even_ranges(whole: int, count: int, limit: int) -> Iterator[tuple[int, int]]:
    """Even ranges of whole rows, none above ``limit``: a leftover of one row would recompile.

    They cover the first ``whole`` of ``count`` elements; if that is all of them, the last range
    also has what is left of a row.
    """
    rows, parts = whole // ROW, -(-whole // limit)
    stop = 0
    for part in range(1, parts + 1):
        start, stop = stop, rows * part // parts * ROW
        yield start, count if part == parts and whole == count else stop


def _fetch_moments(block: Block, *, copy: bool) -> Block:
    """The block with its moments on the device of its gradients, wherever they are kept."""
    if block.moment_u is None or block.moment_c is None:
        return block
    device = block.objective.device
    return block._replace(
        moment_u=block.moment_u.to(device, non_blocking=True, copy=copy),
        moment_c=block.moment_c.to(device, non_blocking=True, copy=copy),
    )


def _return_moments(block: Block, home: Block) -> None:
    """Write fetched moments back to where they are kept."""
    for moment, kept in ((block.moment_u, home.moment_u), (block.moment_c, home.moment_c)):
        if moment is not None and kept is not None:
            kept.copy_(moment, non_blocking=True)
