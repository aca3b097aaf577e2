"""What a Trainer's checkpoint lacks: moments, random streams, the position in the retain data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor, nn

from expunge._errors import DataError
from expunge.data import Stream
from expunge.distributed import Group
from expunge.engine import load_checkpoint, save_checkpoint
from expunge.methods import Problem
from expunge.update import Update, is_sharded

STATE_FILE = "expunge.safetensors"
MOMENTS = ("moments_u", "moments_c")


def find_checkpoint(resume: str | bool | None, output_dir: str) -> Path | None:
    """The folder to resume from; ``True`` is the last one in ``output_dir``."""
    from transformers.trainer_utils import get_last_checkpoint

    if resume is None or resume is False:
        return None
    folder = get_last_checkpoint(output_dir) if resume is True else resume
    if folder is None:
        raise DataError(f"There is no checkpoint to resume from in {output_dir}.")
    return Path(folder)


def save_state(
    folder: Path,
    fingerprint: dict[str, str],
    update: Update,
    problem: Problem,
    retain: Stream,
    group: Group,
) -> None:
    """Write what the Trainer does not save; all processes call this, and the first one writes.

    Moments of sharded parameters are gathered tensor by tensor, in the memory of the first process.
    """
    state = update.state_dict()
    for name in MOMENTS:
        state[name] = [_whole(moment, keep=group.is_first) for moment in state[name]]
    streams = group.exchange(state["generators"])  # shards have streams of their own
    state["generators"] = {key: value for each in streams for key, value in each.items()}
    tree = {"update": state, "problem": problem.state_dict(), "retain": retain.position}
    group.run_in_first(lambda: save_checkpoint(folder / STATE_FILE, fingerprint, tree))


def load_state(folder: Path, fingerprint: dict[str, str]) -> dict[str, Any]:
    """What :func:`save_state` wrote; refuse a file with another ``fingerprint``."""
    return load_checkpoint(folder / STATE_FILE, fingerprint)


def restore_update(update: Update, state: dict[str, Any], moving: list[nn.Parameter]) -> None:
    """Load the state of an update; of sharded parameters, the part that is here."""
    shared = {name: _like(state[name], moving) for name in MOMENTS}
    update.load_state_dict(state | shared)


def _whole(moment: Any, *, keep: bool) -> Tensor | None:
    if not is_sharded(moment):
        return moment  # type: ignore[no-any-return]
    gathered = moment.full_tensor()
    return gathered.cpu() if keep else None


def _like(moments: list[Tensor], moving: list[nn.Parameter]) -> list[Tensor]:
    """Each moment sharded as its parameter is."""
    if not any(map(is_sharded, moving)):
        return moments
    from torch.distributed.tensor import DTensor, distribute_tensor

    return [
        distribute_tensor(m.to(p.device), p.device_mesh, p.placements, src_data_rank=None)
        if is_sharded(p) and isinstance(p, DTensor)
        else m
        for m, p in zip(moments, moving, strict=True)
    ]
