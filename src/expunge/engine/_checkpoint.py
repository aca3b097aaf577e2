"""Checkpoints: everything a killed run needs to resume, in one file that is never half-written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from expunge import _tensors as tensors
from expunge._errors import DataError, InvalidInput

if TYPE_CHECKING:
    from expunge.engine._run import Run

VERSION = 1


def save_checkpoint(path: Path, identity: dict[str, Any], tree: dict[str, Any]) -> None:
    """Write ``tree`` with the identity of the run it belongs to, for its owner's eyes only."""
    arrays, plain = tensors.pack(tree)
    notes = {"version": VERSION, "fingerprint": identity, "tree": plain}
    tensors.save(path, arrays, notes)


def load_checkpoint(path: Path, identity: dict[str, Any]) -> dict[str, Any]:
    """The tree in ``path``; refused if it belongs to another run."""
    arrays, notes = tensors.load(path)
    if notes.get("version") != VERSION:
        raise DataError(f"{path} is not a checkpoint of this version of expunge.")
    if notes["fingerprint"] != identity:
        old = notes["fingerprint"]
        names = sorted(k for k in {*old, *identity} if old.get(k) != identity.get(k))
        raise InvalidInput(
            f"{path} belongs to another run (it differs in {', '.join(names)}). Use another path, "
            "or delete it to start again."
        )
    tree: dict[str, Any] = tensors.unpack(arrays, notes["tree"])
    return tree


def run_identity(run: Run) -> dict[str, Any]:
    """What a checkpoint belongs to: not for how long to run, nor where."""
    chosen = run.procedure.checkpoint_bound_options() | run.execution.checkpoint_bound_options()
    return {name: stable_repr(value) for name, value in chosen.items()} | {
        "loss": stable_repr(run.problem.loss_function),
        "augment": stable_repr(run.augment),
        "seed": run.execution.seed,
        "forget": None if run.forget is None else run.forget.fingerprint(),
        "retain": run.retain.fingerprint(),
        "optimizer": stable_repr(run.optimizer),
        "recipe": stable_repr(run.recipe),
        "model": tensors.state_digest(run.model.state_dict()),
        "processes": run.group.size,
    }


def save_run(run: Run, path: Path) -> None:
    """Write what the rest of a run depends on; all processes call this, and the first writes."""
    simple = (bool, int, float, str, list, tuple, dict, Tensor, type(None))
    schedule = None
    if run.scheduler is not None:  # without its functions, which the caller passes again
        items = run.scheduler.state_dict().items()
        schedule = {k: v for k, v in items if isinstance(v, simple) and k != "lr_lambdas"}
    # The global random state, which layers such as dropout draw from, in every process.
    random: dict[str, Any] = {"cpu": torch.get_rng_state()}
    if run.device.type == "cuda":
        random["cuda"] = torch.cuda.get_rng_state(run.device)
    streams = run.group.exchange(random)
    states = [(type(callback).__qualname__, callback.state_dict()) for callback in run.callbacks]
    tree = {
        "step": run.step,
        "forget": None if run.forget_stream is None else run.forget_stream.position,
        "retain": run.retain_stream.position,
        "seconds": run.watch.seconds,
        "processor_seconds": run.watch.processor_seconds,
        "rows": run.recorder.read(),
        "random": streams if run.group else random,
        "history": run.history.as_dict(),
        "model": run.model.state_dict(),
        "optimizer": run.optimizer.state_dict(),
        "scheduler": schedule,
        "update": run.update.state_dict(),
        "problem": run.problem.state_dict(),
        "callbacks": [{"kind": kind, "state": state} for kind, state in states if state],
    }
    run.group.run_in_first(lambda: save_checkpoint(path, run.identity, tree))


def find_run(run: Run, path: Path) -> dict[str, Any] | None:
    """The state of a run in ``path``; None if there is no file, refused if it is another run's."""
    return run.group.run_in_first(
        lambda: load_checkpoint(path, run.identity) if path.exists() else None
    )


def load_run_state(run: Run, tree: dict[str, Any]) -> None:
    """Continue from what :func:`save_run` kept; a callback without a state starts fresh."""
    if run.forget_stream is not None:
        run.forget_stream.seek(tree["forget"])
    run.retain_stream.seek(tree["retain"])
    run.watch.seconds = tree["seconds"]
    run.watch.processor_seconds = tree["processor_seconds"]
    run.recorder.rows = tree["rows"]
    random = tree["random"][run.group.rank] if run.group else tree["random"]
    torch.set_rng_state(random["cpu"])
    if "cuda" in random and run.device.type == "cuda":
        torch.cuda.set_rng_state(random["cuda"], run.device)
    run.history.epochs, run.history.steps = tree["history"]["epochs"], tree["history"]["steps"]
    run.model.load_state_dict(tree["model"])
    run.optimizer.load_state_dict(tree["optimizer"])
    _match_memory_format(run.optimizer)
    if run.scheduler is not None:
        current = run.scheduler.state_dict()  # with the functions that were left out
        run.scheduler.load_state_dict(current | tree["scheduler"])
    run.update.load_state_dict(tree["update"])
    run.problem.load_state_dict(tree["problem"])
    left = list(tree["callbacks"])
    for callback in run.callbacks:  # each takes the first state left of its class
        kind = type(callback).__qualname__
        state = next((item for item in left if item["kind"] == kind), None)
        if state is not None:
            left.remove(state)
            callback.load_state_dict(state["state"])


def _match_memory_format(optimizer: torch.optim.Optimizer) -> None:
    """Give loaded state the memory format of its parameters, which files do not keep.

    Fused optimizers walk through parameter and state side by side in memory, unchecked.
    """
    for p, state in optimizer.state.items():
        for name, value in state.items():
            if isinstance(value, Tensor) and value.shape == p.shape:
                state[name] = torch.empty_like(p, dtype=value.dtype).copy_(value)


def stable_repr(value: object) -> str:
    """The ``repr`` of a value or the name of a function; the same in every process."""
    text = getattr(value, "__qualname__", None) or repr(value)
    return re.sub(r" at 0x[0-9a-f]+", "", text)
