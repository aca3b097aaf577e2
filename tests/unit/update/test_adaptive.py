"""Aggregations that weigh the gradients anew at every step."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import expunge
from expunge._errors import InvalidInput
from expunge._serialisation import describe, rebuild
from expunge.update import PrimalDual, Rectified, SignGated, Update, WeightedSum
from tests import tiny
from tests.tiny import Counting, points


def pair(seed: int = 0, opposed: float = 0.0) -> tuple[list[Tensor], list[Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    shapes = [(5, 7), (), (0,), (20_000,)]
    g_u, g_c = ([torch.randn(s, generator=generator) for s in shapes] for _ in range(2))
    return g_u, [c - opposed * u for u, c in zip(g_u, g_c, strict=True)]


def vector(tensors: list[Tensor]) -> Tensor:
    return torch.cat([t.flatten() for t in tensors]).double()


@pytest.mark.parametrize("opposed", [0.5, -0.5])
def test_rectification_removes_what_opposes_the_constraint_and_nothing_else(opposed: float) -> None:
    g_u, g_c = pair(opposed=opposed)
    step = vector(Update("none", "GRU").combine(g_u, g_c))
    u, c = vector(g_u), vector(g_c)
    product = sum(a * b for a, b in zip(u.tolist(), c.tolist(), strict=True))
    literal = u - product / sum(b * b for b in c.tolist()) * c if product < 0 else u
    torch.testing.assert_close(step, literal, rtol=1e-4, atol=1e-5)
    assert torch.dot(step, c) >= -1e-4 * c.norm() * u.norm()


def test_sign_gating_lets_the_objective_in_where_it_agrees() -> None:
    g_u, g_c = pair()
    for step, u, c in zip(
        Update("none", SignGated(0.3, 0.7)).combine(g_u, g_c), g_u, g_c, strict=True
    ):
        literal = [
            0.7 * b + (0.3 * a if a * b > 0 else 0.0)
            for a, b in zip(u.flatten().tolist(), c.flatten().tolist(), strict=True)
        ]
        torch.testing.assert_close(step.flatten(), torch.tensor(literal).to(step))
        assert (step * c >= 0).all()


def test_rounding_opens_no_gate() -> None:
    [step] = Update("none", SignGated(1.0, 1.0)).combine(
        [torch.ones(2)], [torch.tensor([1e-9, -1e-9])]
    )
    assert step.abs().max() < 1e-8


def literal_multipliers(losses: list[float], slack: float, rate: float, settle: int) -> list[float]:
    """λ of each step, written out."""
    current, used = 19.0, []
    for step, loss in enumerate(losses):
        used.append(current)
        if step >= settle:
            bound = sum(losses[:settle]) / settle + slack
            current = max(0.0, current + rate * (loss - bound))
    return used


def test_the_multiplier_follows_the_violation_of_the_bound() -> None:
    losses = [0.5, 0.7, 0.6, 0.9, 1.4, 0.2, 0.1, 0.1, 3.0]
    update = Update("none", PrimalDual(slack=0.1, rate=8.0, settle=3))
    g_u, g_c = pair()
    for loss, multiplier in zip(losses, literal_multipliers(losses, 0.1, 8.0, 3), strict=True):
        step = update.combine(g_u, g_c, constraint_loss=loss)
        share = multiplier / (1 + multiplier)
        want = (1 - share) * vector(g_u) + share * vector(g_c)
        torch.testing.assert_close(vector(step), want, rtol=1e-5, atol=1e-6)


def test_it_begins_as_the_papers_weights_and_never_turns_against_the_constraint() -> None:
    g_u, g_c = pair()
    update = Update("focus", PrimalDual(bound=10.0, rate=100.0))
    first = update.combine(g_u, g_c, constraint_loss=0.0)
    same = Update("focus", WeightedSum(0.05, 0.95)).combine(g_u, g_c)
    torch.testing.assert_close(first, same, rtol=1e-5, atol=1e-7)
    update.combine(g_u, g_c, constraint_loss=0.0)
    assert float(update.state.aggregate["multiplier"]) == 0.0


def test_a_state_continues_where_it_was() -> None:
    losses = [0.5, 0.6, 0.9, 1.2, 0.8]
    g_u, g_c = pair()
    whole = Update("and", PrimalDual(rate=5.0, settle=2))
    for loss in losses[:3]:
        whole.combine(g_u, g_c, constraint_loss=loss)
    resumed = Update("and", PrimalDual(rate=5.0, settle=2))
    resumed.load_state_dict(whole.state_dict())
    for loss in losses[3:]:
        one, other = (u.combine(g_u, g_c, constraint_loss=loss) for u in (whole, resumed))
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_combine_asks_for_the_loss_it_needs() -> None:
    with pytest.raises(InvalidInput, match="reads the constraint's loss: give `constraint_loss`"):
        Update("none", "primal-dual").combine([torch.ones(2)], [torch.ones(2)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": 0.0}, "`rate` should be positive and finite"),
        ({"start": -1.0}, "`start` should be finite and not negative"),
        ({"settle": 0}, "`settle` should be a whole number, at least 1"),
        ({"bound": math.inf}, "`bound` should be finite"),
    ],
)
def test_values_out_of_range_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        PrimalDual(**options)


def test_a_run_holds_its_constraint_where_the_bound_is() -> None:
    """The more may be lost, the more is; by name, with options in brackets."""

    def final(aggregate: str) -> dict[str, float]:
        result = tiny.unlearn(
            Counting(),
            forget=points(24, seed=1),
            retain=points(24, seed=2),
            method="neg-grad-plus",
            addon="none",
            aggregate=aggregate,
            epochs=40,
            batch_size=8,
            lr=0.02,
            progress=False,
        )
        return result.history.epochs[-1]

    tight = final("primal-dual(bound=1.2,rate=20,start=1)")
    loose = final("PDU(bound=2.5,rate=20,start=1)")
    assert tight["constraint"] < 1.6
    assert tight["constraint"] < loose["constraint"] < 3.5
    assert loose["objective"] < tight["objective"]


def test_every_named_aggregation_can_be_written_down() -> None:
    for name in ("PDU(slack=0.2)", "GRU", "SAGO", "torchjd:PCGrad", "torchjd:CAGrad(c=0.4)"):
        part = Update(aggregate=name).aggregate
        assert rebuild(describe(part)) == part
        assert isinstance(part, (PrimalDual, Rectified, SignGated, expunge.update.TorchJD))
