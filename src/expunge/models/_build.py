"""Built-in models by name, normalisation included."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from expunge._errors import InvalidInput
from expunge.models._normalise import Normalise
from expunge.models._registry import MODELS


def build_model(
    name: str,
    *,
    num_classes: int = 10,
    in_channels: int = 3,
    width: float = 1.0,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    seed: int | None = None,
    **options: Any,
) -> nn.Module:
    """A freshly initialised model by name, that takes images in [0, 1] or as uint8.

    ``options`` are the model's own, such as ``dropout`` of vgg16. ``seed`` makes the initial
    weights reproducible and leaves the global random state alone.

    >>> model = build_model("small-cnn", in_channels=1, width=0.25, seed=0)
    >>> model(torch.zeros(2, 1, 8, 8, dtype=torch.uint8)).shape
    torch.Size([2, 10])
    """
    if not width > 0:
        raise InvalidInput(f"`width` should be positive. (got {width})")
    if num_classes < 2:
        raise InvalidInput(f"`num_classes` should be at least 2. (got {num_classes})")
    kind = MODELS[name]
    known = inspect.signature(kind).parameters
    for option in options:
        if option not in known:
            raise InvalidInput(f"The model {name} has no option {option!r}.")
    normalise = Normalise(mean or [0.5] * in_channels, std or [0.25] * in_channels)
    with torch.random.fork_rng(devices=[], enabled=seed is not None):
        if seed is not None:
            torch.manual_seed(seed)
        body = kind(num_classes=num_classes, in_channels=in_channels, width=width, **options)
    return nn.Sequential(OrderedDict(normalise=normalise, body=body))
