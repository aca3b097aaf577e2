"""Gradients become one before anything non-linear; processes may find different ones."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

import expunge
from expunge import Focus, InvalidInput, SampleMoments, Update, WeightedSum
from expunge.distributed import SINGLE, as_group
from expunge.distributed._reduction import fill
from tests.team import Team
from tests.team_runs import Plain

GRADIENTS = {"objective": (3.0, -1.0), "constraint": (-1.0, 3.0)}
"""Of the two processes: opposed within each, but both means are 1."""


def before_and_after() -> tuple[float, float]:
    """The step of AND, reduced before the weight, and (wrongly) after it."""
    rank = dist.get_rank()
    steps = []
    for group in ("auto", None):
        w = nn.Parameter(torch.ones(1))
        losses = {name: GRADIENTS[name][rank] * w.sum() for name in GRADIENTS}
        Update("and", WeightedSum(1.0, 1.0), group=group).backward(**losses, params=[w])
        assert w.grad is not None
        steps.append(w.grad)
    return steps[0].item(), as_group("auto").average(steps[1:])[0].item()


def test_reducing_after_the_weight_is_another_algorithm(pair: Team) -> None:
    w = nn.Parameter(torch.ones(1))
    means = {name: sum(both) / 2 * w.sum() for name, both in GRADIENTS.items()}
    Update("and", WeightedSum(1.0, 1.0)).backward(**means, params=[w])
    assert w.grad is not None
    assert w.grad.item() == 2.0
    assert pair(before_and_after) == [(2.0, 0.0)] * 2


def focus_both_ways() -> dict[str, list[float]]:
    """FOCUS on a small net, the two ways."""
    rank = dist.get_rank()
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 16, 4, generator=generator).tensor_split(2, dim=1)[rank]
    steps = {}
    for name, group in (("before", "auto"), ("after", None)):
        model = Plain()
        update = Update("focus", WeightedSum(0.5, 0.5), group=group)
        losses = [model(part).square().mean() for part in x]
        update.backward(-losses[0], losses[1], params=model.parameters())
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        if group is None:
            gradients = as_group("auto").average(gradients)
        steps[name] = torch.cat([g.flatten() for g in gradients]).tolist()
    return steps


def test_focus_is_that_of_the_global_batch_only_if_reduced_before(pair: Team) -> None:
    steps, same = pair(focus_both_ways)
    assert steps == same
    model = Plain()
    x = torch.randn(2, 16, 4, generator=torch.Generator().manual_seed(0))
    losses = [model(part).square().mean() for part in x]
    Update("focus", WeightedSum(0.5, 0.5)).backward(
        -losses[0], losses[1], params=model.parameters()
    )
    alone = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    before, after = (torch.tensor(steps[name]) for name in ("before", "after"))
    torch.testing.assert_close(before, alone, rtol=1e-5, atol=1e-7)
    assert (after - alone).norm() > 0.05 * alone.norm()


def partly_reached() -> list[list[float] | None]:
    """Process 0 reaches a, process 1 reaches b, both reach c, none d."""
    rank = dist.get_rank()
    a, b, c, d = (nn.Parameter(torch.ones(2)) for _ in range(4))
    Update("none", WeightedSum(1.0, 1.0), group="auto").backward(
        objective=(b if rank else a).sum() + c.sum(),
        constraint=c.sum() * (1 + rank),
        params=[a, b, c, d],
    )
    return [None if p.grad is None else p.grad.tolist() for p in (a, b, c, d)]


def test_a_parameter_that_some_processes_miss_counts_as_zero_there(pair: Team) -> None:
    assert pair(partly_reached) == [[[0.5, 0.5], [0.5, 0.5], [2.5, 2.5], None]] * 2


def sample_variances(parts: int) -> tuple[list[float], float]:
    """The moments of `sample`, from ``parts`` micro-batches in all."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(parts, 5, 4, generator=generator)
    size = dist.get_world_size() if dist.is_initialized() else 1
    rank = dist.get_rank() if size > 1 else 0
    update = Update(Focus(moments=SampleMoments(parts)), group="auto")
    model = Plain()
    own = x.tensor_split(size)[rank]
    update.backward(
        (-model(part).square().mean() for part in own),
        [model(part).exp().mean() for part in own],
        params=model.parameters(),
    )
    state = update.state_dict()
    moments = torch.cat([m.flatten() for m in (*state["moments_u"], *state["moments_c"])])
    return moments.tolist(), float(update.diagnostics.agreement)


