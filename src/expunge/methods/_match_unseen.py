"""MATCH: give forget data the outputs that the model gives to data it never saw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, get_args

import torch
from torch import Tensor
from torch.nn import functional as F

from expunge._errors import InvalidInput
from expunge.data._batches import Batch
from expunge.methods._method import Method
from expunge.methods._problem import Problem
from expunge.methods._views import ViewKind, averaged_log_probabilities
from expunge.update._gradients import Term

QUIET_EPOCHS = 3
"""Epochs before the first correction: the gap usually closes by itself at first."""
REFRESHES = 20
"""Targets are refreshed before about so many epochs, however many a run has."""
LARGEST_SHIFT = 0.3
"""Ranks move down by no more than this, so that a gap that cannot be closed does not wind up."""


@dataclass(frozen=True)
class MatchUnseen(Method):
    """U = KL(tᵢ ‖ p(xᵢ)) on forget, tᵢ an output on unseen data of xᵢ's class; C = L on retain.

    Methods that raise the loss on forget data push the model away, no matter where to. This one
    pulls it towards what it does with data it never saw: tᵢ is the output that the current model
    gives to an unseen example of the same class at the same rank of difficulty. The unseen
    example's probability of its label goes to the label of xᵢ; its other probabilities, sorted, go
    to the other classes in the order in which the initial model ranks them at xᵢ. So confidence,
    entropy, loss and correctness on forget data get the joint distribution that they have on
    unseen data. Where nothing of a class is retained, tᵢ has no probability for that class.

    Ranks are among the training examples of the class, by the margin of the initial model's
    log-probabilities, averaged over small shifts (and mirror images, where these keep their
    label): a memorised example loses its margin there. They do not change during a run; the
    outputs on unseen data are refreshed before every epoch, or about 20 times if there are more.
    Once accuracy on forget data no longer approaches that on unseen data fast enough to get there
    in time, ranks move down by ``gain`` times the gap per refresh.

    It needs ``unseen`` data and, since it has a target for every example, datasets rather than
    loaders. Not from the paper.

    Args:
        views: what margins are averaged over: ``shifts`` of images by a pixel or two, the
            ``mirrored`` ones too, or the ``plain`` inputs. ``auto`` is ``mirrored`` where the
            augmentation of the run mirrors, else ``shifts``. Inputs that are no images are plain.
        sample: at most so many unseen and so many retained examples are passed through the model.
        gain: of the correction, per epoch; 0 turns it off.
    """

    views: ViewKind = "auto"
    sample: int = 2000
    gain: float = 0.3

    needs_unseen: ClassVar[bool] = True
    preferred: ClassVar[dict[str, Any]] = {
        "alpha": 0.5,
        "beta": 0.5,
        "lr": 4e-4,
        "epochs": 20,
        "batch_size": 64,
        "batchnorm": "frozen",
        "schedule": "linear",
    }

    def __post_init__(self) -> None:
        if self.views not in get_args(ViewKind):
            known = ", ".join(get_args(ViewKind))
            raise InvalidInput(f"`views` should be one of {known}. (got {self.views!r})")
        if self.sample < 1:
            raise InvalidInput(f"`sample` should be at least 1. (got {self.sample})")
        if not 0.0 <= self.gain <= 1.0:
            raise InvalidInput(f"`gain` should be in [0, 1]. (got {self.gain})")

    def objective(self, problem: Problem, forget: Batch, retain: Batch) -> Term:
        if forget.indices is None:
            raise InvalidInput(
                "MatchUnseen has a target for every example, so it needs to know which ones a "
                "batch holds: give `forget` as a Dataset, not as a DataLoader."
            )
        logits = problem.logits(forget)
        targets = problem.memory["targets"].to(logits.device)[forget.indices]
        divergence = F.kl_div(F.log_softmax(logits, dim=1), targets, reduction="batchmean")
        return Term(divergence, saliency=problem.loss(logits, forget.targets))

    def constraint(self, problem: Problem, forget: Batch, retain: Batch) -> Tensor:
        return problem.loss_on(retain)

    def begin_epoch(self, problem: Problem, epoch: int, epochs: int) -> None:
        """Refresh the targets from the current model's outputs on unseen data."""
        if (epoch - 1) % max(1, epochs // REFRESHES):
            return
        # Which examples are hard, and what the other classes look like there: once per run.
        if "ranks" not in problem.memory:
            self._rank(problem)
        # What the model does now with unseen data, and how far the forget set is from that.
        unseen, unseen_labels = problem.predict("unseen", self.sample)
        labels = problem.memory["labels"]
        if self.gain:
            shift = self._corrected_shift(problem, unseen, unseen_labels, epoch, epochs)
        else:
            shift = 0.0
        # One target per forget example.
        problem.memory["targets"] = match_outputs(
            F.log_softmax(unseen, dim=1).exp(),
            unseen_labels,
            labels,
            problem.memory["ranks"] - shift,
            problem.memory["order"],
            lost=problem.memory["lost"],
        )

    def _rank(self, problem: Problem) -> None:
        """Ranks and class orders of the forget examples under the initial model."""
        forget, labels = averaged_log_probabilities(problem, "forget", self.views)
        retain, retain_labels = averaged_log_probabilities(
            problem, "retain", self.views, self.sample
        )
        retained_classes = set(_distinct(problem.splits.labels("retain")))
        problem.memory["labels"] = labels
        problem.memory["lost"] = torch.tensor(
            [c for c in range(forget.shape[1]) if c not in retained_classes], dtype=torch.int64
        )
        problem.memory["ranks"] = ranks_within_class(
            margins(forget, labels), labels, margins(retain, retain_labels), retain_labels
        )
        masked = forget.scatter(1, labels[:, None], -torch.inf)
        problem.memory["order"] = masked.argsort(dim=1, descending=True)[:, :-1]
        problem.memory["gaps"] = torch.zeros(0)
        problem.memory["shift"] = torch.zeros(())

    def _corrected_shift(
        self, problem: Problem, unseen: Tensor, unseen_labels: Tensor, epoch: int, epochs: int
    ) -> float:
        """How far ranks are moved down in this epoch; kept in the memory of the run."""
        logits, labels = problem.predict("forget")
        gap = accuracy_gap(logits, labels, unseen, unseen_labels, problem.memory["lost"])
        gaps = torch.cat([problem.memory["gaps"], torch.tensor([gap])])
        shift = float(problem.memory["shift"])
        if epoch > QUIET_EPOCHS:
            closing = float(gaps[-2] - gaps[-1]) * (epochs - epoch + 1)
            if gap < 0.0 or closing < gap:
                shift = min(max(shift + self.gain * gap, 0.0), LARGEST_SHIFT)
        problem.memory["gaps"], problem.memory["shift"] = gaps, torch.tensor(shift)
        return shift


def margins(log_probabilities: Tensor, labels: Tensor) -> Tensor:
    """log p of the label minus that of the most probable other class, [N]."""
    own = log_probabilities.gather(1, labels[:, None])[:, 0]
    others = log_probabilities.scatter(1, labels[:, None], -torch.inf)
    return own - others.amax(dim=1)


def ranks_within_class(
    values: Tensor, labels: Tensor, reference: Tensor, reference_labels: Tensor
) -> Tensor:
    """The share of a class's examples, reference and own, that lie below each value, in (0, 1).

    Ties count half.

    >>> one = torch.zeros(1, dtype=torch.int64)
    >>> ranks_within_class(torch.tensor([2.0]), one, torch.tensor([1.0, 3.0, 4.0]), one.repeat(3))
    tensor([0.3750])
    """
    ranks = torch.empty_like(values)
    for label in _distinct(labels):
        here = labels == label
        pool = torch.cat([values[here], reference[reference_labels == label]]).sort().values
        below = torch.searchsorted(pool, values[here])
        up_to = torch.searchsorted(pool, values[here], right=True)
        ranks[here] = (below + up_to).to(values.dtype) / (2 * len(pool))
    return ranks


def match_outputs(
    unseen: Tensor,
    unseen_labels: Tensor,
    labels: Tensor,
    ranks: Tensor,
    order: Tensor,
    lost: Tensor | None = None,
) -> Tensor:
    """Targets [N, K]: for each label and rank, probabilities of unseen data, put in ``order``.

    ``unseen`` [M, K] are probabilities; ``order`` [N, K - 1] ranks the other classes, the most
    probable first. A class of which ``unseen`` has no example takes all of it. Classes in ``lost``
    get no probability.
    """
    classes = unseen.shape[1]
    own = unseen.gather(1, unseen_labels[:, None])[:, 0]
    targets = unseen.new_zeros(len(labels), classes)
    for label in _distinct(labels):
        here = (labels == label).nonzero()[:, 0]
        pool = (unseen_labels == label).nonzero()[:, 0]
        pool = pool if len(pool) else torch.arange(len(unseen))
        pool = pool[own[pool].argsort()]
        chosen = pool[(ranks[here].clamp(0.0, 1.0) * len(pool)).long().clamp(max=len(pool) - 1)]
        donors = unseen_labels[chosen][:, None]
        others = unseen[chosen].scatter(1, donors, -1.0).sort(dim=1, descending=True).values
        rows = unseen.new_zeros(len(here), classes).scatter(1, order[here], others[:, :-1])
        targets[here] = rows.scatter(1, labels[here][:, None], own[chosen][:, None])
    if lost is not None and len(lost):
        targets[:, lost] = 0.0
        targets = targets / targets.sum(dim=1, keepdim=True)
    return targets


def accuracy_gap(
    logits: Tensor, labels: Tensor, unseen: Tensor, unseen_labels: Tensor, lost: Tensor
) -> float:
    """Accuracy on forget minus that on unseen data of the same class mix, as a share.

    Classes of which nothing is retained count as never right on the unseen side.
    """
    right = (logits.argmax(dim=1) == labels).double()
    unseen_right = (unseen.argmax(dim=1) == unseen_labels).double()
    expected = 0.0
    for label in _distinct(labels):
        pool = unseen_right[unseen_labels == label]
        rate = float(pool.mean() if len(pool) else unseen_right.mean())
        rate = 0.0 if label in lost.tolist() else rate
        expected += rate * float((labels == label).double().mean())
    return float(right.mean()) - expected


def _distinct(labels: Tensor) -> list[int]:
    """The labels that occur, each once, in order."""
    return sorted(set(labels.tolist()))
