"""Models that plain values describe: build and train one, or restore one from its weights.

A configuration holds the arguments of :func:`expunge.build_model`: ``name``, ``width``, the model's
own options, and the sizes that :func:`sizes_for` reads off the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from expunge import _tensors as tensors
from expunge._errors import InvalidInput
from expunge.data import Augment, ImageSet, Splits
from expunge.engine._recipe import Recipe
from expunge.engine._run_builder import Result
from expunge.engine._unlearn import train
from expunge.models import build_model, channel_statistics


def sizes_for(data: ImageSet) -> dict[str, int]:
    """The number of classes and of input channels that a model for ``data`` has."""
    return {"num_classes": data.num_classes, "in_channels": data.shape[0]}


def default_model(splits: Splits) -> str:
    """The name of a model whose size suits the images."""
    return "small-cnn" if min(splits.train.shape[1:]) < 28 else "resnet18"


def default_augment(splits: Splits) -> Augment | None:
    """Random crops and mirror images as in the paper; none for images too small to crop."""
    return Augment(padding=4, flip=splits.flip) if min(splits.train.shape[1:]) >= 28 else None


def train_from_config(
    config: Mapping[str, Any],
    data: ImageSet,
    *,
    recipe: Recipe,
    augment: Augment | None,
    seed: int,
    **options: Any,
) -> Result:
    """Train a fresh model on ``data``, whose channel statistics it normalises by.

    ``seed`` decides the initial weights as well as the run; ``options`` are those of
    :func:`expunge.train`, such as ``checkpoint``.
    """
    mean, std = channel_statistics(data.images)
    model = build_model(**config, mean=mean, std=std, seed=seed)
    return train(model, data, recipe=recipe, augment=augment, seed=seed, **options)


def restore_from_config(config: Mapping[str, Any], path: Path) -> nn.Module:
    """The model that ``config`` describes, with the weights in ``path``, in eval mode."""
    model = build_model(**config)
    fit_weights(model, tensors.load(path)[0], str(path))
    return model.eval()


def fit_weights(model: nn.Module, state: dict[str, torch.Tensor], source: str) -> None:
    """Load ``state`` into ``model``, or say what does not fit."""
    expected = model.state_dict()
    missing, extra = sorted(expected.keys() - state.keys()), sorted(state.keys() - expected.keys())
    wrong = [k for k in expected.keys() & state.keys() if expected[k].shape != state[k].shape]
    if missing or extra or wrong:
        parts = [
            *([f"missing {', '.join(missing[:3])}"] if missing else []),
            *([f"unexpected {', '.join(extra[:3])}"] if extra else []),
            *(
                f"{k} is {tuple(state[k].shape)}, not {tuple(expected[k].shape)}"
                for k in sorted(wrong)[:3]
            ),
        ]
        raise InvalidInput(f"The weights in {source} do not fit the model: {'; '.join(parts)}.")
    broken = [k for k in sorted(expected) if _is_finite(expected[k]) and not _is_finite(state[k])]
    if broken:
        raise InvalidInput(
            f"The weights in {source} should be finite. (got NaN or infinity in "
            f"{', '.join(broken[:3])}) The model has diverged, or the file was tampered with."
        )
    model.load_state_dict(state)


def _is_finite(tensor: torch.Tensor) -> bool:
    return not tensor.is_floating_point() or bool(tensor.isfinite().all())
