"""Trees of tensors and plain values in one safetensors file: written atomically, read safely."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from expunge._errors import DataError, StorageError
from expunge._files import atomic, require_file


def save(path: str | Path, tensors: dict[str, Tensor], metadata: dict[str, Any]) -> None:
    """Write ``tensors`` and JSON ``metadata`` (mode 600); a digest of both guards against damage.

    Equal content gives equal bytes: safetensors orders metadata entries at random, so there is one.
    """
    # A contiguous copy on the host: tied tensors may not share memory in a file.
    flat = {
        name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()
    }
    text = json.dumps(metadata, sort_keys=True)
    notes = {"expunge": f"{state_digest(flat, text)} {text}"}
    with atomic(path, private=True) as scratch:
        try:
            safetensors.torch.save_file(flat, scratch, metadata=notes)
        except safetensors.SafetensorError as error:  # the library wraps the system's errors
            raise StorageError(
                f"Could not write {path}: {error}. The previous content is kept."
            ) from error


def load(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read tensors and metadata that :func:`save` wrote; refuse a damaged file."""
    path = Path(path)
    require_file(path)
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            notes = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (safetensors.SafetensorError, OSError) as error:
        raise DataError(f"{path} is truncated or not a safetensors file: {error}.") from error
    if "expunge" not in notes:
        return tensors, {}
    digest, _, text = notes["expunge"].partition(" ")
    if digest != state_digest(tensors, text):
        raise DataError(f"{path} has been changed since it was written: its digest does not match.")
    return tensors, json.loads(text)


def pack(tree: Any) -> tuple[dict[str, Tensor], Any]:
    """Take the tensors out of a tree of dicts, lists, tuples and plain values."""
    tensors: dict[str, Tensor] = {}

    def walk(node: Any) -> Any:
        if isinstance(node, Tensor):
            tensors[f"{len(tensors)}"] = node
            return {"tensor": f"{len(tensors) - 1}"}
        if isinstance(node, dict):
            return {"dict": [[key, walk(value)] for key, value in node.items()]}
        if isinstance(node, tuple):
            return {"tuple": [walk(value) for value in node]}
        if isinstance(node, list):
            return [walk(value) for value in node]
        if node is None or isinstance(node, (bool, int, float, str)):
            return node
        raise StorageError(f"A {type(node).__name__} cannot be kept in a checkpoint.")

    return tensors, walk(tree)


def unpack(tensors: dict[str, Tensor], node: Any) -> Any:
    """Rebuild the tree that :func:`pack` took apart."""
    if isinstance(node, list):
        return [unpack(tensors, value) for value in node]
    if not isinstance(node, dict):
        return node
    ((kind, value),) = node.items()
    if kind == "tensor":
        return tensors[value]
    if kind == "dict":
        return {key: unpack(tensors, item) for key, item in value}
    return tuple(unpack(tensors, item) for item in value)


def state_digest(state: Mapping[str, Tensor], text: str = "") -> str:
    """SHA-256 of ``text``, names, types, shapes and values, whatever file holds them."""
    digest = hashlib.sha256(text.encode())
    for name, tensor in sorted(state.items()):
        digest.update(f"{name}:{tensor.dtype}:{tuple(tensor.shape)}".encode())
        digest.update(bytes_of(tensor))
    return digest.hexdigest()


def bytes_of(tensor: Tensor) -> memoryview:
    """The values of a tensor in its logical order, for a digest."""
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
