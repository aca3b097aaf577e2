"""The checks that two processes make together; see ``shard_worlds.py``."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn import functional as F

import expunge
from expunge._errors import InvalidInput
from expunge.update import Bernoulli, Focus, Jacobian, Prob, Update, WeightedSum
from tests import tiny
from tests.unit.update.shard_worlds import (
    assert_alike,
    assert_equal_runs,
    check,
    full,
    losses,
    net,
    sharded,
    train,
)

SAMPLED = Focus(moments="sample")


def table(name: str, arguments: dict, **options) -> None:
    def equal(rank: int) -> None:
        assert_equal_runs(rank, arguments, **options)

    equal.__name__ = name
    check(equal)


table("none", {"addon": "none"})
table("and_", {"addon": "and"})
table("saliency", {"addon": "saliency"})
table("prob", {"addon": Prob(p=0.4)})
table("focus", {"addon": "focus"})
table("focus_published", {"addon": Focus(moments="published")})
table("focus_relative_eps", {"addon": Focus(eps="relative")})
table("focus_in_float32", {"addon": "focus"}, dtype=torch.float32)
table("min_abs", {"addon": "focus", "aggregate": "min-abs"})
table("strict_and", {"addon": "and", "strict": True})
table("strict_saliency", {"addon": "saliency", "strict": True})
table("strict_focus", {"addon": "focus", "strict": True})
table("no_diagnostics", {"addon": "focus", "diagnostics": False})
table("both_forwards_first", {"addon": "saliency"}, eager=True)
table("without_constraint", {"addon": "focus"}, constrained=False)
table("saliency_without_constraint", {"addon": "saliency"}, constrained=False)
table("micro_batches", {"addon": "saliency"}, parts=3)
table("sample_moments", {"addon": SAMPLED}, parts=3)
table("sample_moments_eager", {"addon": SAMPLED}, parts=2, eager=True)


@check
def parts_are_not_gathered(rank: int) -> None:
    model = sharded(net())
    update = Update("focus")
    train(model, update, rank, steps=range(1))
    weight = model.first.weight
    assert isinstance(weight.grad, DTensor)
    assert weight.grad.placements == weight.placements
    shapes = [tuple(moment.shape) for moment in update.state.moments_u]
    assert shapes == [tuple(p.to_local().shape) for p in model.parameters()]
    assert (150, 6) in shapes
    assert model.scale.to_local().numel() == (1 if rank == 0 else 0)


@check
def recomputed_activations(rank: int) -> None:
    whole, model = net(), sharded(net(recompute=True))
    train(whole, Update("saliency"), None)
    train(model, Update("saliency"), rank)
    assert_alike(model, whole)


@check
def a_loss_made_of_the_parameters(rank: int) -> None:
    results = []
    for model, own in ((net(), None), (sharded(net()), rank)):
        update, optimizer = Update("focus"), torch.optim.SGD(model.parameters(), lr=0.1)
        _, constraint = losses(model, 0, own, torch.float64)  # lazily: after the norm
        norm = torch.stack([p.abs().sum() for p in model.parameters()]).sum()
        update.backward(norm, constraint, params=model.parameters())
        optimizer.step()
        results.append((full(model), float(update.losses[0])))
    torch.testing.assert_close(results[1], results[0], rtol=1e-9, atol=1e-12)


@check
def masked_weights_do_not_move_under_strict(rank: int) -> None:
    model = sharded(net())
    before = full(model)
    update = Update("and", strict=True)
    train(model, update, rank, steps=range(1))
    moved = sum(int((after != before[name]).sum()) for name, after in full(model).items())
    count = sum(p.numel() for p in before.values())
    assert abs(moved / count - update.diagnostics.moved) < 1e-6
    assert 0 < moved < count


@check
def the_level_of_rounding_is_that_of_all_parts(rank: int) -> None:
    """Of two rows, process 1 holds the one whose gradient of U is rounding beside the other."""
    model = nn.Linear(1, 2, bias=False)
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
    x, params = torch.ones(1, 1), list(model.parameters())
    for addon, moved in (("and", [1, 0]), ("saliency", [1, 1])):
        objective = (model(x) * torch.tensor([1.0, 1e-9])).sum()
        Update(addon, WeightedSum(0.0, 1.0)).backward(objective, model(x).sum(), params=params)
        assert params[0].grad.full_tensor().flatten().tolist() == moved


@check
def draws_differ_from_part_to_part(rank: int) -> None:
    """BER: streams of their own, each of the right distribution, the same every time."""
    results = []
    for _ in range(2):
        model = sharded(net())
        update = Update(Bernoulli(moments="published"), seed=3)
        watched = train(model, update, rank, steps=range(4))
        results.append(full(model))
        for row in watched[1:]:
            assert abs(row["moved"] - row["agreement"]) < 0.01  # 4.3e4 draws
    torch.testing.assert_close(results[1], results[0], rtol=0, atol=0)
    [state] = update.state_dict()["generators"].values()
    everyone = [torch.empty_like(state) for _ in range(2)]
    dist.all_gather(everyone, state)
    assert not torch.equal(*everyone)


@check
def replicas_count_once_and_draw_alike(rank: int) -> None:
    """HSDP on a 2 x 1 mesh: both processes hold copies."""
    mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("replicate", "shard"))
    whole, model = net(), sharded(net(), mesh)
    want = train(whole, Update("saliency"), None)
    got = train(model, Update("saliency"), rank)
    assert_alike(model, whole)
    assert abs(got[-1]["norm"] - want[-1]["norm"]) < 1e-9
    model = sharded(net(), mesh)
    train(model, Update("bernoulli"), rank)
    own = model.first.weight.to_local().detach().clone()
    dist.broadcast(own, 0)
    assert torch.equal(own, model.first.weight.to_local())


@check
def parameters_outside_are_reduced_by_the_group(rank: int) -> None:
    """A block sharded, the rest plain: the update's group averages what FSDP does not."""
    whole, model = net(), net()
    fully_shard(model.block, mesh=init_device_mesh("cpu", (2,)))
    want = train(whole, Update("saliency"), None)
    got = train(model, Update("saliency", group="auto"), rank)
    assert_alike(model, whole)
    assert abs(got[-1]["norm"] - want[-1]["norm"]) < 1e-9
    assert abs(got[-1]["bound"] - want[-1]["bound"]) < 1e-9


