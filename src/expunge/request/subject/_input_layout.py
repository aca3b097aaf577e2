"""Two examples tell how a model wants its inputs, and what it returns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from expunge._errors import DataError, InvalidInput
from expunge.engine._device import device_of
from expunge.request.subject._data_source import Parts
from expunge.request.subject._examples import as_fractions, inputs_of


def as_the_model_likes(model: nn.Module, parts: Parts) -> tuple[Parts, tuple[str, ...]]:
    """Bytes as they are, or as fractions x / 255 for a model that takes floats only."""
    few = inputs_of(parts.train)[:2]
    failure = _failure(model, few)
    if failure is None:
        return parts, ()
    if few.dtype == torch.uint8 and _failure(model, few.float() / 255) is None:
        note = "The model takes floats only: it gets the images as fractions x / 255."
        train, val, test = (as_fractions(part) for part in (parts.train, parts.val, parts.test))
        return replace(parts, train=train, val=val, test=test), (note,)
    raise InvalidInput(
        f"The model cannot take the data, {few.dtype} of shape {list(few.shape[1:])}: {failure}"
    ) from failure


def _failure(model: nn.Module, inputs: Tensor) -> Exception | None:
    try:
        _run(model, inputs)
    except Exception as error:  # the model is the user's: anything can happen
        return error
    return None


@torch.inference_mode()
def _run(model: nn.Module, inputs: Tensor) -> Any:
    return model(inputs.to(device_of(model)))


def laid_out(model: nn.Module, inputs: Tensor) -> nn.Module:
    """With a hook that hands images over in the plain layout, if the model needs that.

    Evaluation passes images channels-last; ``x.view(len(x), -1)`` after a convolution fails then.
    """
    if inputs.ndim == 4:
        other = inputs.contiguous(memory_format=torch.channels_last)
        if isinstance(_failure(model, other), RuntimeError):
            model.register_forward_pre_hook(_plain_layout)
    return model


def _plain_layout(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(x.contiguous() if isinstance(x, Tensor) else x for x in inputs)


def count_outputs(model: nn.Module, parts: Parts) -> int:
    """How many classes the model tells, checked against the data."""
    few = inputs_of(parts.train)[:8]
    logits = _run(model, few)
    if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != len(few):
        got = list(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise InvalidInput(
            f"The model should return logits [N, K] for N examples. (got {got} for {len(few)})"
        )
    if not torch.isfinite(logits).all():
        raise InvalidInput(
            "The model returns NaN or infinity on its training data. Its weights are damaged, or "
            "the inputs are scaled wrongly."
        )
    outputs = int(logits.shape[1])
    for name in ("train", "val", "test"):
        labels = getattr(parts, name).labels
        if int(labels.max()) >= outputs:
            raise DataError(
                f"Labels should be in 0..{outputs - 1}: the model has {outputs} outputs. (got "
                f"{int(labels.max())} in {name}) The model is for another number of classes."
            )
    return outputs


def name_outputs(parts: Parts, outputs: int) -> tuple[str, ...]:
    """A name for every output."""
    known = parts.train.classes
    return known + tuple(str(number) for number in range(len(known), outputs))
