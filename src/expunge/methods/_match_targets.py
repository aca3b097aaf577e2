"""Targets from unseen data: which output of an unseen example each forget example should have."""

from __future__ import annotations

import math

import torch
from torch import Tensor

BINS = 10
"""Corrections are numbers per tenth of the ranks, and one per class."""
SMALLEST = 1e-7
"""Targets are kept this far from 0 and 1 where their log-odds are corrected."""
SMALLEST_COMPARED = 1e-4
"""Probabilities are kept this far from 0 and 1 where they are compared: tails weigh no more."""
FEW, FEW_OF_CLASS = 10, 30
"""What is estimated from fewer examples than this, per tenth and per class, is shrunk."""
LARGEST_SPREAD = 2.0
"""The exponents of the other classes' probabilities are kept between e^-2 and e^2."""


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
    for label in distinct(labels):
        here = labels == label
        pool = torch.cat([values[here], reference[reference_labels == label]]).sort().values
        below = torch.searchsorted(pool, values[here])
        up_to = torch.searchsorted(pool, values[here], right=True)
        ranks[here] = (below + up_to).to(values.dtype) / (2 * len(pool))
    return ranks


def evened_ranks(ranks: Tensor, labels: Tensor) -> Tensor:
    """Ranks [N] moved towards evenly spread ones, within each class and in the same order.

    Of a class's examples drawn at random the true ranks are spread evenly but for chance, and what
    measured ones are off by is chance and error. Few examples say little about their spread; and
    where the mean rank is more than two standard errors from ½, they are no random draw: there
    the measured ranks keep most of their weight.
    """
    evened = ranks.clone()
    for label in distinct(labels):
        here = (labels == label).nonzero()[:, 0]
        count, measured = len(here), ranks[here]
        even = (measured.argsort(stable=True).argsort().to(ranks) + 0.5) / count
        errors = abs(float(measured.mean()) - 0.5) * math.sqrt(12.0 * count)
        weight = count / (count + FEW_OF_CLASS) * min(1.0, (2.0 / max(errors, 2.0)) ** 2)
        evened[here] = torch.lerp(measured, even, weight)
    return evened


def settled_ranks(ranks: Tensor, odds: Tensor, labels: Tensor, weight: float) -> Tensor:
    """The same ranks [N], given within each class in an order between the first and the current.

    The first is that of ``ranks``, the current that of ``odds``, the log-odds of the label under
    the current model; ``weight`` is that of the current one, in 0 to 1. Ranks are guesses. With the
    order that the model itself has arrived at, the smallest moves make the distributions agree.

    >>> ranks, odds = torch.tensor([0.1, 0.5, 0.9]), torch.tensor([3.0, 1.0, 2.0])
    >>> settled_ranks(ranks, odds, torch.zeros(3, dtype=torch.int64), 1.0)
    tensor([0.9000, 0.1000, 0.5000])
    """
    settled = ranks.clone()
    for label in distinct(labels):
        here = (labels == label).nonzero()[:, 0]
        first, now = (values[here].argsort().argsort().double() for values in (ranks, odds))
        order = torch.lerp(first, now, weight).argsort(stable=True)
        settled[here[order]] = ranks[here].sort().values
    return settled


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
    get no probability. ``correction`` [B + K + B] is added to the log-odds of the label, a number
    for the tenth of the ranks and one for the class; its last part s, a number for the tenth of the
    entropies, flattens the other classes: their probabilities are raised to the power of e^-s.
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
        spread = correction[-BINS:].clamp(-LARGEST_SPREAD, LARGEST_SPREAD)
        power = torch.exp(-spread[_tenths_within_class(_entropy(targets), labels)])
        targets = targets.clamp(min=SMALLEST).pow(power[:, None])
        targets = targets.scatter(1, labels[:, None], 0.0)
        targets *= (1.0 - corrected) / targets.sum(dim=1, keepdim=True)
        targets.scatter_(1, labels[:, None], corrected)
    if lost is not None and len(lost):
        targets[:, lost] = 0.0
        targets /= targets.sum(dim=1, keepdim=True)
    return targets


