"""Benign steps: ordinary training on retained data, after which what was only hidden comes back."""

from __future__ import annotations

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.modules.conv import _ConvNd

from expunge.data import Data, Stream, as_source, seed_of
from expunge.data.text import TextExamples
from expunge.engine import Predictions, device_of, fast_layout
from expunge.evaluation._statistics import auc_of, match_class_mix
from expunge.evaluation.attacks._features import loss as per_example_loss
from expunge.methods import Loss, Problem, next_token_loss

BENIGN_STEPS, BENIGN_BATCH, TEXT_BATCH = 50, 128, 32
FAN_IN = 576.0
"""Inputs of a unit that benign steps at a rate of 1e-3 suit: those of VGG16 at an eighth of its
width. Adam moves every weight by about the rate, and a wider unit adds up more of these moves."""


def after_benign_steps(
    model: nn.Module,
    retain: Data,
    *,
    steps: int = BENIGN_STEPS,
    lr: float = 1e-3,
    batch_size: int | None = None,
    loss: Loss | None = None,
    seed: int = 0,
) -> nn.Module:
    """A copy of ``model`` after ``steps`` of Adam on ``retain``, in eval mode.

    The batches depend on ``seed`` and the data alone, so that two models see the same ones. By
    default texts come in batches of 32 with the loss of next tokens, other data in batches of 128
    with the cross-entropy.
    """
    of_texts = isinstance(retain, TextExamples)
    batch_size = batch_size or (TEXT_BATCH if of_texts else BENIGN_BATCH)
    loss = loss or (next_token_loss if of_texts else F.cross_entropy)
    device = device_of(model)
    source = as_source(
        retain,
        split="retain",
        batch_size=batch_size,
        seed=seed_of(seed, "benign steps"),
        augment=None,
        device=device,
    )
    copied = fast_layout(copy.deepcopy(model), source).train()
    problem = Problem(copied, loss=loss, keeps_initial=False)
    optimizer = torch.optim.Adam(problem.parameters, lr=lr)
    batches = Stream(source)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        for _ in range(steps):
            optimizer.zero_grad(set_to_none=True)
            problem.loss_on(next(batches)).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return copied.eval()


def loss_auc(forget: Predictions, unseen: Predictions) -> float:
    """P(a forgotten record has a smaller loss than an unseen one of its classes); 0.5 is chance."""
    matched = unseen.take(match_class_mix(unseen.labels, forget.labels, seed=0, most=math.inf))
    return auc_of(-per_example_loss(forget), -per_example_loss(matched))


def benign_rate(model: nn.Module) -> float:
    """The rate of benign steps: 1e-3, or less for units of more than :data:`FAN_IN` inputs."""
    return 1e-3 * min(1.0, FAN_IN / mean_fan_in(model, FAN_IN))


def mean_fan_in(model: nn.Module, default: float) -> float:
    """Inputs of a unit: the mean over all trained weights of linear and convolution layers.

    >>> mean_fan_in(nn.Sequential(nn.Conv2d(3, 8, 5), nn.Linear(75, 10)), 1.0)
    75.0
    """
    layers = [m for m in model.modules() if isinstance(m, nn.Linear | _ConvNd)]
    weights = [layer.weight for layer in layers if layer.weight.requires_grad]
    total = sum(weight.numel() for weight in weights)
    return sum(w.numel() * w[0].numel() for w in weights) / total if total else default
