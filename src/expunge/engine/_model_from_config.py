"""Models that plain values describe: build and train one, or restore one from its weights.

A configuration holds the arguments of :func:`expunge.build_model`: ``name``, ``width``, the model's
own options, and the sizes that :func:`sizes_for` reads off the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from expunge import _tensors as tensors
from expunge._errors import InvalidInput
from expunge.data import Augment, Examples, ImageSet, Splits
from expunge.engine._execution import Execution
from expunge.engine._recipe import Recipe
from expunge.engine._run import Result
from expunge.engine._unlearn import train
from expunge.methods import Loss
from expunge.models import (
    MODELS,
    RESERVED,
    build_model,
    channel_statistics,
    column_statistics,
    inputs_of_model,
    is_external,
)


def sizes_for(splits: Splits) -> dict[str, int]:
    """The number of outputs and the size of inputs that a model for these data has."""
    return {
        "num_classes": max(splits.train.num_classes, 1),
        "in_channels": splits.in_channels,
    }


def default_model(splits: Splits) -> str:
    """The name of a model that suits the inputs, and their size."""
    data = splits.train
    if not isinstance(data, ImageSet):
        models = {"vectors": "mlp", "tokens": "text-bag"}
        if data.kind not in models:
            raise InvalidInput(
                f"There is no built-in model for inputs of shape {list(data.inputs.shape[1:])}. "
                "Name one of yours: package.module:factory."
            )
        return models[data.kind]
    return "small-cnn" if min(data.shape[1:]) < 28 else "resnet18"


def default_augment(splits: Splits) -> Augment | None:
    """Random crops and mirror images as in the paper; only for images large enough to crop."""
    data = splits.train
    if not isinstance(data, ImageSet) or min(data.shape[1:]) < 28:
        return None
    return Augment(padding=4, flip=splits.flip)


def check_model_fits(name: str, data: Examples) -> None:
    """Raise if a built-in model is for other inputs than these."""
    if is_external(name):
        return
    wanted = inputs_of_model(MODELS[name])
    fractions = data.inputs.ndim == 4 and data.inputs.is_floating_point()
    if wanted != data.kind and not (wanted == "images" and fractions):
        suited = [each for each in MODELS if inputs_of_model(MODELS[each]) == data.kind]
        raise InvalidInput(
            f"The model {name} takes {wanted}. (got {data.kind}: {data!r}) Use one of "
            f"{', '.join([*suited, 'package.module:factory'])}."
        )


def train_from_config(
    config: Mapping[str, Any],
    data: Examples,
    *,
    recipe: Recipe,
    augment: Augment | None,
    execution: Execution,
) -> Result:
    """Train a fresh model on ``data``, whose statistics it normalises by."""
    model, loss = untrained_for(config, data, execution.seed), loss_for(data)
    return train(model, data, recipe=recipe, augment=augment, loss=loss, execution=execution)


def untrained_for(config: Mapping[str, Any], data: Examples, seed: int) -> nn.Module:
    """A fresh model that normalises by the statistics of ``data``."""
    check_model_fits(config["name"], data)
    statistics: dict[str, Any] = {}
    if data.kind in ("images", "vectors"):
        measure = channel_statistics if data.kind == "images" else column_statistics
        statistics["mean"], statistics["std"] = measure(data.inputs)
    if data.is_regression:
        statistics["output"] = label_statistics(data)
    return build_model(**_arguments(config), **statistics, seed=seed)


def build_from_config(config: Mapping[str, Any]) -> nn.Module:
    """A fresh model whose weights, statistics included, are to be loaded."""
    regression = config.get("num_classes") == 1 and not is_external(config["name"])
    return build_model(**_arguments(config), output=(0.0, 1.0) if regression else None)


def _arguments(config: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of :func:`expunge.build_model`; a card has the model's options by themselves."""
    options: dict[str, Any] = config.get("options", {})
    if wrong := [name for name in options if name in RESERVED]:
        raise InvalidInput(f"`{wrong[0]}` is not an option of the model {config['name']}.")
    return {name: value for name, value in config.items() if name != "options"} | options


def restore_from_config(config: Mapping[str, Any], path: Path) -> nn.Module:
    """The model that ``config`` describes, with the weights in ``path``, in eval mode."""
    model = build_from_config(config)
    load_checked_weights(model, tensors.load(path)[0], str(path))
    return model.eval()


def load_checked_weights(model: nn.Module, state: dict[str, Tensor], source: str) -> None:
    """Load ``state`` into ``model``, or say what does not fit."""
    expected = model.state_dict()
    missing, extra = sorted(expected.keys() - state.keys()), sorted(state.keys() - expected.keys())
    wrong = [k for k in expected.keys() & state.keys() if expected[k].shape != state[k].shape]
    if missing or extra or wrong:
        lists = (("missing", missing), ("unexpected", extra))
        parts = [f"{what} {', '.join(names[:3])}" for what, names in lists if names]
        parts += [
            f"{k} is {tuple(state[k].shape)}, not {tuple(expected[k].shape)}"
            for k in sorted(wrong)[:3]
        ]
        raise InvalidInput(f"The weights in {source} do not fit the model: {'; '.join(parts)}.")
    broken = [k for k in sorted(expected) if _is_finite(expected[k]) and not _is_finite(state[k])]
    if broken:
        raise InvalidInput(
            f"The weights in {source} should be finite. (got NaN or infinity in "
            f"{', '.join(broken[:3])}) The model has diverged, or the file was tampered with."
        )
    model.load_state_dict(state)


def _is_finite(tensor: Tensor) -> bool:
    return not tensor.is_floating_point() or bool(tensor.isfinite().all())


@dataclass(frozen=True)
class SquaredError:
    """The mean squared error of outputs [N, 1] or [N], in units of ``scale``².

    With the deviation of the labels as its scale, learning rates mean what they mean for classes:
    a model that always predicts the mean has a loss of 1.
    """

    scale: float = 1.0

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.mse_loss(as_numbers(outputs), targets) / self.scale**2


def as_numbers(outputs: Tensor) -> Tensor:
    """One number per example [N], from outputs [N, 1] or [N]."""
    if outputs.ndim == 2 and outputs.shape[1] == 1:
        return outputs[:, 0]
    if outputs.ndim != 1:
        raise InvalidInput(
            "The model of a regression should return one number per example, [N, 1]. "
            f"(got {list(outputs.shape)})"
        )
    return outputs


def label_statistics(data: Examples) -> tuple[float, float]:
    """Mean and standard deviation of the numbers to predict; the latter 1 if there is but one."""
    labels = data.labels.double()
    deviation = float(labels.std(correction=0))
    return float(labels.mean()), deviation if deviation > 0 else 1.0


def loss_for(data: Examples) -> Loss:
    """The loss that suits the labels: cross-entropy of classes, squared error of numbers."""
    return SquaredError(label_statistics(data)[1]) if data.is_regression else F.cross_entropy
