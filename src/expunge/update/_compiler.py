"""The kernel through ``torch.compile``: one fused loop over memory, where a compiler exists.

Blocks are seen as rows of ``ROW`` elements whose number is symbolic, so that one compilation
serves every parameter of every model. Where compiling fails, the update continues without it.
"""

from __future__ import annotations

import functools
import os
import shutil
import types
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from expunge.update._kernel import Block, KernelSpec, advance

ROW = 1024
COMPILE_FROM = 4_000_000
"""The number of parameters from which a compilation (about 10 s, once) pays for itself."""

broken: set[tuple[str, KernelSpec]] = set()
"""Devices and specs for which compiling failed in this process."""


@functools.lru_cache(maxsize=8)
def can_compile(device: str) -> bool:
    """Whether this machine has what ``torch.compile`` needs for ``device``."""
    if device == "cpu":
        candidates = (os.environ.get("CXX", ""), "g++", "clang++", "c++")
        return any(shutil.which(name) for name in candidates if name)
    return device == "cuda" and find_spec("triton") is not None


def run_compiled(spec: KernelSpec, block: Block, constants: Tensor) -> tuple[Tensor, ...] | None:
    """The sums of one block, or None if it could not be compiled (it is untouched then)."""
    device = block.objective.device.type
    rows = block.rows(ROW)
    for tensor in rows:
        if tensor is not None and tensor.dim() == 2:
            torch._dynamo.mark_dynamic(tensor, 0)  # type: ignore[no-untyped-call,unused-ignore]
    try:
        return compiled(spec)(rows, constants)  # type: ignore[no-any-return]
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

    def kernel(block: Block, constants: Tensor) -> tuple[Tensor, ...]:
        return advance(spec, block, constants.unbind())

    # The number of compilations per code object is limited: give each spec its own.
    renamed = types.FunctionType(
        kernel.__code__.replace(co_name=f"advance_{abs(hash(spec)):x}"),
        kernel.__globals__,
        closure=kernel.__closure__,
    )
    # Not `dynamic=True`: it would also turn every number in the formulas into an argument.
    return torch.compile(renamed, fullgraph=True)
