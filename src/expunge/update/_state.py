"""The state of an update: step count, moments laid out as the parameters, random streams."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from expunge._errors import InvalidInput
from expunge.update._shards import local_shard


class State:
    """What an update remembers from step to step.

    ``step`` counts the steps that had a constraint. ``moments_u`` and ``moments_c`` hold one buffer
    per parameter (or its part that is here), laid out like it, in float32 at least; none for
    add-ons without moments. ``aggregate`` holds the scalars that an aggregation keeps.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.step = 0
        self.moments_u: list[Tensor] = []
        self.moments_c: list[Tensor] = []
        self.aggregate: dict[str, Tensor] = {}
        self._generators: dict[str, torch.Generator] = {}
        self._layout: list[tuple[Any, ...]] = []

    def prepare(self, params: Sequence[Tensor]) -> None:
        """Make room for ``params`` at the first step; afterwards check that they are the same."""
        layout = [(p.shape, p.stride(), p.device, p.dtype) for p in params]
        if layout == self._layout:
            return
        if not self.moments_u:
            zeros = [torch.zeros_like(p, dtype=moment_dtype(p.dtype)) for p in params]
            self.moments_u, self.moments_c = zeros, [each.clone() for each in zeros]
        if [m.shape for m in self.moments_u] != [p.shape for p in params]:
            raise InvalidInput(
                "An update keeps moments for the parameters of its first step; these differ in "
                "number or shape. Make a new `Update` for another model."
            )
        for buffers in (self.moments_u, self.moments_c):
            for k, p in enumerate(params):
                buffers[k] = laid_out(buffers[k].to(p.device, moment_dtype(p.dtype)), p)
        self._layout = layout

    def generator(self, device: torch.device, stream: str = "") -> torch.Generator:
        """The random stream of a device; parts of sharded parameters have streams of their own."""
        key = f"{device}#{stream}" if stream else str(device)
        if key not in self._generators:
            seed = self.seed
            if stream:
                digest = hashlib.sha256(f"{seed}/{stream}".encode()).digest()
                seed = int.from_bytes(digest[:8], "little") >> 1
            self._generators[key] = torch.Generator(device).manual_seed(seed)
        return self._generators[key]

    def state_dict(self) -> dict[str, Any]:
        """A dict of plain values and of the live tensors: save or copy it before the next step."""
        return {
            "step": self.step,
            "moments_u": list(self.moments_u),
            "moments_c": list(self.moments_c),
            "generators": {key: g.get_state() for key, g in self._generators.items()},
            "aggregate": dict(self.aggregate),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where ``state_dict`` was taken."""
        missing = {"step", "moments_u", "moments_c", "generators", "aggregate"} - set(state)
        if missing:
            raise InvalidInput(f"The state lacks {sorted(missing)}; it is not an update's state.")
        if len(state["moments_u"]) != len(state["moments_c"]):
            raise InvalidInput("The state should hold as many moments of U as of C.")
        self.step = int(state["step"])
        self.moments_u = [local_shard(m).clone() for m in state["moments_u"]]
        self.moments_c = [local_shard(m).clone() for m in state["moments_c"]]
        self.aggregate = {name: value.clone() for name, value in state["aggregate"].items()}
        self._generators, self._layout = {}, []
        for key, bits in state["generators"].items():
            device, _, stream = key.partition("#")
            self.generator(torch.device(device), stream).set_state(bits.cpu())


def moment_dtype(dtype: torch.dtype) -> torch.dtype:
    """Statistics are kept in float32, or in float64 beside float64 parameters."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def laid_out(tensor: Tensor | None, like: Tensor) -> Tensor:
    """``tensor`` itself if dense in the memory order of ``like``, else a copy; zeros for None."""
    if tensor is None:
        return torch.zeros_like(like, requires_grad=False)
    tensor = tensor.detach()
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    if tensor.is_contiguous() and like.is_contiguous():
        return tensor
    # The strides of a dense tensor laid out like ``like``: channels-last stays so. That of a
    # dimension of one element does not matter.
    strides = torch.empty_like(like, device="meta").stride()
    pairs = zip(tensor.shape, tensor.stride(), strides, strict=True)
    if all(size == 1 or actual == wanted for size, actual, wanted in pairs):
        return tensor
    copy = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device)
    return copy.copy_(tensor)


def flat(tensor: Tensor) -> Tensor:
    """A dense tensor as one dimension in memory order: a view, never a copy."""
    tensor = tensor.detach()
    if tensor.is_contiguous():
        return tensor.view(-1)
    return tensor.as_strided((tensor.numel(),), (1,), tensor.storage_offset())


def flatten(tensors: list[Tensor]) -> Tensor:
    """All tensors in one vector, a copy, on the first one's device, in float32 at least."""
    device, dtype = tensors[0].device, common_dtype(tensors)
    return torch.cat([flat(t).to(device, dtype) for t in tensors])


def common_dtype(tensors: Iterable[Tensor]) -> torch.dtype:
    """The type that holds the values of all ``tensors``, float32 at least."""
    dtypes = {tensor.dtype for tensor in tensors}
    return functools.reduce(torch.promote_types, dtypes, torch.float32)