@check
def a_saved_state_goes_on(rank: int) -> None:
    whole, model = net(), sharded(net())
    reference, first = Update("focus"), Update("focus")
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (whole, model)]
    train(whole, reference, None, optimizer=optimizers[0])
    train(model, first, rank, optimizer=optimizers[1])
    state = first.state_dict()
    for moment, want in zip(state["moments_u"], reference.state.moments_u, strict=True):
        torch.testing.assert_close(moment.full_tensor(), want)
    second = Update("focus")
    second.load_state_dict(state)
    for m, update, optimizer, own in (
        (whole, reference, optimizers[0], None),
        (model, second, optimizers[1], rank),
    ):
        train(m, update, own, steps=range(3, 5), optimizer=optimizer)
    assert_alike(model, whole)


@check
def a_distributed_checkpoint_goes_on(rank: int) -> None:
    folder = [tempfile.mkdtemp() if rank == 0 else ""]
    dist.broadcast_object_list(folder)
    model = sharded(net())
    first = Update(Bernoulli(), seed=1)
    train(model, first, rank)
    dcp.save({"update": first.state_dict()}, checkpoint_id=Path(folder[0]) / "state")
    second = Update(Bernoulli(), seed=1)
    second.prepare(model.parameters())
    state = {"update": second.state_dict()}
    state["update"]["generators"] = first.state_dict()["generators"]
    dcp.load(state, checkpoint_id=Path(folder[0]) / "state")
    second.load_state_dict(state["update"])
    assert second.state.step == 3
    for a, b in zip(first.state.moments_c, second.state.moments_c, strict=True):
        assert torch.equal(a, b)


@check
def mixed_precision_policy(rank: int) -> None:
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model, whole = sharded(net(torch.float32), mp_policy=policy), net(torch.float32)
    update, reference = Update("focus"), Update("focus")
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.05) for m in (model, whole)]
    train(model, update, rank, dtype=torch.float32, optimizer=optimizers[0])
    train(whole, reference, None, dtype=torch.float32, optimizer=optimizers[1])
    assert all(m.dtype == torch.float32 for m in update.state.moments_u)
    assert_alike(model, whole, rtol=2e-2, atol=2e-3)


@check
def parameters_taken_too_late_are_refused(rank: int) -> None:
    """Between forward and backward FSDP has whole parameters in the module."""
    for model in (sharded(net()), fully_shard(net(), mesh=init_device_mesh("cpu", (2,)))):
        objective, constraint = (next(part) for part in losses(model, 0, rank, torch.float64))
        with pytest.raises(InvalidInput, match=r"should be the sharded parameters.*before it"):
            Update("and").backward(objective, constraint, params=model.parameters())


@check
def unlearn_refuses_a_sharded_model(rank: int) -> None:
    forget, retain = (
        torch.utils.data.TensorDataset(torch.full((4, 6), value), torch.arange(4) % 3)
        for value in (0.0, 1.0)
    )
    with pytest.raises(InvalidInput, match="The model should be whole"):
        tiny.unlearn(sharded(net()), forget=forget, retain=retain, progress=False, group=None)


@check
def what_needs_all_parameters_is_refused(rank: int) -> None:
    model = sharded(net())
    update = Update("none", Jacobian(lambda matrix: matrix.mean(dim=0)))
    objective, constraint = losses(model, 0, rank, torch.float64)
    with pytest.raises(InvalidInput, match="should be elementwise, as linear and min-abs are"):
        update.backward(objective, constraint, params=model.parameters())
    with pytest.raises(InvalidInput, match="`combine` takes whole tensors"):
        Update("and", WeightedSum()).combine([*model.parameters()], [*model.parameters()])


@check
def the_loop_in_the_documents_runs(rank: int) -> None:
    page = Path(__file__).parents[3] / "docs" / "how-to" / "large-models.md"
    code = page.read_text().split("```python\n")[1].split("```")[0]
    torch.manual_seed(0)
    model = nn.Sequential()
    model.add_module("blocks", nn.Sequential(nn.Linear(4, 6), nn.Tanh()))
    model.add_module("head", nn.Linear(6, 3))
    before = full(model)
    examples = [[(torch.randn(4, 4), torch.arange(4) % 3) for _ in range(2)] for _ in range(2)]
    given = {
        "torch": torch,
        "expunge": expunge,
        "fully_shard": fully_shard,
        "mesh": init_device_mesh("cpu", (2,)),
        "model": model,
        "loss": F.cross_entropy,
        "batches": examples,
    }
    exec(code, given)
    assert given["update"].state.step == 2
    assert any(not torch.equal(p, before[name]) for name, p in full(model).items())
