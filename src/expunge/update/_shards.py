"""Parameters sharded over processes: the shard that is here, and what needs the others.

FSDP2 and tensor parallelism hold a parameter as a ``DTensor``, of which a process has one shard.
All arithmetic of the update is elementwise, so it runs on the shards as they are. Processes
exchange a few numbers for the diagnostics, for the largest entries of the gradients, and for the
products of the gradients (``AdaptiveSum``, ``eps="relative"``). Only the quantiles of ``Saliency``
need whole tensors: its gradient is gathered, one parameter at a time.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from expunge._errors import InvalidInput

_PLAIN = (Tensor, torch.nn.Parameter)


def is_sharded(tensor: Tensor) -> bool:
    """Whether a tensor is a ``DTensor``; asking imports nothing."""
    if type(tensor) in _PLAIN:
        return False
    home = sys.modules.get("torch.distributed.tensor")  # nothing is sharded before its import
    return home is not None and isinstance(tensor, home.DTensor)


def local_shard(tensor: Tensor) -> Tensor:
    """The shard of a tensor that is here, in the same memory: all of it unless it is sharded."""
    if not is_sharded(tensor):
        return tensor
    given: Any = tensor
    with torch.no_grad():
        shard: Tensor = given.to_local().detach()
    return shard


def local_gradient(gradient: Tensor, parameter: Tensor) -> Tensor:
    """The shard of a gradient that belongs to the shard of its parameter that is here."""
    if not is_sharded(parameter):
        return gradient
    given: Any = gradient
    wanted: Any = parameter
    with torch.no_grad():
        if given.placements != wanted.placements:
            given = given.redistribute(wanted.device_mesh, wanted.placements)
        part = given.to_local()
        return part.wait() if hasattr(part, "wait") else part  # type: ignore[no-any-return]


def check_not_gathered(params: Sequence[Tensor]) -> None:
    """Refuse the whole parameters that FSDP puts into a module from forward to backward."""
    if "torch.distributed.fsdp" not in sys.modules:
        return
    plain = [p for p in params if type(p) in _PLAIN and p.numel() > 0]
    gone = sum(not p.untyped_storage().size() for p in plain)
    if gone:
        raise InvalidInput(
            "`params` should be the sharded parameters, and FSDP swaps them for whole ones in a "
            "forward pass: take `params = list(model.parameters())` before it, once and for all. "
            f"(got {gone} that are gone after the backward pass)"
        )


@dataclass(frozen=True)
class ShardLayout:
    """How some parameters are sharded: along these dimensions of one mesh of processes."""

    groups: tuple[Any, ...] = ()
    """The processes along each dimension; none where every process holds all."""
    stream: str = ""
    """The name of the random stream: different for each shard, the same for its copies."""
    device: str = "cpu"
    """The device that processes exchange tensors on; shards may be offloaded elsewhere."""

    def sum_over_shards(self, values: Tensor) -> None:
        """Sum over the shards, in place."""
        moved = values.to(self.device)
        for group in self.groups:
            torch.distributed.all_reduce(moved, group=group)
        if moved is not values:
            values.copy_(moved)

    def gather_rows(self, row: Tensor) -> Tensor:
        """The rows of all shards, [shards, length]; one row where nothing is sharded."""
        rows = row[None].to(self.device)
        for group in self.groups:
            size = torch.distributed.get_world_size(group)
            every = [torch.empty_like(rows) for _ in range(size)]
            torch.distributed.all_gather(every, rows, group=group)
            rows = torch.cat(every)
        return rows


WHOLE = ShardLayout()
"""Every process holds all of a parameter."""


class ShardedParameters:
    """The parameters of a step, and how each of them is sharded."""

    def __init__(self, params: Sequence[Tensor]) -> None:
        self._params = list(params)
        self._dims = [_sharded_dims(p) for p in params]
        self._layouts = {
            dims: _layout_of(number, dims) for number, dims in enumerate(dict.fromkeys(self._dims))
        }

    def local_shards(self) -> list[Tensor]:
        """The shard of each parameter that this process holds."""
        return [local_shard(p) for p in self._params]

    def by_layout(self, used: Sequence[int]) -> list[tuple[ShardLayout, list[int]]]:
        """Each layout, with the positions in ``used`` of its parameters."""
        return [
            (layout, [j for j, k in enumerate(used) if self._dims[k] == dims])
            for dims, layout in self._layouts.items()
        ]

    def as_sharded(self, k: int, part: Tensor) -> Tensor:
        """A tensor sharded like parameter ``k``, from the part of it that is here; no copy."""
        p: Any = self._params[k]
        if not is_sharded(p):
            return part
        kind: Any = type(p.detach())
        sharded: Tensor
        if part.device.type != p.device_mesh.device_type:  # offloaded by FSDP: leave it there
            sharded = kind(part, p._spec, requires_grad=False)
        else:
            size = {"shape": p.shape, "stride": p.stride()}
            sharded = kind.from_local(part, p.device_mesh, p.placements, run_check=False, **size)
        return sharded

    def gathered(self, k: int, part: Tensor) -> Tensor:
        """The whole of a tensor sharded like parameter ``k``, in every process."""
        p: Any = self._params[k]
        if not is_sharded(p):
            return part
        sharded: Any = self.as_sharded(k, part.to(p.device_mesh.device_type))
        return sharded.full_tensor().to(part.device)  # type: ignore[no-any-return]


def _sharded_dims(p: Any) -> tuple[Any, ...] | None:
    """The mesh and its dimensions along which a parameter is sharded; None for a plain tensor."""
    if not is_sharded(p):
        return None
    for placement in p.placements:
        if placement.is_partial():
            raise InvalidInput(f"A parameter should be sharded or replicated. (got {placement})")
    dims = tuple(d for d, placement in enumerate(p.placements) if not placement.is_replicate())
    return (p.device_mesh, *dims)


def _layout_of(number: int, mesh_dims: tuple[Any, ...] | None) -> ShardLayout:
    if mesh_dims is None or len(mesh_dims) == 1:
        return WHOLE
    mesh, *dims = mesh_dims
    where = mesh.get_coordinate()
    stream = f"{number}:" + ".".join(str(where[d]) for d in dims)
    return ShardLayout(tuple(mesh.get_group(d) for d in dims), stream, mesh.device_type)
