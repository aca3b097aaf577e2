"""MATCH: give forget data the outputs that the model gives to data it never saw."""

from __future__ import annotations

import math
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

RANKED = 3000
"""Retained examples that forget examples are ranked among."""
REFRESHES = 20
"""Targets are refreshed before about so many epochs, however many a run has."""
BINS = 10
"""Corrections are one number per tenth of the ranks, and one per class."""
SMOOTHING = 0.5
"""The weight of the latest refresh in the difference that the correction is proportional to."""
LASTING_GAIN, LASTING_FROM = 0.6, 0.4
"""The lasting part of the correction: its gain per refresh, and the part of the run without it.

The gain is that of a run with 20 refreshes; shorter ones have a larger one. Much of the difference
goes by itself at first: added up from the start, it would overshoot.
"""
LARGEST_CORRECTION = 4.0
"""In log-odds: what cannot be closed does not wind up."""
SMALLEST = 1e-7
"""Targets are kept this far from 0 and 1 where their log-odds are corrected."""
SMALLEST_COMPARED = 1e-4
"""Probabilities are kept this far from 0 and 1 where they are compared: tails weigh no more."""
FEW, FEW_OF_CLASS = 10, 30
"""Corrections from fewer examples than this, per tenth and per class, are shrunk towards none."""


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
    label): a memorised example loses its margin there. They do not change during a run; the
    outputs on unseen data are refreshed before every epoch, or about 20 times if there are more.
    Where accuracy on unseen data of a class has fallen for good, the first outputs there are used:
    targets must not follow a model downhill.

    A model follows its targets only so far. So the difference that remains between the sorted
    log-odds of the label on forget data and those that its ranks stand for is added to the targets
    ``gain`` times, for each tenth of the ranks and each class; later in the run, what still remains
    adds up. The loop is closed on the distributions as a whole.

    It needs ``unseen`` data and, since it has a target for every example, datasets rather than
    loaders. Not from the paper.

    Args:
        views: what margins are averaged over: ``shifts`` of images by a pixel or two, the
            ``mirrored`` ones too, or the ``plain`` inputs. ``auto`` is ``mirrored`` where the
            augmentation of the run mirrors, else ``shifts``. Inputs that are no images are plain.
        sample: at most so many unseen examples are passed through the model before an epoch. Fewer
            give targets that are off by chance.
        gain: of the correction; 0 turns it off.
        label_weight: λ.
    """

    views: ViewKind = "auto"
    sample: int = 10_000
    gain: float = 3.0
    label_weight: float = 0.5

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
        for name in ("gain", "label_weight"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise InvalidInput(f"`{name}` should not be negative. (got {getattr(self, name)})")

    def objective(self, problem: Problem, forget: Batch, retain: Batch) -> Term:
        if forget.indices is None:
            raise InvalidInput(
                "MatchUnseen has a target for every example, so it needs to know which ones a "
                "batch holds: give `forget` as a Dataset, not as a DataLoader."
            )
        logits = problem.logits(forget)
        targets = problem.memory["targets"].to(logits)[forget.indices]
        log_p = F.log_softmax(logits, dim=1)
        divergence = F.kl_div(log_p, targets, reduction="batchmean")
        if self.label_weight:
            own = forget.targets[:, None]
            divergence = divergence + self.label_weight * label_divergence(
                log_p.gather(1, own)[:, 0], targets.gather(1, own)[:, 0]
            )
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
        # What the model does now with unseen data of these classes.
        logits, unseen_labels = problem.predict("unseen", self.sample)
        unseen = F.softmax(logits.double(), dim=1)
        memory = problem.memory
        accuracy = accuracy_per_class(unseen, unseen_labels)
        if epoch == 1:
            memory["unseen"], memory["accuracy"] = unseen, accuracy
        memory["accuracy"] = torch.lerp(memory["accuracy"], accuracy, SMOOTHING)
        unseen = without_broken_classes(unseen, memory["unseen"], unseen_labels, memory["accuracy"])
        if self.gain and epoch > 1:
            lasting = LASTING_GAIN * max(1.0, REFRESHES / epochs)
            lasting = lasting if epoch > LASTING_FROM * epochs else 0.0
            self._correct(problem, unseen, unseen_labels, lasting)

        # One target per forget example.
        memory["targets"] = match_outputs(
            unseen,
            unseen_labels,
            memory["labels"],
            memory["ranks"],
            memory["order"],
            lost=memory["lost"],
            correction=memory["correction"],
        ).float()

    def _rank(self, problem: Problem) -> None:
        """Ranks and class orders of the forget examples under the initial model."""
        forget, labels = averaged_log_probabilities(problem, "forget", self.views)
        retain, retain_labels = averaged_log_probabilities(problem, "retain", self.views, RANKED)
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
        for name in ("difference", "lasting", "correction"):
            problem.memory[name] = torch.zeros(BINS + forget.shape[1], dtype=torch.float64)

    def _correct(
        self, problem: Problem, unseen: Tensor, unseen_labels: Tensor, lasting: float
    ) -> None:
        """Add what is left between forget and unseen data to the targets."""
        memory = problem.memory
        logits, labels = problem.predict("forget")
        difference = remaining_difference(
            F.softmax(logits.double(), dim=1),
            labels,
            memory["ranks"],
            unseen,
            unseen_labels,
            lost=memory["lost"],
        )
        memory["difference"] = torch.lerp(memory["difference"], difference, SMOOTHING)
        memory["lasting"] = _bounded(memory["lasting"] + lasting * difference)
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
    correction: Tensor | None = None,
) -> Tensor:
    """Targets [N, K]: for each label and rank, probabilities of unseen data, put in ``order``.

    ``unseen`` [M, K] are probabilities; ``order`` [N, K - 1] ranks the other classes, the most
    probable first. A class of which ``unseen`` has no example takes all of it. Classes in ``lost``
    get no probability. ``correction`` [B + K] is added to the log-odds of the label: a number for
    the tenth of the ranks, and one for the class.
    """
    targets = unseen.new_zeros(len(labels), unseen.shape[1])
    donors = donors_by_rank(unseen, unseen_labels, labels, ranks)
    donor_labels = unseen_labels[donors][:, None]
    own = unseen[donors].gather(1, donor_labels)
    others = unseen[donors].scatter(1, donor_labels, -1.0).sort(dim=1, descending=True).values
    targets.scatter_(1, order, others[:, :-1]).scatter_(1, labels[:, None], own)
    if correction is not None:
        added = correction[bins_of(ranks)] + correction[BINS + labels]
        corrected = torch.sigmoid(log_odds(own) + added[:, None])
        targets *= (1.0 - corrected) / (1.0 - own).clamp(min=SMALLEST)
        targets.scatter_(1, labels[:, None], corrected)
        targets /= targets.sum(dim=1, keepdim=True)
    if lost is not None and len(lost):
        targets[:, lost] = 0.0
        targets /= targets.sum(dim=1, keepdim=True)
    return targets


def donors_by_rank(unseen: Tensor, unseen_labels: Tensor, labels: Tensor, ranks: Tensor) -> Tensor:
    """The unseen example [N] of each label at each rank, by the probability of its own label."""
    own = unseen.gather(1, unseen_labels[:, None])[:, 0]
    donors = torch.empty(len(labels), dtype=torch.int64)
    for label in _distinct(labels):
        here = (labels == label).nonzero()[:, 0]
        pool = (unseen_labels == label).nonzero()[:, 0]
        pool = pool if len(pool) else torch.arange(len(unseen))
        pool = pool[own[pool].argsort()]
        places = (ranks[here].clamp(0.0, 1.0) * len(pool)).long().clamp(max=len(pool) - 1)
        donors[here] = pool[places]
    return donors


def remaining_difference(
    forget: Tensor,
    labels: Tensor,
    ranks: Tensor,
    unseen: Tensor,
    unseen_labels: Tensor,
    lost: Tensor | None = None,
) -> Tensor:
    """Expected minus actual odds of the label on forget data [B + K].

    The mean for each tenth of the ranks, then what each class differs from the mean over all. Odds
    are those of :func:`label_odds`. Within each class both are sorted before they are compared:
    distributions should agree, no matter which example is where. Classes in ``lost`` have nothing
    to compare with. Means of few examples are shrunk towards 0.
    """
    donors = donors_by_rank(unseen, unseen_labels, labels, ranks)
    expected = label_odds(unseen[donors], unseen_labels[donors])
    actual = label_odds(forget, labels)
    total, count = (torch.zeros(BINS + forget.shape[1], dtype=torch.float64) for _ in range(2))
    for label in sorted(set(_distinct(labels)) - set([] if lost is None else _distinct(lost))):
        here = labels == label
        difference = (expected[here].sort().values - actual[here].sort().values).double()
        tenths = bins_of(ranks[here].sort().values)
        for groups in (tenths, torch.full_like(tenths, BINS + label)):
            total.index_add_(0, groups, difference)
            count.index_add_(0, groups, torch.ones_like(difference))
    by_tenth = total[:BINS] / (count[:BINS] + FEW)
    mean = total[:BINS].sum() / count[:BINS].sum().clamp(min=1.0)
    by_class = (total[BINS:] - count[BINS:] * mean) / (count[BINS:] + FEW_OF_CLASS)
    return torch.cat([by_tenth, by_class])


def without_broken_classes(now: Tensor, first: Tensor, labels: Tensor, recent: Tensor) -> Tensor:
    """``now`` [M, K], but ``first`` for classes on which accuracy has fallen for good.

    ``recent`` [K] is the accuracy per class over the latest refreshes, in 0 to 1: at high rates it
    goes up and down from one to the next. Fallen is by two standard errors and three points.
    """
    mended = now.clone()
    before = accuracy_per_class(first, labels)
    for label in _distinct(labels):
        here = labels == label
        share = float(before[label])
        error = math.sqrt(share * (1.0 - share) / int(here.sum()))
        if float(recent[label]) < share - 2.0 * error - 0.03:
            mended[here] = first[here]
    return mended


def accuracy_per_class(probabilities: Tensor, labels: Tensor) -> Tensor:
    """The share of each class that is predicted correctly [K]; 0 for a class without examples."""
    right = (probabilities.argmax(dim=1) == labels).double()
    classes = probabilities.shape[1]
    count = torch.bincount(labels, minlength=classes).clamp(min=1)
    return torch.zeros(classes, dtype=torch.float64).index_add_(0, labels, right) / count


def bins_of(ranks: Tensor) -> Tensor:
    """Which tenth of the ranks each belongs to."""
    return (ranks * BINS).long().clamp(0, BINS - 1)


def label_odds(probabilities: Tensor, labels: Tensor) -> Tensor:
    """A weighted mean of two log-odds [N]: the label against the runner-up, and against all others.

    The first decides correctness, the second confidence; they weigh ¾ and ¼.
    """
    own = probabilities.gather(1, labels[:, None])[:, 0]
    runner_up = probabilities.scatter(1, labels[:, None], 0.0).amax(dim=1)
    least = SMALLEST_COMPARED
    margin = own.clamp(min=least).log() - runner_up.clamp(min=least).log()
    return 0.75 * margin + 0.25 * log_odds(own, least)


def log_odds(p: Tensor, smallest: float = SMALLEST) -> Tensor:
    """log p/(1-p), finite at 0 and 1."""
    p = p.clamp(smallest, 1.0 - smallest)
    return torch.log(p) - torch.log1p(-p)


def _bounded(correction: Tensor) -> Tensor:
    return correction.clamp(-LARGEST_CORRECTION, LARGEST_CORRECTION)


def _distinct(labels: Tensor) -> list[int]:
    """The labels that occur, each once, in order."""
    return sorted(set(labels.tolist()))
