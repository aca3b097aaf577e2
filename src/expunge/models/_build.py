"""Built-in models by name, normalisation included; importing this imports no torch."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from expunge._errors import InvalidInput
from expunge._options import check_kind
from expunge._registry import Registry

if TYPE_CHECKING:
    from torch import nn

MODELS: Registry[Callable[..., nn.Module]] = Registry("model")
MODELS.declare("resnet18", "expunge.models._resnet:ResNet18")
MODELS.declare("vgg16", "expunge.models._vgg:VGG16")
MODELS.declare("small-cnn", "expunge.models._small:SmallCNN")

LANGUAGE_MODELS: Registry[Callable[..., nn.Module]] = Registry("language model")
LANGUAGE_MODELS.declare("small-transformer", "expunge.models._transformer:SmallTransformer")


MAX_WIDTH = 64
"""A resnet18 has 46 billion weights then."""


def check_model(name: str, width: float) -> None:
    """Raise unless ``name`` is a built-in model and ``width`` in (0, 64]."""
    MODELS.name(name)
    check_kind("width", float, width)
    if not 0 < width <= MAX_WIDTH:
        raise InvalidInput(f"`width` should be positive and at most {MAX_WIDTH}. (got {width})")


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
    """Build a freshly initialised model that takes images in [0, 1] or as uint8.

    ``options`` are specific to the model, such as ``dropout`` of vgg16. ``seed`` makes the initial
    weights reproducible and leaves the global random state alone.

    >>> import torch
    >>> model = build_model("small-cnn", in_channels=1, width=0.25, seed=0)
    >>> model(torch.zeros(2, 1, 8, 8, dtype=torch.uint8)).shape
    torch.Size([2, 10])
    """
    check_model(name, width)
    if num_classes < 2:
        raise InvalidInput(f"`num_classes` should be at least 2. (got {num_classes})")

    import torch
    from torch import nn

    from expunge.models._normalise import Normalise

    kind = MODELS[name]
    parameters = inspect.signature(kind).parameters
    for option in options:
        if option not in parameters:
            raise InvalidInput(f"The model {name} has no option {option!r}.")
    normalise = Normalise(mean or [0.5] * in_channels, std or [0.25] * in_channels)
    with torch.random.fork_rng(devices=[], enabled=seed is not None):
        if seed is not None:
            torch.manual_seed(seed)
        body = kind(num_classes=num_classes, in_channels=in_channels, width=width, **options)
    return nn.Sequential(OrderedDict(normalise=normalise, body=body))


def build_language_model(
    name: str, *, vocabulary: int, context: int, seed: int | None = None, **options: Any
) -> nn.Module:
    """Build a freshly initialised causal language model: tokens [B, T] to logits [B, T, V].

    ``options`` are specific to the model, such as ``layers``; ``seed`` as for :func:`build_model`.

    >>> model = build_language_model("small-transformer", vocabulary=11, context=6, seed=0)
    >>> sum(weights.numel() for weights in model.parameters())
    399104
    """
    import torch

    kind = LANGUAGE_MODELS[name]
    parameters = inspect.signature(kind).parameters
    for option in options:
        if option not in parameters:
            raise InvalidInput(f"The model {name} has no option {option!r}.")
    with torch.random.fork_rng(devices=[], enabled=seed is not None):
        if seed is not None:
            torch.manual_seed(seed)
        return kind(vocabulary=vocabulary, context=context, **options)
