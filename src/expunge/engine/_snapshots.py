"""What lets a callback steer a run: snapshots to roll back to, learning rates, kept states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LRScheduler

from expunge.engine._callbacks import Callback
from expunge.update import AGGREGATES, Aggregate, Update


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Copies of the weights and buffers, and of the state of the optimizer and the update."""

    model: dict[str, Tensor]
    optimizer: dict[str, Any]
    update: dict[str, Any]

    def state_dict(self) -> dict[str, Any]:
        """The three parts, for a checkpoint; ``Snapshot(**state)`` is the way back."""
        return {"model": self.model, "optimizer": self.optimizer, "update": self.update}


def take_snapshot(model: nn.Module, optimizer: torch.optim.Optimizer, update: Update) -> Snapshot:
    """Copy everything that steps change."""
    state = optimizer.state_dict()["state"]
    parts = (dict(model.state_dict()), dict(state), update.state_dict())
    return Snapshot(*(_copied(part) for part in parts))


def restore_snapshot(
    snapshot: Snapshot, model: nn.Module, optimizer: torch.optim.Optimizer, update: Update
) -> None:
    """Load a snapshot; the optimizer keeps its current learning rates."""
    model.load_state_dict(snapshot.model)
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": _copied(snapshot.optimizer), "param_groups": groups})
    match_memory_format(optimizer)
    update.load_state_dict(snapshot.update)


def match_memory_format(optimizer: torch.optim.Optimizer) -> None:
    """Give loaded state the memory format of its parameters, which files do not keep.

    Fused optimizers walk through parameter and state side by side in memory, unchecked.
    """
    for p, state in optimizer.state.items():
        for name, value in state.items():
            if isinstance(value, Tensor) and value.shape == p.shape:
                state[name] = torch.empty_like(p, dtype=value.dtype).copy_(value)


def scale_rates(optimizer: torch.optim.Optimizer, scheduler: LRScheduler | None, lr: float) -> None:
    """Set the first group's rate to ``lr``, and scale all others by the same factor."""
    factor = lr / float(optimizer.param_groups[0]["lr"])
    for group in optimizer.param_groups:
        group["lr"] = group["lr"] * factor
    optimizer.param_groups[0]["lr"] = lr
    if scheduler is not None:
        scheduler.base_lrs = [rate * factor for rate in scheduler.base_lrs]


def without_functions(scheduler: LRScheduler | None) -> dict[str, Any] | None:
    """A scheduler's state without its functions, which the caller passes again."""
    if scheduler is None:
        return None
    simple = (bool, int, float, str, list, tuple, dict, Tensor, type(None))
    items = scheduler.state_dict().items()
    return {k: v for k, v in items if isinstance(v, simple) and k != "lr_lambdas"}


def describe_aggregate(now: Aggregate, first: Aggregate) -> dict[str, Any] | None:
    """An aggregation that a callback set, as plain values; None if there is nothing to keep."""
    name = next((name for name, kind in AGGREGATES.items() if kind is type(now)), None)
    if name is None or now == first:
        return None
    return {"name": name, "options": {f.name: getattr(now, f.name) for f in fields(now)}}


def restore_aggregate(kept: dict[str, Any] | None, first: Aggregate) -> Aggregate:
    """The aggregation to continue with."""
    return first if kept is None else AGGREGATES[kept["name"]](**kept["options"])


def callback_states(callbacks: Sequence[Callback]) -> list[dict[str, Any]]:
    """The states of the callbacks that have one, in their order."""
    states = [(type(callback).__qualname__, callback.state_dict()) for callback in callbacks]
    return [{"kind": kind, "state": state} for kind, state in states if state]


def restore_callbacks(callbacks: Sequence[Callback], kept: list[dict[str, Any]]) -> None:
    """Give each callback the first state left of its class; one without a state starts fresh."""
    left = list(kept)
    for callback in callbacks:
        kind = type(callback).__qualname__
        state = next((item for item in left if item["kind"] == kind), None)
        if state is not None:
            left.remove(state)
            callback.load_state_dict(state["state"])


def _copied(node: Any) -> Any:
    if isinstance(node, Tensor):
        return node.detach().clone()
    if isinstance(node, dict):
        return {key: _copied(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_copied(value) for value in node]
    return node