def donors_by_rank(unseen: Tensor, unseen_labels: Tensor, labels: Tensor, ranks: Tensor) -> Tensor:
    """The unseen example [N] of each label at each rank, by the probability of its own label."""
    own = unseen.gather(1, unseen_labels[:, None])[:, 0]
    donors = torch.empty(len(labels), dtype=torch.int64)
    for label in distinct(labels):
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
    """Expected minus actual odds of the label, and entropies, on forget data [B + K + B].

    The mean of the odds (:func:`label_odds`) for each tenth of the ranks, then what each class
    differs from the mean over all, then the mean of the entropies for each tenth of them. Within
    each class both sides are sorted before they are compared: distributions should agree, no matter
    which example is where. Classes in ``lost`` have nothing to compare with. Means of few examples
    are shrunk towards 0.
    """
    donors = donors_by_rank(unseen, unseen_labels, labels, ranks)
    expected, donor_labels = unseen[donors], unseen_labels[donors]
    odds = label_odds(expected, donor_labels), label_odds(forget, labels)
    entropies = _entropy(expected), _entropy(forget)
    classes = forget.shape[1]
    total, count = (torch.zeros(BINS + classes + BINS, dtype=torch.float64) for _ in range(2))
    for label in sorted(set(distinct(labels)) - set([] if lost is None else distinct(lost))):
        here = labels == label
        by_odds, by_entropy = (
            (side[0][here].sort().values - side[1][here].sort().values).double()
            for side in (odds, entropies)
        )
        tenths = bins_of(ranks[here].sort().values)
        of_entropy = _tenths_within_class(entropies[0][here].sort().values, labels[here])
        groups = (tenths, torch.full_like(tenths, BINS + label), BINS + classes + of_entropy)
        for group, difference in zip(groups, (by_odds, by_odds, by_entropy), strict=True):
            total.index_add_(0, group, difference)
            count.index_add_(0, group, torch.ones_like(difference))
    sizes = [BINS, classes, BINS]
    odds_sum, class_sum, entropy_sum = torch.split(total, sizes)
    by_tenth, by_class, by_entropy_tenth = torch.split(count, sizes)
    mean = odds_sum.sum() / by_tenth.sum().clamp(min=1.0)
    return torch.cat(
        [
            odds_sum / (by_tenth + FEW),
            (class_sum - by_class * mean) / (by_class + FEW_OF_CLASS),
            entropy_sum / (by_entropy_tenth + FEW),
        ]
    )


def without_broken_classes(now: Tensor, first: Tensor, labels: Tensor, recent: Tensor) -> Tensor:
    """``now`` [M, K], but ``first`` for classes on which accuracy has fallen for good.

    ``recent`` [K] is the accuracy per class over the latest refreshes, in 0 to 1: at high rates it
    goes up and down from one to the next. Fallen is by two standard errors and six points.
    """
    mended = now.clone()
    before = accuracy_per_class(first, labels)
    for label in distinct(labels):
        here = labels == label
        share = float(before[label])
        error = math.sqrt(share * (1.0 - share) / int(here.sum()))
        if float(recent[label]) < share - 2.0 * error - 0.06:
            mended[here] = first[here]
    return mended


def accuracy_per_class(probabilities: Tensor, labels: Tensor) -> Tensor:
    """The share of each class that is predicted correctly [K]; 0 for a class without examples."""
    right = (probabilities.argmax(dim=1) == labels).double()
    classes = probabilities.shape[1]
    count = torch.bincount(labels, minlength=classes).clamp(min=1)
    return torch.zeros(classes, dtype=torch.float64).index_add_(0, labels, right) / count


def class_difference(labels: Tensor, others: Tensor) -> float:
    """Half the sum of the differences of the shares of classes, in 0 (the same mix) to 1.

    >>> class_difference(torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 1, 1]))
    0.25
    """
    classes = int(max(labels.max(), others.max())) + 1
    first, second = (
        torch.bincount(each, minlength=classes) / len(each) for each in (labels, others)
    )
    return 0.5 * float((first - second).abs().sum())


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


def _tenths_within_class(values: Tensor, labels: Tensor) -> Tensor:
    """Which tenth of its class each value belongs to."""
    none = labels[:0]
    return bins_of(ranks_within_class(values, labels, values[:0], none))


def _entropy(probabilities: Tensor) -> Tensor:
    return -torch.xlogy(probabilities, probabilities).sum(dim=1)


def distinct(labels: Tensor) -> list[int]:
    """The labels that occur, each once, in order."""
    return sorted(set(labels.tolist()))
