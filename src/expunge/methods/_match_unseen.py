"""MATCH: give forget data the outputs that the model gives to data it never saw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from expunge.methods._method import Batch, MethodWithRetainLoss, Problem, Term

PASSES = 20
"""About how often a run passes whole splits through its model: each pass costs a few steps."""


@dataclass(frozen=True)
class MatchUnseen(MethodWithRetainLoss):
    """U = KL(tᵢ ‖ p(xᵢ)) on forget, tᵢ an output on unseen data; C = L on retain.

    Methods that raise the loss on forget data push the model away, no matter where to. This one
    pulls it towards what it does with data it never saw. Forget and unseen examples of a class are
    ranked by the model's margin, the logit of the label minus the largest other one, and tᵢ is the
    output on the unseen example at the rank of xᵢ: its probability of the label goes to the label
    of xᵢ; its other probabilities, sorted, go to the other classes in the order in which the model
    ranks them at xᵢ. So confidence, entropy, loss and correctness on forget data get the joint
    distribution that they have on unseen data. Where nothing of a class is retained, tᵢ has no
    probability for that class. Ranks and targets are refreshed from the current model before every
    epoch (every second one in the first half of a run), or before about 15 of them if there are
    more than 20.

    Where a run has an augmentation, it is that of retain batches alone: on images that are moved a
    little, a model that knows its training data by heart has a loss to hold it where it is, while
    forget data have their targets as they are.

    It needs ``unseen`` data, all of which are passed through the model before an epoch, and, since
    it has a target for every example, datasets rather than loaders. Not from the paper.

    It hides more than it forgets: part of what a membership attack could tell comes back when the
    model is trained further, as docs/choosing.md shows.

    Use it to compare with, or where outputs alone should look as if the records were unseen.

    Reference: none; it is this package's own.
    """

    needs_initial: ClassVar[bool] = False
    needs_unseen: ClassVar[bool] = True
    preferred: ClassVar[dict[str, Any]] = {
        "alpha": 0.5,
        "beta": 0.5,
        "lr": 4e-4,
        "epochs": 20,
        "batch_size": 64,
        "batchnorm": "frozen",
        "schedule": "linear",
        "augment_splits": "retain",
    }

    preferred_fan_in: ClassVar[float | None] = 1000.0  # VGG16 and ResNet18 of width 1/4

    def objective(self, problem: Problem, forget: Batch, retain: Batch) -> Term:
        logits = problem.logits(forget)
        targets = problem.memory["targets"].to(logits)[forget.positions]
        divergence = F.kl_div(F.log_softmax(logits, dim=1), targets, reduction="batchmean")
        return Term(divergence, saliency=problem.loss(logits, forget.targets))

    def begin_epoch(self, problem: Problem, epoch: int, epochs: int) -> None:
        """Refresh the targets from the current model's outputs on unseen data."""
        if not is_refresh(epoch, epochs):
            return
        splits, retained = problem.splits, problem.splits.labels("retain")
        unseen = splits.predict(problem.model, "unseen")
        forget = splits.predict(problem.model, "forget")
        problem.memory["targets"] = match_outputs(*unseen, *forget, retained).float()


def is_refresh(epoch: int, epochs: int) -> bool:
    """Whether splits are passed through the model before ``epoch``, counted from 1.

    Every epoch of the second half of a run of up to 20, where little changes from one to the next
    and small differences count; every second one of the first. Longer runs take longer strides.

    >>> [epoch for epoch in range(1, 11) if is_refresh(epoch, 10)]
    [1, 3, 5, 6, 7, 8, 9, 10]
    """
    stride = max(1, epochs // PASSES)
    early = epoch - 1 < epochs // 2 - 1
    return (epoch - 1) % (2 * stride if early else stride) == 0


def match_outputs(
    unseen: Tensor, unseen_labels: Tensor, forget: Tensor, labels: Tensor, retained: Tensor
) -> Tensor:
    """Targets [N, K] of forget data from logits on unseen [M, K] and forget data [N, K].

    Classes without a label in ``retained`` get no probability. For a class of which ``unseen`` has
    no example, examples of all classes take their place.
    """
    donors = donors_by_rank(
        margins(unseen, unseen_labels), unseen_labels, margins(forget, labels), labels
    )
    # The probability of each donor's label, and those of its other classes, falling.
    given, given_labels = unseen[donors].double().softmax(dim=1), unseen_labels[donors]
    own = given.gather(1, given_labels[:, None])
    others = _without(given, given_labels).sort(dim=1, descending=True).values[:, :-1]
    order = _without(forget, labels).argsort(dim=1, descending=True)[:, :-1]
    targets = torch.empty_like(forget, dtype=torch.float64)
    targets.scatter_(1, order, others).scatter_(1, labels[:, None], own)
    kept = torch.isin(torch.arange(targets.shape[1]), retained)
    return F.normalize(targets * kept, p=1.0, dim=1)


def donors_by_rank(unseen: Tensor, unseen_labels: Tensor, forget: Tensor, labels: Tensor) -> Tensor:
    """The unseen example for each forget example [N]: of its class, and at its rank of margins."""
    donors = torch.empty_like(labels)
    for label in sorted(set(labels.tolist())):
        here = (labels == label).nonzero()[:, 0]
        pool = (unseen_labels == label).nonzero()[:, 0]
        pool = pool if len(pool) else torch.arange(len(unseen_labels))
        places = (2 * torch.arange(len(here)) + 1) * len(pool) // (2 * len(here))
        rising = here[forget[here].argsort(stable=True)]
        donors[rising] = pool[unseen[pool].argsort(stable=True)][places]
    return donors


def margins(logits: Tensor, labels: Tensor) -> Tensor:
    """The logit of the label minus the largest of the other classes [N]."""
    return logits.gather(1, labels[:, None])[:, 0] - _without(logits, labels).amax(dim=1)


def _without(values: Tensor, labels: Tensor) -> Tensor:
    return values.scatter(1, labels[:, None], -torch.inf)
