"""How a model that is not built in gets images: as fractions, as bytes, or standardised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from expunge._errors import InvalidInput
from expunge.data import Examples
from expunge.models import Normalise, channel_statistics
from expunge.request._job import InputForm

IN_WORDS: dict[InputForm, str] = {
    "bytes": "as floats from 0 to 255",
    "fractions": "as fractions in [0, 1]",
    "standardised": "standardised, every channel to mean 0 and deviation 1",
}


class InputHook:
    """Converts images for a model, whether they come as bytes or in [0, 1].

    ``images`` are those that the model was trained on.
    """

    def __init__(self, form: InputForm, images: Tensor) -> None:
        self.form = form
        mean, std = channel_statistics(images) if form == "standardised" else ([0.0], [1.0])
        self.mean, self.std = (torch.tensor(each).view(1, -1, 1, 1) for each in (mean, std))

    def __call__(self, _: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(self._convert(x) if isinstance(x, Tensor) else x for x in inputs)

    def _convert(self, x: Tensor) -> Tensor:
        if self.form == "bytes":
            return x.float() if x.dtype == torch.uint8 else 255 * x
        values = x.float() / 255 if x.dtype == torch.uint8 else x
        if self.form == "fractions":
            return values
        return (values - self.mean.to(values)) / self.std.to(values)


@dataclass(frozen=True)
class HookedBuilder:
    """Makes fresh models that get their inputs through a hook."""

    make: Callable[[], nn.Module]
    hook: InputHook

    def __call__(self) -> nn.Module:
        model = self.make()
        add_hook(model, self.hook)
        return model


def choose_form(model: nn.Module, data: Examples, form: InputForm | None) -> InputForm | None:
    """How ``model`` gets its images; None if they go to it as they are.

    Built-in models normalise images themselves. Any other one gets fractions, unless ``form`` (or a
    hook that it has from an earlier request) says otherwise.
    """
    built_in = isinstance(next(model.children(), None), Normalise)
    if data.kind == "images" and not built_in:
        carried = [hook.form for hook in _hooks_of(model).values()]
        return form or next(iter(carried), "fractions")
    if form is not None:
        reason = "built-in models normalise images themselves"
        if data.kind != "images":
            reason = f"these are {data.kind}, not images as bytes"
        raise InvalidInput(f"`inputs` should be left out: {reason}. (got {form!r})")
    return None


def add_hook(model: nn.Module, hook: InputHook) -> None:
    """Let ``model`` get its inputs through ``hook``, and through no other one of these."""
    for key in _hooks_of(model):
        del model._forward_pre_hooks[key]
    model.register_forward_pre_hook(hook, prepend=True)


def _hooks_of(model: nn.Module) -> dict[int, InputHook]:
    hooks = model._forward_pre_hooks.items()
    return {key: hook for key, hook in hooks if isinstance(hook, InputHook)}
