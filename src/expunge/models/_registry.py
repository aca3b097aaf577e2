"""The built-in models by name. Nothing is imported before a model is built."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from expunge._registry import Registry

if TYPE_CHECKING:
    from torch import nn

MODELS: Registry[Callable[..., nn.Module]] = Registry("model")
MODELS.declare("resnet18", "expunge.models._resnet:ResNet18")
MODELS.declare("vgg16", "expunge.models._vgg:VGG16")
MODELS.declare("small-cnn", "expunge.models._small:SmallCNN")
