"""Parameters spread over processes: the part that is here, and the little that needs the others.

FSDP2 and tensor parallelism hold a parameter as a ``DTensor``, of which a process has one part.
All arithmetic of the update is elementwise, so it runs on the parts as they are. Three things need
all processes, and cost one small exchange each: the diagnostics, the medians of saliency, and the
word that a gradient somewhere is not finite.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from expunge._errors import InvalidInput

_HOMES = ("torch.distributed.tensor", "torch.distributed._tensor")
"""Where the type lives, now and before torch 2.5; nothing is spread before one is imported."""


def is_spread(tensor: Tensor) -> bool:
    """Whether a tensor is a ``DTensor``; asking imports nothing."""
    for home in _HOMES:
        kind = getattr(sys.modules.get(home), "DTensor", None)
        if kind is not None and isinstance(tensor, kind):
            return True
    return False


@torch.no_grad()
def local(tensor: Tensor) -> Tensor:
    """The part of a tensor that is here, in the same memory: all of it unless it is spread."""
    given: Any = tensor
    part: Tensor = given.to_local().detach() if is_spread(tensor) else tensor
    return part


@torch.no_grad()
def local_gradient(gradient: Tensor, parameter: Tensor) -> Tensor:
    """The part of a gradient that belongs to the part of its parameter that is here."""
    if not is_spread(parameter):
        return gradient
    given: Any = gradient
    wanted: Any = parameter
    if given.placements != wanted.placements:
        given = given.redistribute(wanted.device_mesh, wanted.placements)
    part = given.to_local()
    return part.wait() if hasattr(part, "wait") else part  # type: ignore[no-any-return]


def check_not_gathered(params: Sequence[Tensor]) -> None:
    """Refuse the whole parameters that FSDP puts into a module from forward to backward.

    After a backward pass they have no memory left, which tells them.
    """
    if "torch.distributed.fsdp" not in sys.modules:
        return
    gone = [p for p in params if p.numel() and not is_spread(p) and not p.untyped_storage().size()]
    if gone:
        raise InvalidInput(
            "`params` should be the sharded parameters, and FSDP swaps them for whole ones in a "
            "forward pass: take `params = list(model.parameters())` before it, once and for all. "
            f"(got {len(gone)} that are gone after the backward pass)"
        )


@dataclass(frozen=True)
class Family:
    """Parameters cut alike: along these dimensions of one mesh of processes."""

    ordinal: int
    groups: tuple[Any, ...]
    """The processes along each dimension; none where every process has all."""
    stream: str = ""
    """Names the random stream: different for different parts, the same for copies of a part."""
    device: str = "cpu"
    """What the processes exchange tensors on; parts may be kept elsewhere, offloaded."""

    def total(self, counts: Tensor) -> None:
        """Add up over the parts, in place."""
        moved = counts.to(self.device)
        for group in self.groups:
            torch.distributed.all_reduce(moved, group=group)
        if moved is not counts:
            counts.copy_(moved)

    def gathered(self, row: Tensor) -> Tensor:
        """The rows of all parts, [parts, length]; one row where nothing is cut."""
        rows = row[None].to(self.device)
        for group in self.groups:
            size = torch.distributed.get_world_size(group)
            every = [torch.empty_like(rows) for _ in range(size)]
            torch.distributed.all_gather(every, rows, group=group)
            rows = torch.cat(every)
        return rows


class Shards:
    """How the parameters of a step lie over the processes."""

    def __init__(self, params: Sequence[Tensor]) -> None:
        self._params = list(params)
        self.families: list[Family] = []
        self._of: list[int] = []
        known: dict[Any, int] = {}
        for p in params:
            cut = _cut(p)
            if cut not in known:
                known[cut] = len(known)
                self.families.append(_family(len(known) - 1, p, cut))
            self._of.append(known[cut])

    def here(self) -> list[Tensor]:
        """The part of each parameter that this process holds."""
        return [local(p) for p in self._params]

    def divided(self, used: Sequence[int]) -> list[tuple[Family, list[int]]]:
        """Each family, with the positions in ``used`` of its parameters."""
        return [
            (family, [j for j, k in enumerate(used) if self._of[k] == family.ordinal])
            for family in self.families
        ]

    def whole(self, k: int, part: Tensor) -> Tensor:
        """A tensor spread like parameter ``k``, from the part of it that is here; no copy."""
        p: Any = self._params[k]
        if not is_spread(p):
            return part
        kind: Any = type(p.detach())
        if part.device.type != p.device_mesh.device_type:  # offloaded by FSDP: leave it there
            return kind(part, p._spec, requires_grad=False)  # type: ignore[no-any-return]
        return kind.from_local(  # type: ignore[no-any-return]
            part, p.device_mesh, p.placements, run_check=False, shape=p.shape, stride=p.stride()
        )

    def total(self, flag: Tensor) -> Tensor:
        """A count added up over all families and parts: is there one anywhere?"""
        for family in self.families:
            family.total(flag)
        return flag


def divided(shards: Shards | None, used: Sequence[int]) -> list[tuple[Family, list[int]]]:
    """:meth:`Shards.divided`; one family that every process has all of where nothing is spread."""
    return [(Family(0, ()), [*range(len(used))])] if shards is None else shards.divided(used)


def shards_of(params: Sequence[Tensor]) -> Shards | None:
    """How ``params`` are spread; None where every one is a plain tensor."""
    if not any(home in sys.modules for home in _HOMES) or not any(map(is_spread, params)):
        return None
    return Shards(params)


def _cut(p: Any) -> tuple[Any, ...] | None:
    """The mesh and those of its dimensions along which a parameter is cut; None where it is not."""
    if not is_spread(p):
        return None
    for placement in p.placements:
        if placement.is_partial():
            raise InvalidInput(f"A parameter should be sharded or replicated. (got {placement})")
    dims = tuple(d for d, placement in enumerate(p.placements) if not placement.is_replicate())
    return (p.device_mesh, *dims)


def _family(ordinal: int, p: Any, cut: tuple[Any, ...] | None) -> Family:
    if cut is None or len(cut) == 1:
        return Family(ordinal, ())
    mesh, *dims = cut
    where = mesh.get_coordinate()
    stream = f"{ordinal}:" + ".".join(str(where[d]) for d in dims)
    return Family(ordinal, tuple(mesh.get_group(d) for d in dims), stream, mesh.device_type)
