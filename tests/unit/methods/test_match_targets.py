"""Targets from unseen data: ranks, donors, corrections, against their definitions."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from expunge.methods._match_targets import (
    BINS,
    accuracy_per_class,
    evened_ranks,
    label_odds,
    margins,
    match_outputs,
    ranks_within_class,
    remaining_difference,
    settled_ranks,
    without_broken_classes,
)


def draw(seed: int, count: int, classes: int = 4) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    logits = torch.randn(count, classes, generator=random, dtype=torch.float64)
    return logits.softmax(1), torch.randint(classes, (count,), generator=random)


def literal_targets(
    unseen: Tensor, unseen_labels: Tensor, labels: Tensor, ranks: Tensor, order: Tensor
) -> Tensor:
    """The definition, one example and one class at a time."""
    targets = torch.zeros(len(labels), unseen.shape[1], dtype=unseen.dtype)
    for i, label in enumerate(labels.tolist()):
        pool = [k for k, other in enumerate(unseen_labels.tolist()) if other == label]
        pool = pool or list(range(len(unseen)))
        pool.sort(key=lambda k: float(unseen[k, unseen_labels[k]]))
        donor = pool[min(int(float(ranks[i]) * len(pool)), len(pool) - 1)]
        donor_label = int(unseen_labels[donor])
        others = [float(unseen[donor, c]) for c in range(unseen.shape[1]) if c != donor_label]
        targets[i, label] = unseen[donor, donor_label]
        for c, p in zip(order[i].tolist(), sorted(others, reverse=True), strict=True):
            targets[i, c] = p
    return targets


@given(st.integers(0, 1000))
def test_targets_are_those_of_the_definition(seed: int) -> None:
    unseen, unseen_labels = draw(seed, 15)
    initial, labels = draw(seed + 1, 9)
    order = initial.scatter(1, labels[:, None], -1.0).argsort(dim=1, descending=True)[:, :-1]
    ranks = torch.rand(9, generator=torch.Generator().manual_seed(seed))
    made = match_outputs(unseen, unseen_labels, labels, ranks, order)
    assert torch.allclose(made, literal_targets(unseen, unseen_labels, labels, ranks, order))
    assert torch.allclose(made.sum(1), torch.ones(9, dtype=made.dtype))


def test_evenly_spread_ranks_give_forget_data_the_distribution_of_unseen_data() -> None:
    unseen, _ = draw(0, 40)
    unseen_labels = torch.zeros(40, dtype=torch.int64)
    labels = torch.zeros(40, dtype=torch.int64)
    order = torch.tensor([[1, 2, 3]]).repeat(40, 1)
    made = match_outputs(unseen, unseen_labels, labels, (torch.arange(40) + 0.5) / 40, order)
    assert torch.allclose(made[:, 0].sort().values, unseen[:, 0].sort().values)
    entropy = -(made * made.log()).sum(1)
    expected = -(unseen * unseen.log()).sum(1)
    assert torch.allclose(entropy.sort().values, expected.sort().values)
    assert (made.argmax(1) == 0).sum() == (unseen.argmax(1) == 0).sum()


def test_a_class_of_which_nothing_is_retained_gets_no_probability() -> None:
    unseen, unseen_labels = draw(0, 15)
    _, labels = draw(1, 9)
    order = torch.stack([torch.tensor([c for c in range(4) if c != y]) for y in labels.tolist()])
    lost = torch.tensor([2])
    made = match_outputs(unseen, unseen_labels, labels, torch.full((9,), 0.5), order, lost)
    assert made[:, 2].eq(0).all()
    assert torch.allclose(made.sum(1), torch.ones(9, dtype=made.dtype))


@given(st.integers(0, 1000))
def test_ranks_count_the_training_examples_below(seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    values = torch.randint(5, (8,), generator=random).double()
    reference = torch.randint(5, (20,), generator=random).double()
    labels = torch.randint(2, (8,), generator=random)
    reference_labels = torch.randint(2, (20,), generator=random)
    ranks = ranks_within_class(values, labels, reference, reference_labels)
    for i in range(8):
        pool = [float(v) for v, y in zip(values, labels, strict=True) if y == labels[i]]
        pool += [
            float(v) for v, y in zip(reference, reference_labels, strict=True) if y == labels[i]
        ]
        below = sum(v < values[i] for v in pool) + 0.5 * sum(v == values[i] for v in pool)
        assert ranks[i] == pytest.approx(below / len(pool))


@given(st.integers(0, 1000), st.sampled_from([0.0, 0.3, 1.0]))
def test_settled_ranks_are_the_same_ranks_in_another_order(seed: int, weight: float) -> None:
    random = torch.Generator().manual_seed(seed)
    count = 1 + seed % 9
    ranks, odds = (torch.rand(count, generator=random, dtype=torch.float64) for _ in range(2))
    labels = torch.randint(2, (count,), generator=random)
    settled = settled_ranks(ranks, odds, labels, weight)
    for label in (0, 1):
        here = [i for i in range(count) if labels[i] == label]
        first = {i: sum(float(ranks[k] < ranks[i]) for k in here) for i in here}
        now = {i: sum(float(odds[k] < odds[i]) for k in here) for i in here}
        mixed = {i: (1.0 - weight) * first[i] + weight * now[i] for i in here}
        assert sorted(settled[here].tolist()) == sorted(ranks[here].tolist())
        for i in here:
            for k in here:
                if mixed[i] < mixed[k] - 1e-9:
                    assert settled[i] < settled[k]


def test_margins_are_those_to_the_runner_up() -> None:
    made = margins(torch.tensor([[-1.0, -2.0, -5.0], [-1.0, -2.0, -5.0]]), torch.tensor([0, 2]))
    assert made.tolist() == [1.0, -4.0]


def test_no_difference_remains_where_forget_data_have_the_outputs_of_unseen_data() -> None:
    unseen, labels = draw(0, 400)
    own = unseen.gather(1, labels[:, None])[:, 0]
    ranks = torch.empty(400)
    for label in range(4):
        here = (labels == label).nonzero()[:, 0]
        ranks[here[own[here].argsort()]] = (torch.arange(len(here)) + 0.5) / len(here)
    left = remaining_difference(unseen, labels, ranks, unseen, labels)
    assert torch.allclose(left, torch.zeros(BINS + 4 + BINS, dtype=torch.float64))


def test_the_remaining_difference_is_one_of_log_odds_by_rank() -> None:
    """Ten unseen examples sure at odds of 1, a thousand forgotten ones at odds of 3."""
    unseen, forget = torch.full((10, 2), 0.5), torch.tensor([[0.75, 0.25]]).repeat(1000, 1)
    zeros = torch.zeros(1000, dtype=torch.int64)
    ranks = (torch.arange(1000) + 0.5) / 1000
    left = remaining_difference(forget, zeros, ranks, unseen, zeros[:10])
    assert torch.allclose(left[:BINS], torch.full((BINS,), -math.log(3.0) * 100 / 110).double())
    by_class, entropy = left[BINS:-BINS], left[-BINS:]
    assert torch.allclose(by_class, torch.zeros(2).double()), "a single class is all there is"
    nats = math.log(2.0) + 0.75 * math.log(0.75) + 0.25 * math.log(0.25)
    assert entropy.count_nonzero() == 1, "all entropies are the same, in the middle"
    assert float(entropy[BINS // 2]) == pytest.approx(nats * 1000 / 1010)
    lost = torch.tensor([0])
    none = remaining_difference(forget, zeros, ranks, unseen, zeros[:10], lost)
    assert none.eq(0.0).all()


def test_classes_are_compared_with_the_mean_over_all() -> None:
    """Class 0 is sure at odds of 3, class 1 at odds of 1/3, where odds of 1 are expected."""
    unseen = torch.full((20, 2), 0.5)
    forget = torch.tensor([[0.75, 0.25]]).repeat(600, 1)
    labels = torch.arange(600) % 2
    ranks = (torch.arange(600) // 2 + 0.5) / 300
    left = remaining_difference(forget, labels, ranks, unseen, torch.arange(20) % 2)
    assert torch.allclose(left[:BINS], torch.zeros(BINS).double(), atol=1e-6)
    by_class = math.log(3.0) * 300 / 330
    assert left[BINS:-BINS].tolist() == pytest.approx([-by_class, by_class])


@pytest.mark.parametrize("seed", range(3))
def test_the_odds_of_a_label_are_a_mean_of_margin_and_confidence(seed: int) -> None:
    probabilities, labels = draw(seed, 20)
    made = label_odds(probabilities, labels)
    for row, label, odds in zip(
        probabilities.tolist(), labels.tolist(), made.tolist(), strict=True
    ):
        own, runner_up = row[label], max(p for k, p in enumerate(row) if k != label)
        expected = 0.25 * math.log(own / (1 - own)) + 0.75 * math.log(own / runner_up)
        assert odds == pytest.approx(expected)


def test_a_correction_moves_the_odds_of_the_label_and_keeps_the_rest_in_proportion() -> None:
    unseen, labels = torch.tensor([[0.5, 0.3, 0.2]]).double(), torch.tensor([0])
    order, ranks = torch.tensor([[2, 1]]), torch.tensor([0.95])
    correction = torch.zeros(BINS + 3 + BINS, dtype=torch.float64)
    correction[BINS - 1], correction[BINS] = -math.log(6.0), math.log(2.0)
    made = match_outputs(unseen, labels, labels, ranks, order, correction=correction)
    assert made[0].tolist() == pytest.approx([0.25, 0.3, 0.45])


def test_a_correction_makes_the_other_classes_more_or_less_alike() -> None:
    unseen, labels = torch.tensor([[0.5, 0.4, 0.1]]).double(), torch.tensor([0])
    order, ranks = torch.tensor([[1, 2]]), torch.tensor([0.95])
    correction = torch.zeros(BINS + 3 + BINS, dtype=torch.float64)
    for power, share in ((0.5, 2 / 3), (2.0, 16 / 17)):
        correction[-BINS // 2] = -math.log(power)  # a single example is in the middle
        made = match_outputs(unseen, labels, labels, ranks, order, correction=correction)
        assert made[0].tolist() == pytest.approx([0.5, 0.5 * share, 0.5 * (1 - share)])


def test_ranks_of_a_random_draw_are_spread_evenly() -> None:
    labels = torch.zeros(200, dtype=torch.int64)
    bunched = 0.3 + 0.4 * torch.rand(200, generator=torch.Generator().manual_seed(0))
    evened = evened_ranks(bunched, labels)
    even = (bunched.argsort().argsort() + 0.5) / 200
    assert torch.allclose(evened, bunched + (even - bunched) * 200 / 230, atol=1e-6)
    assert torch.equal(evened.argsort(), bunched.argsort())


def test_ranks_of_one_example_or_of_the_hardest_ones_stay_about_what_they_are() -> None:
    one = evened_ranks(torch.tensor([0.1]), torch.tensor([3]))
    assert float(one) == pytest.approx(0.1 + 0.4 / 31)
    hardest = torch.linspace(0.0, 0.1, 100)
    assert (evened_ranks(hardest, torch.zeros(100, dtype=torch.int64)) - hardest).abs().max() < 0.02


def test_targets_do_not_follow_a_class_that_breaks() -> None:
    first = torch.tensor([[0.9, 0.1]] * 50 + [[0.1, 0.9]] * 50)
    labels = torch.tensor([0] * 50 + [1] * 50)
    worse = first.clone()
    worse[:50] = torch.tensor([0.2, 0.8])
    worse[50:] = torch.tensor([0.3, 0.7])
    fallen = accuracy_per_class(worse, labels)
    assert fallen.tolist() == [0.0, 1.0]
    kept = without_broken_classes(worse, first, labels, fallen)
    assert torch.equal(kept[:50], first[:50])
    assert torch.equal(kept[50:], worse[50:])
    recovering = torch.tensor([0.98, 1.0])
    assert torch.equal(without_broken_classes(worse, first, labels, recovering), worse)
