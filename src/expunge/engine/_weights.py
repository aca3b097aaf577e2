"""Weights files, read without executing any code in them."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from expunge import _tensors as tensors
from expunge._errors import DataError, InvalidInput
from expunge._files import TORCH_SUFFIXES, require_file

STATE_KEYS = ("state_dict", "model_state_dict", "model", "net")
"""Keys under which checkpoints keep their weights."""
PREFIXES = ("module.", "_orig_mod.")
"""Prefixes that DataParallel and torch.compile put before every name."""

State = dict[str, Tensor]


def read_state(path: Path) -> tuple[State, dict[str, Any]]:
    """Weights by name, and what expunge wrote about them: nothing, if it did not write the file."""
    if path.suffix.lower() in TORCH_SUFFIXES:
        require_file(path)
        return _find_state(path, _load(path)), {}
    return tensors.load(path)


def without_prefix(state: State, model: nn.Module) -> State:
    """``state`` without a prefix that all of its names have and the model's names do not."""
    expected = model.state_dict()
    for prefix in PREFIXES:
        foreign = not any(name.startswith(prefix) for name in expected)
        if foreign and all(name.startswith(prefix) for name in state):
            state = {name.removeprefix(prefix): value for name, value in state.items()}
    return state


def _load(path: Path) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about TorchScript files, which are refused below
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise _not_only_tensors(path) from error
    except (RuntimeError, EOFError, OSError, ValueError, KeyError) as error:
        if "TorchScript" in str(error):
            raise _not_only_tensors(path) from error
        raise DataError(f"{path} is truncated or not a torch file: {error}.") from error


def _not_only_tensors(path: Path) -> InvalidInput:
    return InvalidInput(
        f"{path} holds more than tensors, such as a pickled module or a script; it could run code, "
        "so it was not opened. Save the weights alone, torch.save(model.state_dict(), FILE), and "
        "name the model as package.module:factory."
    )


def _find_state(path: Path, content: Any) -> State:
    for _ in range(3):
        if not isinstance(content, dict):
            break
        if content and all(isinstance(value, Tensor) for value in content.values()):
            return {str(name): value for name, value in content.items()}
        inner = next(
            (content[key] for key in STATE_KEYS if isinstance(content.get(key), dict)), None
        )
        if inner is None:
            break
        content = inner
    raise InvalidInput(
        f"{path} should hold a state dict, by itself or under one of {', '.join(STATE_KEYS)}. "
        f"(got {_described(content)}) Save it with torch.save(model.state_dict(), FILE)."
    )


def _described(content: Any) -> str:
    if isinstance(content, dict):
        return f"a dict of {', '.join(repr(str(key)) for key in list(content)[:5]) or 'nothing'}"
    return type(content).__name__
