"""Built-in models by name, normalisation included; importing this imports no torch."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from expunge._errors import InvalidInput
from expunge._factory import is_factory
from expunge._kinds import Count, check_arguments
from expunge._registry import Registry
from expunge._specs import split_part

if TYPE_CHECKING:
    from torch import nn

OTHERS = ("hf:PATH (extra: transformers)", "package.module:factory")
"""What may stand in place of the name of a model."""

MODELS: Registry[Callable[..., nn.Module]] = Registry("model", others=OTHERS)
MODELS.declare("resnet18", "expunge.models._classifiers:ResNet18")
MODELS.declare("vgg16", "expunge.models._classifiers:VGG16")
MODELS.declare("vgg16-released", "expunge.models._classifiers:ReleasedVGG16")
MODELS.declare("small-cnn", "expunge.models._classifiers:SmallCNN")
MODELS.declare("mlp", "expunge.models._classifiers:MLP")
MODELS.declare("text-bag", "expunge.models._classifiers:TextBag")

LANGUAGE_MODELS: Registry[Callable[..., nn.Module]] = Registry("language model")
LANGUAGE_MODELS.declare("small-transformer", "expunge.models._transformer:SmallTransformer")

MAX_WIDTH = 64
"""A resnet18 has 46 billion weights then."""


def check_model(name: str, width: float) -> None:
    """Raise unless ``name`` is a model that can be built and ``width`` in (0, 64]."""
    check_arguments(check_model, locals())
    if not is_external(name):
        MODELS.name(name)
    if not 0 < width <= MAX_WIDTH:
        raise InvalidInput(f"`width` should be positive and at most {MAX_WIDTH}. (got {width})")


def is_external(name: str) -> bool:
    """Whether ``name`` is ``hf:PATH`` or ``package.module:factory``."""
    kind, colon, rest = name.partition(":")
    if name in MODELS or not colon:
        return False
    if (kind == "hf" and rest) or is_factory(name):
        return True
    raise unknown_model(name)


def unknown_model(name: str) -> InvalidInput:
    """The error of a name that no model has, with all that there are."""
    known = ", ".join([*MODELS, *OTHERS])
    kind = name.partition(":")[0]
    missing = f" (no module {kind!r} is installed or in {Path.cwd()})" if is_factory(name) else ""
    return InvalidInput(f"Unknown model {name!r}. Known: {known}{missing}.")


def read_model_spec(spec: str) -> tuple[str, dict[str, Any]]:
    """The name of a model and its options: ``vgg16,width=0.25``."""
    name, options = split_part(spec)
    if wrong := [key for key in options if key in RESERVED]:
        raise InvalidInput(f"`{wrong[0]}` of a model comes from its data. (got {spec!r})")
    return (name if is_external(name) else MODELS.name(name)), options


RESERVED = ("name", "num_classes", "in_channels", "mean", "std", "seed", "output")
"""Arguments of :func:`build_model` that are no options of a model."""


def build_model(
    name: str,
    *,
    num_classes: Count = 10,
    in_channels: Count = 3,
    width: float = 1.0,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    output: tuple[float, float] | None = None,
    seed: int | None = None,
    **options: Any,
) -> nn.Module:
    """Build a freshly initialised model.

    Those for images take them in [0, 1] or as uint8, those for vectors standardise each column, and
    those for text take token ids. ``hf:PATH`` and ``package.module:factory`` are models of
    transformers, and of yours.

    Args:
        num_classes: Number of outputs; 1 for a regression.
        in_channels: Channels of images, columns of vectors, or number of token ids.
        width: Factor on the channels of every layer; not for other libraries' models.
        mean, std: Of the inputs, for each channel or column.
        output: Mean and deviation of the numbers that a regression predicts.
        seed: Makes the initial weights reproducible and leaves the global random state alone.
        options: Specific to the model, such as ``dropout`` of vgg16.

    >>> import torch
    >>> model = build_model("small-cnn", in_channels=1, width=0.25, seed=0)
    >>> model(torch.zeros(2, 1, 8, 8, dtype=torch.uint8)).shape
    torch.Size([2, 10])
    """
    check_arguments(build_model, locals())
    check_model(name, width)
    if num_classes < 2 and output is None and not is_external(name):
        raise InvalidInput(f"`num_classes` should be at least 2. (got {num_classes})")

    import torch
    from torch import nn

    with torch.random.fork_rng(devices=[], enabled=seed is not None):
        if seed is not None:
            torch.manual_seed(seed)
        if is_external(name):
            from expunge.models._external import build_external, bytes_to_unit

            model = build_external(name, options)
            model.register_forward_pre_hook(bytes_to_unit)
            return model
        kind = MODELS[name]
        sizes = {"num_classes": num_classes, "in_channels": in_channels, "width": width}
        body = _construct(name, kind, sizes | options)
    layers = {"normalise": _normalisation(kind, in_channels, mean, std), "body": body}
    if output is not None:
        from expunge.models._normalise import Rescale

        layers["rescale"] = Rescale(*output)
    there = {place: layer for place, layer in layers.items() if layer is not None}
    return nn.Sequential(OrderedDict(there))


def _construct(name: str, kind: Callable[..., nn.Module], options: dict[str, Any]) -> nn.Module:
    parameters = inspect.signature(kind).parameters
    if unknown := [option for option in options if option not in parameters]:
        raise InvalidInput(f"The model {name} has no option {unknown[0]!r}.")
    try:
        return kind(**options)
    except (RuntimeError, TypeError, ValueError, ArithmeticError) as error:
        if isinstance(error, InvalidInput):
            raise
        given = ", ".join(f"{option}={value!r}" for option, value in options.items())
        raise InvalidInput(f"The model {name} cannot be built with {given}. ({error})") from error


def _normalisation(
    kind: Callable[..., nn.Module],
    size: int,
    mean: Sequence[float] | None,
    std: Sequence[float] | None,
) -> nn.Module | None:
    """The layer that prepares inputs of the kind that a model takes."""
    from expunge.models._normalise import Normalise, Standardise

    takes = inputs_of_model(kind)
    for name, values in (("mean", mean), ("std", std)):
        if values is not None and (len(values) != size or takes == "tokens"):
            raise InvalidInput(
                f"`{name}` should have a number for each of {size} channels or columns; token ids "
                f"have none. (got {len(values)})"
            )
    if takes == "images":
        return Normalise(mean or [0.5] * size, std or [0.25] * size)
    if takes == "vectors":
        return Standardise(mean or [0.0] * size, std or [1.0] * size)
    return None


def inputs_of_model(kind: Any) -> str:
    """What the models of a class take: "images", "vectors" or "tokens"."""
    return str(getattr(kind, "takes", "images"))


def build_language_model(
    name: str, *, vocabulary: int, context: int, seed: int | None = None, **options: Any
) -> nn.Module:
    """Build a freshly initialised causal language model: tokens [B, T] to logits [B, T, V].

    ``options`` are specific to the model, such as ``layers``; ``seed`` as for :func:`build_model`.

    >>> model = build_language_model("small-transformer", vocabulary=11, context=6, seed=0)
    >>> sum(weights.numel() for weights in model.parameters())
    398976
    """
    import torch

    check_arguments(build_language_model, locals())
    kind = LANGUAGE_MODELS[name]
    with torch.random.fork_rng(devices=[], enabled=seed is not None):
        if seed is not None:
            torch.manual_seed(seed)
        return _construct(name, kind, {"vocabulary": vocabulary, "context": context, **options})
