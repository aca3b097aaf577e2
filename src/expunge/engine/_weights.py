"""Files that somebody else may have written: weights without code, and the code that cards name.

Such a file never causes an import, a call or a download. Built-in models and data that are read as
files need none of these; everything else has to be named by the user, on the command line or in a
call.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from expunge import _tensors as tensors
from expunge._errors import DataError, InvalidInput
from expunge._factory import is_factory
from expunge._files import TORCH_SUFFIXES, require_file
from expunge._specs import split_spec
from expunge.data import DATASETS

STATE_KEYS = ("state_dict", "model_state_dict", "model", "net", "module")
"""Keys under which checkpoints keep their weights."""
PREFIXES = ("module.", "_orig_mod.")
"""Prefixes that DataParallel and torch.compile put before every name."""
LIBRARIES = {"hf": "transformers", "causal": "transformers"}
"""Libraries that build a model, by what the model's name begins with."""
OTHER_COMPUTERS = ("//", "\\\\")
"""How paths to files of another computer begin on some systems."""
IMPORTING = "hf"
"""The built-in format that another library reads, which may download the data."""

StateDict = dict[str, Tensor]


def read_state(path: Path) -> tuple[StateDict, dict[str, Any]]:
    """Weights by name, and what expunge wrote about them: nothing, if it did not write the file."""
    state: StateDict
    notes: dict[str, Any]
    if path.suffix.lower() in TORCH_SUFFIXES:
        require_file(path)
        state, notes = _find_state(path, _load(path)), {}
    else:
        state, notes = tensors.load(path)
    for name, tensor in state.items():
        if kind := _unusable_kind(tensor):
            raise InvalidInput(
                "Weights should be dense tensors, of 16 bits per number or more. (got "
                f"{kind} in {path}, {name}) Convert them before saving: to_dense(), dequantize() "
                "or float()."
            )
    return state, notes


def _unusable_kind(tensor: Tensor) -> str:
    """What makes a tensor one that models cannot be run or compared with; empty if nothing does."""
    if tensor.is_meta:
        return "a meta tensor, without values,"
    if tensor.is_quantized:
        return "a quantized tensor"
    if tensor.is_nested or tensor.layout is not torch.strided:
        return "a sparse or nested tensor"
    small = tensor.is_floating_point() and tensor.dtype.itemsize < 2
    return f"{tensor.dtype}" if small else ""


def without_prefix(state: StateDict, model: nn.Module) -> StateDict:
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
        why = str(error) or "it is empty"
        raise DataError(f"{path} is truncated or not a torch file: {why}.") from error


def _not_only_tensors(path: Path) -> InvalidInput:
    return InvalidInput(
        f"{path} holds more than tensors, such as a pickled module or a script; it could run code, "
        "so it was not opened. Save the weights alone, torch.save(model.state_dict(), FILE), and "
        "name the model as package.module:factory."
    )


def _find_state(path: Path, content: Any) -> StateDict:
    key, state = _unwrap(content)
    if state is None:
        got = type(content).__name__
        if isinstance(content, dict):
            keys = ", ".join(repr(str(key)) for key in list(content)[:5])
            got = f"a dict of {keys or 'nothing'}"
        raise InvalidInput(
            f"{path} should hold a state dict, by itself or under one of {', '.join(STATE_KEYS)}. "
            f"(got {got}) Save it with torch.save(model.state_dict(), FILE)."
        )
    for other, value in content.items():
        copy = _unwrap(value)[1]
        if other != key and copy is not None and 2 * len(copy) >= len(state):
            raise InvalidInput(
                f"{path} holds weights more than once, under {key!r} and {other!r}. Save those "
                f"that are meant by themselves: torch.save(torch.load(FILE)[{other!r}], OTHER)."
            )
    return {str(name): value for name, value in state.items()}


def _unwrap(content: Any, levels: int = 3) -> tuple[str | None, StateDict | None]:
    """The first state dict in a checkpoint, and the key it is under; None if it is all there is."""
    if not isinstance(content, dict) or not content:
        return None, None
    if all(isinstance(value, Tensor) for value in content.values()):
        return None, content
    found = ((key, _unwrap(content.get(key), levels - 1)[1]) for key in STATE_KEYS if levels)
    return next((pair for pair in found if pair[1] is not None), (None, None))


def describe_imports_of_model(spec: str, options: Mapping[str, Any] | None = None) -> str:
    """What building a model would import and call, in words; empty for a built-in model.

    >>> describe_imports_of_model("vgg16,width=0.25")
    ''
    >>> describe_imports_of_model("os:system", {"command": "ls"})
    "the model os:system(command='ls')"
    """
    name, given = split_spec(spec)
    if ":" not in name:  # built in, or refused: models have no plug-ins
        return ""
    if library := LIBRARIES.get(name.partition(":")[0]):
        return f"the library {library} for the model {spec}"
    arguments = (f"{key}={value!r}" for key, value in (given | dict(options or {})).items())
    return f"the model {name}({', '.join(arguments)})"


def describe_imports_of_data(spec: str) -> str:
    """What loading data would import, call or reach over the network; empty for data in files.

    >>> describe_imports_of_data("npz:/data/photos.npz")
    ''
    >>> describe_imports_of_data("shop.data:load")
    'the data shop.data:load()'
    """
    kind, _, place = spec.partition(":")
    if not spec:
        return ""
    if kind not in DATASETS.built_in:
        if kind in DATASETS:
            return f"the plug-in of {DATASETS.origin(kind)} for the data {spec}"
        if is_factory(spec):
            return f"the data {spec}()"
        return f"whatever reads the data {spec}, whose format is not named"
    if kind == IMPORTING:
        return f"the library datasets for the data {spec}"
    if place.startswith(OTHER_COMPUTERS):
        return f"a file of another computer for the data {spec}"
    return ""
