"""Moments in half the memory, or in the host's: the same statistics."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from expunge._errors import InvalidInput
from expunge.update import Focus, Update
from expunge.update._block_loop import SMALL
from expunge.update._compiler import ROW
from expunge.update._stochastic_rounding import round_stochastically, salt_of

SHAPES = [(SMALL // 64, 80), (3, 9), (7,)]


def gradients(step: int, size: float = 1e-3) -> list[list[torch.Tensor]]:
    generator = torch.Generator().manual_seed(step)
    draw = lambda: [torch.randn(s, generator=generator) * size for s in SHAPES]  # noqa: E731
    return [draw(), draw()]


def run(steps: int, quiet_from: int = 10**9, **options) -> tuple[Update, list[torch.Tensor]]:
    update = Update(options.pop("addon", "focus"), **options)
    for step in range(steps):
        out = update.combine(*gradients(step, 1e-3 if step < quiet_from else 2e-4))
    return update, out


def test_bfloat16_moments_are_right_on_average():
    """Decay 0.999: each step moves a moment by less than bfloat16 can show."""
    wide, _ = run(600, quiet_from=300)
    narrow, _ = run(600, quiet_from=300, moment_dtype=torch.bfloat16)
    for a, b in zip(wide.state.moments_u, narrow.state.moments_u, strict=True):
        assert b.dtype == torch.bfloat16
        if a.numel() > 1000:
            ratio = b.float() / a
            assert float(ratio.mean()) == pytest.approx(1.0, abs=5e-3)
            assert float(ratio.std()) < 0.08


def test_rounding_to_the_nearest_would_stand_still():
    """The reason for the other: what the test above would find without it."""
    wide = narrow = torch.full((1000,), 1e-6)
    fair = wide.to(torch.bfloat16)
    narrow = narrow.to(torch.bfloat16)
    for step in range(1, 1001):
        wide = wide * 0.999
        narrow = (narrow.float() * 0.999).to(torch.bfloat16)
        fair = round_stochastically(fair.float() * 0.999, salt_of(step))
    assert float(narrow[0]) == pytest.approx(1e-6, rel=5e-3)  # it never moved
    assert float(fair.float().mean()) == pytest.approx(float(wide[0]), rel=0.01)


def test_rounding_is_fair_over_values_and_over_steps():
    x = torch.rand(200_000, generator=torch.Generator().manual_seed(0))
    error = (round_stochastically(x, salt_of(7)).double() - x.double()) / x.double()
    assert abs(float(error.mean())) < 2e-5
    assert float(error.abs().max()) < 2**-7
    one = torch.tensor([1.0 + 0.3 * 2**-7])
    ups = sum(float(round_stochastically(one, salt_of(step))) > 1.0 for step in range(4000))
    assert ups / 4000 == pytest.approx(0.3, abs=0.03)


def test_rounding_keeps_what_bfloat16_holds():
    x = torch.tensor([0.0, 1.0, 2.0**-30, float("inf"), float("nan")])
    torch.testing.assert_close(
        round_stochastically(x, salt_of(3)).float(), x, rtol=0, atol=0, equal_nan=True
    )


def test_focus_with_bfloat16_moments_is_near_float32():
    (_, wide), (_, narrow) = run(200), run(200, moment_dtype=torch.bfloat16)
    for a, b in zip(wide, narrow, strict=True):
        assert float((a - b).norm() / a.norm()) < 0.02


@pytest.mark.thorough
def test_bfloat16_moments_compiled_are_blocked_ones():
    updates = [
        Update(Focus(), compile=compile, moment_dtype=torch.bfloat16) for compile in (False, True)
    ]
    for step in range(2):
        generator = torch.Generator().manual_seed(step)
        g_u, g_c = ([torch.randn(40, ROW, generator=generator)] for _ in range(2))
        [[one], [other]] = (update.combine(g_u, g_c) for update in updates)
        if step == 0:  # after it, some moments have been rounded the other way
            torch.testing.assert_close(other, one, rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(other, one, rtol=0.05, atol=0.01)
    blocked, fused = (update.state.moments_u[0].float() for update in updates)
    torch.testing.assert_close(fused, blocked, rtol=0.02, atol=0)
    assert float((fused / blocked).mean()) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("moment_dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("addon", ["focus", "bernoulli", "and", Focus(moments="published")])
def test_offloaded_moments_give_the_same_bits(addon, moment_dtype):
    (a, one) = run(4, addon=addon, moment_dtype=moment_dtype)
    (b, other) = run(4, addon=addon, moment_dtype=moment_dtype, offload=True)
    assert all(torch.equal(x, y) for x, y in zip(one, other, strict=True))
    for x, y in zip(a.state.moments_u, b.state.moments_u, strict=True):
        assert torch.equal(x, y)
        assert y.device.type == "cpu"


def test_a_saved_state_goes_on_in_bfloat16():
    straight, want = run(6, moment_dtype=torch.bfloat16)
    first, _ = run(3, moment_dtype=torch.bfloat16)
    second = Update("focus", moment_dtype=torch.bfloat16)
    second.load_state_dict(first.state_dict())
    for step in range(3, 6):
        got = second.combine(*gradients(step))
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))
    assert straight.state.step == second.state.step == 6


def test_a_float32_state_may_be_taken_up_in_bfloat16():
    first, _ = run(3)
    second = Update("focus", moment_dtype=torch.bfloat16)
    second.load_state_dict(first.state_dict())
    second.combine(*gradients(3))
    assert second.state.moments_u[0].dtype == torch.bfloat16


def test_beside_float64_parameters_too():
    p = nn.Parameter(torch.linspace(-1, 1, 50, dtype=torch.float64))
    update = Update("focus", moment_dtype=torch.bfloat16)
    update.backward(p.sin().sum(), p.cos().sum(), params=[p])
    assert p.grad.dtype == torch.float64
    torch.testing.assert_close(
        update.state.moments_u[0].double(), 1e-3 * p.detach().cos().square(), rtol=1e-2, atol=0
    )


def test_room_can_be_made_before_the_first_step():
    p = nn.Parameter(torch.ones(3, 2))
    update = Update("focus", moment_dtype=torch.bfloat16)
    update.prepare([p])
    [moment] = update.state_dict()["moments_u"]
    assert moment.shape == (3, 2)
    assert moment.dtype == torch.bfloat16
    none = Update("and")
    none.prepare([p])
    assert none.state_dict()["moments_u"] == []


def test_another_type_is_refused():
    with pytest.raises(
        InvalidInput, match=r"`moment_dtype` should be torch.float32 or torch.bfloat16"
    ):
        Update("focus", moment_dtype=torch.float16)
