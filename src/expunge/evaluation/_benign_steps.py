"""Benign steps: ordinary training on retained data, after which what was only hidden comes back."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn import functional as F

from expunge.data._batches import Data, Stream, as_source, seed_of
from expunge.engine._device import device_of
from expunge.engine._memory_layout import fast_layout
from expunge.engine._predict import Predictions
from expunge.evaluation._class_matching import match_class_mix
from expunge.evaluation.attacks._roc import Sample, auc
from expunge.methods import Problem
from expunge.methods._problem import Loss

BENIGN_STEPS, BENIGN_BATCH = 50, 128


def after_benign_steps(
    model: nn.Module,
    retain: Data,
    *,
    steps: int = BENIGN_STEPS,
    lr: float = 1e-3,
    batch_size: int = BENIGN_BATCH,
    loss: Loss = F.cross_entropy,
    seed: int = 0,
) -> nn.Module:
    """A copy of ``model`` after ``steps`` of Adam on ``retain``, in eval mode.

    The batches depend on ``seed`` and the data alone, so that two models see the same ones. The
    steps never see the forgotten records: whatever the model knows of them afterwards, it knew
    before.
    """
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
    """The AUC of the loss attack: P(a forgotten record has the smaller loss).

    Unseen examples have the class mix of the forgotten ones; 0.5 is chance.
    """
    matched = unseen.take(match_class_mix(unseen.labels, forget.labels, seed=0, largest=True))
    scores = [
        -F.cross_entropy(p.logits.double(), p.labels, reduction="none") for p in (forget, matched)
    ]
    return Sample.of(*(score.numpy() for score in scores)).value(auc)
