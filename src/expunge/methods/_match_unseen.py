"""MATCH: give forget data the outputs that the model gives to data it never saw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from expunge._kinds import NotNegative
from expunge.data._batches import Batch
from expunge.methods._class_balance import balancing_offsets
from expunge.methods._match_targets import (
    BINS,
    SMALLEST_COMPARED,
    accuracy_per_class,
    class_difference,
    distinct,
    evened_ranks,
    label_odds,
    margins,
    match_outputs,
    ranks_within_class,
    remaining_difference,
    settled_ranks,
    without_broken_classes,
)
from expunge.methods._method import Method
from expunge.methods._problem import Problem
from expunge.methods._refreshes import REFRESHES, is_refresh
from expunge.methods._views import ViewKind, averaged_log_probabilities
from expunge.update._gradients import Term

RANKED = 3000
"""Retained examples that forget examples are ranked among."""
SMOOTHING = 0.5
"""The weight of the latest refresh in the difference that the correction is proportional to."""
LASTING_GAIN, LASTING_FROM = 0.6, 0.4
"""The lasting part of the correction: its gain per refresh, and the part of the run without it.

The gain is that of a run with 20 refreshes; shorter ones have a larger one. Much of the difference
goes by itself at first: added up from the start, it would overshoot.
"""
LARGEST_CORRECTION = 4.0
"""In log-odds: what cannot be closed does not wind up."""
WEIGHT_GAIN, LASTING_WEIGHT_GAIN, LARGEST_WEIGHT = 1.0, 0.6, 5.0
"""Of the weights of retained classes, in proportion to accuracy lost and adding up; their bound."""
SKEWED = (0.1, 0.5)
"""Classes are balanced from the first difference of class mixes on, and in full from the second."""
SETTLING = (0.4, 0.7)
"""Ranks are the first ones up to the first part of the run, and the current ones from the second.

