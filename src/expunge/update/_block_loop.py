"""The loop that runs the kernel over all parameters, in blocks, compiled where that pays.

``torch.compile`` makes one fused loop over memory. Blocks are seen as rows of ``ROW`` elements
whose number is symbolic, so that one compilation serves every parameter of every model. Where
compiling fails, the update continues without it.
"""

from __future__ import annotations

import functools
import os
import shutil
import types
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from expunge.update._kernel import DiagnosticSums, KernelSpec, ParameterSlice, advance
from expunge.update._state import State, moment_dtype

ROW = 1024
COMPILE_FROM = 4_000_000
"""The number of parameters from which a compilation (about 10 s, once) pays for itself."""

broken: set[tuple[str, KernelSpec]] = set()
"""Devices and specs for which compiling failed in this process."""

COMPILED_BLOCK = 1 << 20
CPU_BLOCK = 1 << 17
DEVICE_BLOCK = 1 << 23
SMALL = 1 << 14
"""Parameters below this size are joined: a pass over each would be mostly overhead."""

ONE_FOR_ALL = ("balance", "weight_u", "weight_c", "eps_u", "eps_c")
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
        self.sums = DiagnosticSums()
        self._spec, self._state = spec, state
        self._compile, self._stream = compile, stream
        self._coefficients = coefficients
        self._coefficient_tensors: dict[tuple[torch.device, torch.dtype], Tensor] = {}
        self._small: dict[tuple[torch.device, torch.dtype], list[ParameterSlice]] = {}
        self._held_back: Counter[tuple[torch.device, torch.dtype]] = Counter()

    def run(self, blocks: Iterable[ParameterSlice]) -> None:
        """Advance every parameter, each given as one flat block."""
        with warnings.catch_warnings():
            if self._compile:  # warnings from the compiler's own imports
                warnings.simplefilter("ignore", DeprecationWarning)
            for block in blocks:
                if block.objective.numel() < SMALL:
                    self._hold_back(block)
                else:
                    self._advance_large(block)
            for pieces in self._small.values():
                if pieces:
                    self._advance_joined(pieces)

    def _advance_large(self, block: ParameterSlice) -> None:
        """Whole rows in place, a range after the other; what is left waits for more of its kind."""
        count, device = block.objective.numel(), block.objective.device
        compiles, whole = self._compiles(device), count - count % ROW
        if not self._spec.addon.draws and not compiles:
            whole = count  # nobody needs whole rows
        limit = CPU_BLOCK if device.type == "cpu" else DEVICE_BLOCK
        for start, stop in _even_ranges(whole, count, COMPILED_BLOCK if compiles else limit):
            self._advance(block.slice(start, stop), compiles=self._compiles(device))
        if whole < count:
            self._hold_back(block.slice(whole, count))

    def _hold_back(self, block: ParameterSlice) -> None:
        """Keep a small block until those of its device and type fill a larger one."""
        key = (block.objective.device, block.objective.dtype)
        self._small.setdefault(key, []).append(block)
        self._held_back[key] += block.objective.numel()
        if self._held_back[key] >= CPU_BLOCK:
            self._advance_joined(self._small[key])
            del self._held_back[key]

    def _advance_joined(self, pieces: list[ParameterSlice]) -> None:
        """One pass over a copy of all pieces instead of one over each; then drop them."""
        block = _join(pieces)
        self._advance(block, compiles=False)
        # Copy what the kernel changed back to the pieces.
        moments = self._spec.addon.moment_estimator
        written = ["constraint", *(["objective"] if self._spec.strict else [])]
        if moments is not None and not moments.from_micro_batches:
            written += ["moment_u", "moment_c"]
        sizes = [piece.objective.numel() for piece in pieces]
        owners = [getattr(piece, field) for field in written for piece in pieces]
        values = [part for field in written for part in getattr(block, field).split(sizes)]
        torch._foreach_copy_(owners, values)
        pieces.clear()

    def _compiles(self, device: torch.device) -> bool:
        return self._compile and (device.type, self._spec) not in broken

    def _advance(self, block: ParameterSlice, *, compiles: bool) -> None:
        """Run the kernel over a block, with its random draws."""
        if self._spec.addon.draws:
            device = block.objective.device
            generator = self._state.generator(device, self._stream)
            size = block.objective.shape
            draws = torch.rand(size, generator=generator, device=device, dtype=torch.float32)
            block = block._replace(uniform=draws)
        sums = None
        if compiles:
            sums = run_compiled(self._spec, block, self._coefficients_for(block))
        if sums is None:
            sums = advance(self._spec, block, self._coefficients)
        self.sums.add(sums, block.objective.numel())

    def _coefficients_for(self, block: ParameterSlice) -> Tensor:
        """The coefficients as a tensor; filled, since copying from the host would wait for it."""
        key = (block.objective.device, moment_dtype(block.objective.dtype))
        if key not in self._coefficient_tensors:
            values = [torch.full((), v, dtype=key[1], device=key[0]) for v in self._coefficients]
            self._coefficient_tensors[key] = torch.stack(values)
        return self._coefficient_tensors[key]


