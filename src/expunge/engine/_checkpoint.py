"""Checkpoints: everything a killed run needs to resume, in one file that is never half-written."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import torch
from torch import nn

from expunge import _tensors as tensors
from expunge._errors import DataError, InvalidInput

VERSION = 1


def save_checkpoint(path: Path, fingerprint: dict[str, Any], tree: dict[str, Any]) -> None:
    """Write ``tree`` with the fingerprint of the run it belongs to, for its owner's eyes only."""
    arrays, plain = tensors.pack(tree)
    notes = {"version": VERSION, "fingerprint": fingerprint, "tree": plain}
    tensors.save(path, arrays, notes)


def load_if_there(path: Path | None, fingerprint: dict[str, Any]) -> dict[str, Any] | None:
    """The tree in ``path``, if there is one; refused if it belongs to another run."""
    return load_checkpoint(path, fingerprint) if path is not None and path.exists() else None


def load_checkpoint(path: Path, fingerprint: dict[str, Any]) -> dict[str, Any]:
    """The tree in ``path``; refused if it belongs to another run."""
    arrays, notes = tensors.load(path)
    if notes.get("version") != VERSION:
        raise DataError(f"{path} is not a checkpoint of this version of expunge.")
    if notes["fingerprint"] != fingerprint:
        old = notes["fingerprint"]
        names = sorted(k for k in {*old, *fingerprint} if old.get(k) != fingerprint.get(k))
        raise InvalidInput(
            f"{path} belongs to another run (it differs in {', '.join(names)}). Use another path, "
            "or delete it to start again."
        )
    tree: dict[str, Any] = tensors.unpack(arrays, notes["tree"])
    return tree


def describe(part: object) -> str:
    """The ``repr`` of a part or the name of a function; the same in every process."""
    text = getattr(part, "__qualname__", None) or repr(part)
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def read_random_state(device: torch.device) -> dict[str, Any]:
    """The global random state, which layers such as dropout draw from."""
    state: dict[str, Any] = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def write_random_state(state: dict[str, Any], device: torch.device) -> None:
    """Restore what :func:`read_random_state` returned."""
    torch.set_rng_state(state["cpu"])
    if "cuda" in state and device.type == "cuda":
        torch.cuda.set_rng_state(state["cuda"], device)


def model_digest(model: nn.Module) -> str:
    """A hash of all weights and buffers."""
    state = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        state.update(f"{name}:{tensor.dtype}:{tuple(tensor.shape)}".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        state.update(flat.view(torch.uint8).numpy().data)
    return state.hexdigest()
