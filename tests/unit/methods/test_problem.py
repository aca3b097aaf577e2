"""What may move BatchNorm's running statistics, policy by policy."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from expunge._errors import InvalidInput
from expunge.methods import Batch, BatchNormPolicy, Problem
from expunge.methods._problem import batchnorm_as
from tests import tiny
from tests.tiny import TinyConv, images

STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


def statistics(model: TinyConv) -> list[torch.Tensor]:
    return [getattr(bn, name).clone() for bn in (model.bn1, model.bn2) for name in STATISTICS]


def visit(policy: BatchNormPolicy, split: Any, count: int = 6) -> tuple[bool, torch.Tensor]:
    """Whether every statistic moved (True) or none did (False), and the logits."""
    model = TinyConv().train()
    before = statistics(model)
    batch = Batch(*images(count).tensors, split)
    logits = Problem(model, batchnorm=policy).logits(batch)
    moved = {not torch.equal(a, b) for a, b in zip(before, statistics(model), strict=True)}
    assert len(moved) == 1, "some statistics moved and some did not"
    assert model.bn1.momentum == model.bn2.momentum == 0.1
    assert all(module.training for module in model.modules())
    return moved.pop(), logits


@pytest.mark.parametrize(
    ("policy", "split", "moves"),
    [
        ("published", "forget", True),
        ("published", "retain", True),
        ("retain-only", "forget", False),
        ("retain-only", "retain", True),
        ("frozen", "forget", False),
        ("frozen", "retain", False),
    ],
)
def test_who_moves_the_statistics(policy: BatchNormPolicy, split: Any, moves: bool) -> None:
    assert visit(policy, split)[0] is moves


def test_retain_only_still_normalises_forget_by_the_batch() -> None:
    published, silent = visit("published", "forget")[1], visit("retain-only", "forget")[1]
    assert torch.equal(published, silent)
    assert not torch.allclose(visit("frozen", "forget")[1], published)


@pytest.mark.parametrize("policy", ["published", "retain-only", "frozen"])
def test_a_batch_of_one_is_normalised_by_the_running_statistics(policy: BatchNormPolicy) -> None:
    moved, logits = visit(policy, "retain", count=1)
    assert not moved
    plain = TinyConv().eval()(images(1).tensors[0])
    assert torch.equal(logits, plain)


def test_a_cumulative_average_comes_back_as_it_was() -> None:
    layer = nn.BatchNorm1d(3, momentum=None).train()
    with batchnorm_as(layer, "retain-only", "forget", 4):
        layer(torch.randn(4, 3))
    assert layer.momentum is None
    assert layer.num_batches_tracked == 0
    assert torch.equal(layer.running_mean, torch.zeros(3))


def test_policies_hold_when_the_forward_pass_fails() -> None:
    layer = nn.BatchNorm1d(3).train()
    with (
        pytest.raises(ValueError, match="expected 2D or 3D"),
        batchnorm_as(layer, "frozen", "forget", 4),
    ):
        layer(torch.randn(4, 3, 2, 2))
    assert layer.training
    assert layer.momentum == 0.1


def test_layers_without_statistics_are_let_be() -> None:
    layer = nn.BatchNorm1d(3, track_running_stats=False).train()
    for policy in ("retain-only", "frozen"):
        with batchnorm_as(layer, policy, "forget", 4):
            assert layer(torch.randn(4, 3)).isfinite().all()


def test_unlearn_follows_the_policy() -> None:
    ends = {}
    for policy in ("published", "retain-only", "frozen"):
        model = TinyConv()
        end = tiny.unlearn(
            model,
            forget=images(6, seed=1),
            retain=images(6, seed=2),
            method="neg-grad-plus",
            epochs=3,
            batchnorm=policy,
        ).model
        ends[policy] = end.bn1.num_batches_tracked.item()
        frozen = torch.equal(end.bn1.running_mean, model.bn1.running_mean)
        assert frozen is (policy == "frozen")
    assert ends == {"published": 6, "retain-only": 3, "frozen": 0}


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"one of published, retain-only, frozen. .got 'none'"):
        tiny.unlearn(TinyConv(), forget=images(2), retain=images(2, 1), batchnorm="none")  # type: ignore[arg-type]