def _join(pieces: list[ParameterSlice]) -> ParameterSlice:
    """One block of all pieces, a copy; they are on one device and of one type."""
    joined: list[Tensor | None] = []
    for field, tensors in zip(ParameterSlice._fields, zip(*pieces, strict=True), strict=True):
        if tensors[0] is None or field in ONE_FOR_ALL:
            joined.append(tensors[0])
        elif field == "threshold":  # one per parameter
            pairs = zip(tensors, pieces, strict=True)
            joined.append(torch.cat([t.expand(p.objective.shape) for t, p in pairs]))
        else:
            joined.append(torch.cat(tensors))
    return ParameterSlice(*joined)  # type: ignore[arg-type]


def _even_ranges(whole: int, count: int, limit: int) -> Iterator[tuple[int, int]]:
    """Even ranges of whole rows, none above ``limit``: a leftover of one row would recompile.

    If they cover all of ``count``, the last one also has what is left of a row.
    """
    rows, parts = whole // ROW, -(-whole // limit)
    stop = 0
    for part in range(1, parts + 1):
        start, stop = stop, rows * part // parts * ROW
        yield start, count if part == parts and whole == count else stop


@functools.lru_cache(maxsize=8)
def can_compile(device: str) -> bool:
    """Whether this machine has what ``torch.compile`` needs for ``device``."""
    if device == "cpu":
        candidates = (os.environ.get("CXX", ""), "g++", "clang++", "c++")
        return any(shutil.which(name) for name in candidates if name)
    return device == "cuda" and find_spec("triton") is not None


def run_compiled(
    spec: KernelSpec, block: ParameterSlice, coefficients: Tensor
) -> tuple[Tensor, ...] | None:
    """The sums of one block, or None if it could not be compiled (it is untouched then)."""
    device = block.objective.device.type
    rows = block.rows(ROW)
    for tensor in rows:
        if tensor is not None and tensor.dim() == 2:
            torch._dynamo.mark_dynamic(tensor, 0)  # type: ignore[no-untyped-call,unused-ignore]
    try:
        return compiled(spec)(rows, coefficients)  # type: ignore[no-any-return]
    except Exception as error:  # the compiler's failures share no base class
        broken.add((device, spec))
        reason = str(error).strip().splitlines()
        warnings.warn(
            f"torch.compile failed on {device} ({type(error).__name__}: "
            f"{reason[0] if reason else 'no message'}); the update continues without it.",
            RuntimeWarning,
            stacklevel=2,
        )
        return None


@functools.lru_cache(maxsize=128)
def compiled(spec: KernelSpec) -> Callable[..., Any]:
    """``advance`` for one spec through ``torch.compile``; raises nothing until it is called."""

    def kernel(block: ParameterSlice, coefficients: Tensor) -> tuple[Tensor, ...]:
        return advance(spec, block, coefficients.unbind())

    # The number of compilations per code object is limited: give each spec its own.
    renamed = types.FunctionType(
        kernel.__code__.replace(co_name=f"advance_{abs(hash(spec)):x}"),
        kernel.__globals__,
        closure=kernel.__closure__,
    )
    # Not `dynamic=True`: it would also turn every number in the formulas into an argument.
    return torch.compile(renamed, fullgraph=True)
