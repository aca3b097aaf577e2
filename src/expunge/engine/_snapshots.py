"""Snapshots to roll back to, and the states of a run's parts that a checkpoint keeps."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LRScheduler

from expunge.update import AGGREGATES, Update

if TYPE_CHECKING:
    from expunge.engine._run import Run


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


def parts_state(run: Run) -> dict[str, Any]:
    """What a checkpoint keeps of the parts of a run."""
    simple = (bool, int, float, str, list, tuple, dict, Tensor, type(None))
    schedule = None
    if run.scheduler is not None:  # without its functions, which the caller passes again
        items = run.scheduler.state_dict().items()
        schedule = {k: v for k, v in items if isinstance(v, simple) and k != "lr_lambdas"}
    states = [(type(callback).__qualname__, callback.state_dict()) for callback in run.callbacks]
    return {
        "history": run.history.as_dict(),
        "model": run.model.state_dict(),
        "optimizer": run.optimizer.state_dict(),
        "scheduler": schedule,
        "update": run.update.state_dict(),
        "problem": run.problem.state_dict(),
        "callbacks": [{"kind": kind, "state": state} for kind, state in states if state],
        "aggregate": _chosen_aggregate(run),
    }


def load_parts_state(run: Run, tree: dict[str, Any]) -> None:
    """Continue from what :func:`parts_state` kept; a callback without a state starts fresh."""
    run.history.epochs, run.history.steps = tree["history"]["epochs"], tree["history"]["steps"]
    run.model.load_state_dict(tree["model"])
    run.optimizer.load_state_dict(tree["optimizer"])
    match_memory_format(run.optimizer)
    if run.scheduler is not None:
        current = run.scheduler.state_dict()  # with the functions that were left out
        run.scheduler.load_state_dict(current | tree["scheduler"])
    run.update.load_state_dict(tree["update"])
    run.problem.load_state_dict(tree["problem"])
    if kept := tree.get("aggregate"):
        run.update.aggregate = AGGREGATES[kept["name"]](**kept["options"])
    left = list(tree.get("callbacks", []))
    for callback in run.callbacks:  # each takes the first state left of its class
        kind = type(callback).__qualname__
        state = next((item for item in left if item["kind"] == kind), None)
        if state is not None:
            left.remove(state)
            callback.load_state_dict(state["state"])


def _chosen_aggregate(run: Run) -> dict[str, Any] | None:
    """A registered aggregation that a callback set, as plain values; None if there is none."""
    now = run.update.aggregate
    name = next((name for name, kind in AGGREGATES.items() if kind is type(now)), None)
    if name is None or now == run.procedure.aggregate:
        return None
    return {"name": name, "options": {f.name: getattr(now, f.name) for f in fields(now)}}


def _copied(node: Any) -> Any:
    if isinstance(node, Tensor):
        return node.detach().clone()
    if isinstance(node, dict):
        return {key: _copied(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_copied(value) for value in node]
    return node