def uneven_micro_batches() -> str:
    model = Plain()
    losses = [model(torch.ones(2, 4)).sum() * k for k in range(1, 3 + dist.get_rank())]
    update = Update(Focus(moments=SampleMoments(2)), group="auto")
    with pytest.raises(InvalidInput) as error:
        update.backward(losses, losses, params=model.parameters(), retain_graph=True)
    return str(error.value)


def test_squared_deviations_are_those_about_the_common_mean(pair: Team) -> None:
    alone = sample_variances(6)
    first, second = pair(sample_variances, 6)
    assert first == second
    assert first[0] == pytest.approx(alone[0], rel=1e-4, abs=1e-9)
    assert first[1] == pytest.approx(alone[1], rel=1e-5)
    one, other = pair(uneven_micro_batches)
    assert one == other
    assert "as many micro-batches as the others. (got 5 over 2 processes)" in one


def in_every_type() -> list[Any]:
    rank, group = dist.get_rank(), as_group("auto")
    kinds = [torch.float32, torch.float64, torch.bfloat16, torch.float32]
    tensors = [torch.full((3,), 1.0 + 2 * rank, dtype=kind) for kind in kinds]
    image = torch.arange(24.0).view(1, 2, 3, 4).to(memory_format=torch.channels_last) * (1 + rank)
    averaged = group.average([*tensors, image])
    assert averaged[-1].is_contiguous(memory_format=torch.channels_last)
    group.copy_from_first(tensors)
    return [*(a.tolist() for a in averaged), *(t.tolist() for t in tensors)]


def test_buckets_carry_every_type_and_memory_order(pair: Team) -> None:
    first, second = pair(in_every_type)
    assert first == second
    image = (1.5 * torch.arange(24.0).view(1, 2, 3, 4)).tolist()
    assert first == [*[[2.0] * 3] * 4, image, *[[1.0] * 3] * 4]


def test_buckets_are_of_limited_size_and_one_type() -> None:
    kinds = [(n, kind) for n in (3, 5, 9) for kind in (torch.float32, torch.float64)]
    tensors = [torch.full((n,), float(n), dtype=kind) for n, kind in kinds]
    buckets = fill([*tensors[:-1], None], tensors, capacity=32, scale=2.0)
    assert [(b.numel(), b.dtype) for b in buckets.flat] == [
        (8, torch.float32), (9, torch.float32),
        (3, torch.float64), (5, torch.float64), (9, torch.float64),
    ]  # fmt: skip
    for tensor, view in zip(tensors[:-1], buckets.views, strict=False):
        assert torch.equal(view, 2 * tensor)
    assert not buckets.views[-1].any()


def test_alone_there_is_no_group() -> None:
    assert as_group("auto") is SINGLE
    assert as_group(None) is SINGLE
    assert not SINGLE
    assert expunge.Update(group="auto").group is SINGLE
    with pytest.raises(InvalidInput, match=r"`group` should be .* \(got 3\)"):
        expunge.Update(group=3)


def disagree() -> tuple[str, str, str]:
    group = as_group("auto")
    with pytest.raises(InvalidInput) as given:
        group.check_agreement({"seed": group.rank, "epochs": 3})
    with pytest.raises(expunge.ExpungeError) as bits:
        expunge.distributed._group.check_same_bits(group, f"digest {group.rank}")

    def fail() -> None:
        raise expunge.DataError("Only the first looked.")

    with pytest.raises(expunge.DataError) as first:
        group.run_in_first(fail)
    return str(given.value), str(bits.value), str(first.value)


def test_disagreement_is_an_error_in_every_process(pair: Team) -> None:
    given, bits, first = pair(disagree)[0]
    assert pair(disagree)[1] == (given, bits, first)
    assert "they differ in seed. (got 0 and 1)" in given
    assert "process 1 differ from those of process 0" in bits
    assert first == "Only the first looked."