Before, the order in which the model has the examples is that in which it memorised them.
"""


@dataclass(frozen=True)
class MatchUnseen(Method):
    """U = KL(tᵢ ‖ p(xᵢ)) + λ D(p_y ‖ t_y) on forget, tᵢ an output on unseen data; C = L on retain.

    Methods that raise the loss on forget data push the model away, no matter where to. This one
    pulls it towards what it does with data it never saw: tᵢ is the output that the current model
    gives to an unseen example of the same class at the same rank of difficulty. The unseen
    example's probability of its label goes to the label of xᵢ; its other probabilities, sorted, go
    to the other classes in the order in which the initial model ranks them at xᵢ. So confidence,
    entropy, loss and correctness on forget data get the joint distribution that they have on
    unseen data. Where nothing of a class is retained, tᵢ has no probability for that class.

    KL(t ‖ p) hardly sees whether a label that should get no probability gets 0.1 or 0.01, while a
    model is often quite sure of a wrong class where it never saw the data. So the label counts from
    the other side as well: D(p ‖ t) = p log(p/t) - p + t.

    Ranks are among the training examples of the class, by the margin of the initial model's
    log-probabilities, averaged over small shifts (and mirror images, where these keep their
    label): a memorised example loses its margin there. They are guesses, so they are spread more
    evenly, unless they show that the examples are no random draw of their class; later in the run
    they pass to the order in which the model itself has come to put the examples, so that small
    moves are enough. The outputs on unseen data are refreshed before every epoch (every second one
    in the first half of a run), or before about 15 of them if there are more than 20.
    Where accuracy on unseen data of a class has fallen for good, the first outputs there are used:
    targets must not follow a model downhill.

    A model follows its targets only so far. So the difference that remains between the sorted
    log-odds of the label on forget data and those that its ranks stand for is added to the targets
    ``gain`` times, for each tenth of the ranks and each class; later in the run, what still remains
    adds up. The loop is closed on the distributions as a whole. The same is done for entropy, by
    tenths, with the probabilities of the other classes, which are made more or less alike.

    Where most forget examples are of few classes, the model could meet their targets by predicting
    these classes less often, whatever it is shown. So all of this is done with an offset added to
    the logit of each class, by which each has lost as much accuracy on unseen data as the others
    (:func:`balancing_offsets`); not where forget data have the classes of unseen data.

    At a rate that is high enough, classes go up and down: retained examples of those that have lost
    accuracy on unseen data weigh more, in proportion and adding up.

    Where a run has an augmentation, it is that of retain batches alone: on images that are moved a
    little, a model that knows its training data by heart has a loss to hold it where it is, while
    forget data have their targets as they are.

    It needs ``unseen`` data, all of which are passed through the model before an epoch, and, since
    it has a target for every example, datasets rather than loaders. Not from the paper.

    Use it for deletion requests, where forgotten records should be treated as unseen ones are; it
    is what `expunge forget` does by default.

    Reference: none; it is this package's own, described in docs/requests.md.

    Args:
        views: what margins are averaged over: ``shifts`` of images by a pixel or two, the
            ``mirrored`` ones too, or the ``plain`` inputs. ``auto`` is ``mirrored`` where the
            augmentation of the run mirrors, else ``shifts``. Inputs that are no images are plain.
        gain: of the correction; 0 turns it off.
        label_weight: λ.
    """

    views: ViewKind = "auto"
    gain: NotNegative = 3.0
    label_weight: NotNegative = 0.5

    needs_unseen: ClassVar[bool] = True
    preferred: ClassVar[dict[str, Any]] = {
        "alpha": 0.5,
        "beta": 0.5,
        "lr": 4e-4,
        "epochs": 20,
        "batch_size": 64,
        "batchnorm": "frozen",
        "schedule": "linear",
        "augmented": "retain",
    }

    preferred_fan_in: ClassVar[float | None] = 1000.0  # VGG16 and ResNet18 of width 1/4

    def objective(self, problem: Problem, forget: Batch, retain: Batch) -> Term:
        logits = problem.logits(forget)
        targets = problem.memory["targets"].to(logits)[forget.positions]
        log_p = F.log_softmax(logits + problem.memory["offsets"].to(logits), dim=1)
        divergence = F.kl_div(log_p, targets, reduction="batchmean")
        if self.label_weight:
            own = forget.targets[:, None]
            divergence = divergence + self.label_weight * label_divergence(
                log_p.gather(1, own)[:, 0], targets.gather(1, own)[:, 0]
            )
        return Term(divergence, saliency=problem.loss(logits, forget.targets))

    def constraint(self, problem: Problem, forget: Batch, retain: Batch) -> Tensor:
        logits = problem.logits(retain)
        weights = problem.memory["class_weights"].to(logits)[retain.targets]
        # The same values, but each example's part of the gradient is weighted, whatever the loss.
        weighted = torch.lerp(logits.detach(), logits, weights[:, None])
        return problem.loss(weighted, retain.targets)

    def begin_epoch(self, problem: Problem, epoch: int, epochs: int) -> None:
        """Refresh the targets from the current model's outputs on unseen data."""
        if not is_refresh(epoch, epochs):
            return
        # Which examples are hard, and what the other classes look like there: once per run.
        if "ranks" not in problem.memory:
            self._rank(problem)
        # What the model does now with unseen data of these classes.
        logits, unseen_labels = problem.predict("unseen")
        memory = problem.memory
        offsets = torch.zeros(logits.shape[1], dtype=torch.float64)
        if epoch > 1:
            goal = accuracy_per_class(memory["unseen"], unseen_labels)
            offsets = balancing_offsets(logits, unseen_labels, goal, distinct(memory["lost"]))
        offsets = memory["offsets"] = memory["skew"] * offsets
        unseen = F.softmax(logits.double() + offsets, dim=1)
        accuracy = accuracy_per_class(unseen, unseen_labels)
        if epoch == 1:
            memory["unseen"], memory["accuracy"] = unseen, accuracy
        memory["accuracy"] = torch.lerp(memory["accuracy"], accuracy, SMOOTHING)
        self._weigh_classes(memory, accuracy_per_class(memory["unseen"], unseen_labels) - accuracy)
        unseen = without_broken_classes(unseen, memory["unseen"], unseen_labels, memory["accuracy"])

        # What it does now with forget data: what is left to correct, and in which order they are.
        ranks = memory["ranks"]
        if epoch > 1:
            logits, labels = problem.predict("forget")
            forget = F.softmax(logits.double() + offsets, dim=1)
            if self.gain:
                difference = remaining_difference(
                    forget, labels, ranks, unseen, unseen_labels, lost=memory["lost"]
                )
                self._correct(memory, difference, epoch, epochs)
            odds = label_odds(forget, labels)
            ranks = settled_ranks(ranks, odds, labels, part_of((epoch - 1) / epochs, *SETTLING))

        # One target per forget example.
        memory["targets"] = match_outputs(
            unseen,
            unseen_labels,
            memory["labels"],
            ranks,
            memory["order"],
            lost=memory["lost"],
            correction=memory["correction"],
        ).float()

    def _rank(self, problem: Problem) -> None:
        """Ranks and class orders of the forget examples under the initial model."""
        forget, labels = averaged_log_probabilities(problem, "forget", self.views)
        retain, retain_labels = averaged_log_probabilities(problem, "retain", self.views, RANKED)
        retained_classes = set(distinct(problem.splits.labels("retain")))
        problem.memory["labels"] = labels
        problem.memory["lost"] = torch.tensor(
            [c for c in range(forget.shape[1]) if c not in retained_classes], dtype=torch.int64
        )
        ranks = ranks_within_class(
            margins(forget, labels), labels, margins(retain, retain_labels), retain_labels
        )
        problem.memory["ranks"] = evened_ranks(ranks, labels)
        masked = forget.scatter(1, labels[:, None], -torch.inf)
        problem.memory["order"] = masked.argsort(dim=1, descending=True)[:, :-1]
        problem.memory["skew"] = torch.tensor(
            part_of(class_difference(labels, problem.splits.labels("unseen")), *SKEWED),
            dtype=torch.float64,
        )
        problem.memory["lost_so_far"] = torch.zeros(forget.shape[1], dtype=torch.float64)
        for name in ("difference", "lasting", "correction"):
            size = BINS + forget.shape[1] + BINS
            problem.memory[name] = torch.zeros(size, dtype=torch.float64)

    def _weigh_classes(self, memory: dict[str, Tensor], lost: Tensor) -> None:
        """Weigh retained classes by the accuracy [K] that each has lost on unseen data."""
        beyond = lost - lost.mean()
        memory["lost_so_far"] = memory["lost_so_far"] + LASTING_WEIGHT_GAIN * beyond
        weights = torch.exp(memory["lost_so_far"] + WEIGHT_GAIN * beyond)
        memory["class_weights"] = (weights / weights.mean()).clamp(
            1 / LARGEST_WEIGHT, LARGEST_WEIGHT
        )

    def _correct(
        self, memory: dict[str, Tensor], difference: Tensor, epoch: int, epochs: int
    ) -> None:
        """Add what is left between forget and unseen data to the targets."""
        memory["difference"] = torch.lerp(memory["difference"], difference, SMOOTHING)
        if epoch > LASTING_FROM * epochs:
            gain = LASTING_GAIN * max(1.0, REFRESHES / epochs)
            memory["lasting"] = _bounded(memory["lasting"] + gain * difference)
        memory["correction"] = _bounded(self.gain * memory["difference"] + memory["lasting"])


def label_divergence(log_p: Tensor, target: Tensor) -> Tensor:
    """p log(p/t) - p + t, the mean over the batch; 0 where p = t, from log p [N] and t [N].

    >>> p = torch.tensor([0.25, 0.5], dtype=torch.float64)
    >>> round(float(label_divergence(p.log(), torch.tensor([0.5, 0.5]).double())), 4)
    0.0384
    """
    target = target.clamp(min=SMALLEST_COMPARED)
    p = log_p.exp()
    return (p * (log_p - target.log()) - p + target).mean()


def _bounded(correction: Tensor) -> Tensor:
    return correction.clamp(-LARGEST_CORRECTION, LARGEST_CORRECTION)


def part_of(place: float, start: float, end: float) -> float:
    """How far ``place`` is on the way from ``start`` to ``end``, in 0 to 1.

    >>> part_of(0.2, 0.25, 0.75), part_of(0.5, 0.25, 0.75), part_of(0.9, 0.25, 0.75)
    (0.0, 0.5, 1.0)
    """
    return min(max((place - start) / (end - start), 0.0), 1.0)
