"""The paper's seven propositions, as properties of the shipped update."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from expunge.update import And, Focus, MinAbs, NoAddon, Prob, SampleMoments, Update, WeightedSum
from expunge.update._addons import Signals

seeds = st.integers(0, 2**31 - 1)
aggregates = st.one_of(
    st.just(MinAbs()), st.builds(WeightedSum, st.floats(0.01, 10.0), st.floats(0.01, 10.0))
)
addons = st.sampled_from([NoAddon(), And(), Prob(p=0.3), Prob(p=0.7), Focus()])
quick = settings(max_examples=30, deadline=None)


def normal(seed: int, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def descend(update: Update, g_u: Tensor, g_c: Tensor, variance: float | None = None) -> Tensor:
    """Δ of one step on one tensor."""
    if variance is None:
        return -update.combine([g_u], [g_c])[0]
    v = [torch.full_like(g_u, variance)]
    return -update.combine([g_u], [g_c], variances=(v, v))[0]


@quick
@given(seed=seeds, n=st.integers(1, 40), radius=st.floats(0.01, 0.99))
def test_1_gradients_oppose_each_other_at_equilibrium(seed, n, radius):
    """min ‖x-a‖² subject to ‖x-b‖² ≤ r², with a outside the ball: x = b + r(a-b)/‖a-b‖."""
    a, b = normal(seed, n), normal(seed + 1, n)
    r = radius * torch.linalg.vector_norm(a - b)
    x = b + r * (a - b) / torch.linalg.vector_norm(a - b)
    g_u, g_c = 2 * (x - a), 2 * (x - b)
    assert (g_u * g_c <= 0).all()
    update = Update("and")
    assert not descend(update, g_u, g_c).any()  # AND stops where no parameter may move
    assert update.diagnostics.undecided == 0


@quick
@given(seed=seeds, n=st.integers(1, 40))
def test_1_away_from_the_equilibrium_and_still_moves(seed, n):
    """Both minima on one side of x in every coordinate: nothing opposes the step."""
    a, b = normal(seed, n).abs() + 0.1, normal(seed + 1, n).abs() + 0.1
    update = Update("and")
    assert descend(update, -2 * a, -2 * b).all()
    assert update.diagnostics.undecided == 1


@quick
@given(seed=seeds, n=st.integers(1, 30), aggregate=aggregates)
def test_2_a_feasible_step_lowers_objective_and_constraint(seed, n, aggregate):
    """Convex quadratics ½(x-a)ᵀH(x-a): for η below 2|⟨Δ,g⟩|/ΔᵀHΔ both must fall."""
    x = normal(seed, n)
    problems = []
    for k in (1, 2):
        root = normal(seed + k, n, n)
        problems.append((root @ root.T / n, normal(seed + 2 + k, n)))
    gradients = [h @ (x - a) for h, a in problems]
    update = Update("and", aggregate)
    delta = descend(update, *gradients)
    assert update.diagnostics.feasible
    slopes = [float(delta @ g) for g in gradients]
    assert max(slopes) <= 0
    curvatures = [float(delta @ h @ delta) for h, _ in problems]
    eta = min(-s / max(c, 1e-300) for s, c in zip(slopes, curvatures, strict=True))
    for (h, a), slope in zip(problems, slopes, strict=True):

        def value(y: Tensor, h: Tensor = h, a: Tensor = a) -> float:
            return float(0.5 * (y - a) @ h @ (y - a))

        after = value(x + eta * delta)
        assert after <= value(x) + 1e-9 * abs(value(x))
        if eta * -slope > 1e-6 * value(x):
            assert after < value(x)


@quick
@given(
    seed=seeds,
    n=st.integers(1, 200),
    addon=addons,
    aggregate=aggregates,
    q=st.sampled_from([1, 2, 4]),
    eta=st.floats(1e-4, 1.0),
)
def test_3_a_step_stays_in_the_vicinity(seed, n, addon, aggregate, q, eta):
    g_u, g_c = normal(seed, n), normal(seed + 1, n)
    update = Update(addon, aggregate)
    delta = descend(update, g_u, g_c)
    moved = round(update.diagnostics.moved * n)
    distance = float(torch.linalg.vector_norm(eta * delta, q))
    slack = 1 + 1e-9
    assert distance <= eta * moved ** (1 / q) * float(delta.abs().max()) * slack
    if isinstance(aggregate, MinAbs):
        assert distance <= eta * moved ** (1 / q) * float(g_c.abs().max()) * slack
    assert update.diagnostics.norm <= update.diagnostics.bound * slack


@settings(max_examples=15, deadline=None)
@given(
    seed=seeds,
    g_u=st.floats(-3, 3),
    g_c=st.floats(-3, 3),
    std_u=st.floats(0.1, 3),
    std_c=st.floats(0.1, 3),
)
def test_4_f_is_the_probability_that_the_true_gradients_agree(seed, g_u, g_c, std_u, std_c):
    draws = 100_000
    noise = normal(seed, 2, draws)
    agree = (g_u - std_u * noise[0]) * (g_c - std_c * noise[1]) > 0
    update = Update(Focus(SampleMoments(), eps=1e-12))
    scalar = lambda x: [torch.tensor(x, dtype=torch.float64)]  # noqa: E731
    update.combine(scalar(g_u), scalar(g_c), variances=(scalar(std_u**2), scalar(std_c**2)))
    f = update.diagnostics.agreement
    error = 5 * math.sqrt(max(f * (1 - f), 1e-4) / draws)
    assert float(agree.double().mean()) == pytest.approx(f, abs=error)


@quick
@given(
    seed=seeds,
    n=st.integers(1, 300),
    scale_u=st.floats(-38, 15),
    scale_c=st.floats(-38, 15),
    moments=st.sampled_from(["adam", "published"]),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.bfloat16]),
)
def test_5_prob_at_one_half_is_and(seed, n, scale_u, scale_c, moments, dtype):
    g_u = (normal(seed, n) * 10**scale_u).to(dtype)
    g_c = (normal(seed + 1, n) * 10**scale_c).to(dtype)
    prob, plain = Update(Prob(moments, p=0.5)), Update("and")
    assert torch.equal(descend(prob, g_u, g_c), descend(plain, g_u, g_c))
    assert prob.diagnostics.moved == plain.diagnostics.moved


@quick
@given(seed=seeds, n=st.integers(1, 300), p=st.floats(0.001, 0.999), aggregate=aggregates)
def test_5_prob_is_and_as_the_variances_vanish(seed, n, p, aggregate):
    g_u, g_c = normal(seed, n), normal(seed + 1, n)
    g_u, g_c = (g.sign() * (g.abs() + 0.01) for g in (g_u, g_c))
    prob = Update(Prob(SampleMoments(), eps=1e-12, p=p), aggregate)
    plain = Update("and", aggregate)
    assert torch.equal(descend(prob, g_u, g_c, 1e-12), descend(plain, g_u, g_c))


@settings(max_examples=10, deadline=None)
@given(seed=seeds, alpha=st.floats(0.05, 1), beta=st.floats(0.05, 1), noise=st.floats(0.1, 3))
def test_6_focus_is_feasible_in_expectation(seed, alpha, beta, noise):
    """As in the proof: E⟨ĝ_U, ĝ_C⟩ = 0, and given ĝ the true gradient is ĝ - N."""
    n, draws = 20, 4000
    seen_u = normal(seed, n).abs() * normal(seed + 1, draws, n)
    seen_c = normal(seed + 2, n).abs() * normal(seed + 3, draws, n)
    update = Update(Focus(SampleMoments()), WeightedSum(alpha, beta))
    delta = descend(update, seen_u, seen_c, noise**2)
    for k, seen in enumerate((seen_u, seen_c)):
        mean, error = alignment(delta, seen - noise * normal(seed + 4 + k, draws, n))
        assert mean <= 5 * error


def test_6_does_not_extend_to_fixed_gradients_and_a_small_alpha():
    """A limit worth knowing: the proof averages over g given ĝ, not over ĝ given g.

    One parameter of strong agreement makes ⟨g_U, g_C⟩ = 0 with many of weak disagreement, whose
    noise f cannot see through; C then rises a little, on average over batches.
    """
    g_u = torch.tensor([10.0] + 10 * [-1.0], dtype=torch.float64)
    g_c = torch.full_like(g_u, 0.1)
    noisy_u, noisy_c = g_u + normal(0, 50_000, 11), g_c + normal(1, 50_000, 11)
    update = Update(Focus(SampleMoments()), WeightedSum(0.01, 1.0))
    mean, error = alignment(descend(update, noisy_u, noisy_c, 1.0), g_c)
    assert float(g_u @ g_c) == pytest.approx(0)
    assert mean > 5 * error


def alignment(delta: Tensor, gradient: Tensor) -> tuple[float, float]:
    """E⟨Δ, g⟩ over the first dimension, and its standard error."""
    values = (delta * gradient).sum(-1)
    return float(values.mean()), float(values.std()) / math.sqrt(len(values))


@quick
@given(seed=seeds, n=st.integers(1, 300), aggregate=aggregates)
def test_7_focus_is_and_as_the_variances_vanish(seed, n, aggregate):
    g_u, g_c = normal(seed, n), normal(seed + 1, n)
    g_u, g_c = (g.sign() * (g.abs() + 0.01) for g in (g_u, g_c))
    focus = Update(Focus(SampleMoments(), eps=1e-12), aggregate)
    torch.testing.assert_close(
        descend(focus, g_u, g_c, 1e-12), descend(Update("and", aggregate), g_u, g_c)
    )


@quick
@given(seed=seeds, n=st.integers(1, 300), aggregate=aggregates)
def test_7_focus_halves_the_step_as_the_variances_grow(seed, n, aggregate):
    g_u, g_c = normal(seed, n), normal(seed + 1, n)
    focus = Update(Focus(SampleMoments()), aggregate)
    torch.testing.assert_close(
        descend(focus, g_u, g_c, 1e30), 0.5 * descend(Update("none", aggregate), g_u, g_c)
    )


@quick
@given(seed=seeds, alpha=st.floats(0.01, 0.99), variance=st.floats(0.01, 100.0))
def test_a_step_of_focus_has_the_objectives_sign_at_the_constraints_size(seed, alpha, variance):
    """f·(αg_U + βg_C) = ½[αg_U + βg_C + β·e_U|e_C·g_C| + α·e_C|e_U·g_U|], e = erf(g/√(2v))."""
    g_u, g_c = normal(seed, 50), normal(seed + 1, 50)
    beta = 1.0 - alpha
    e_u, e_c = (torch.erf(g / math.sqrt(2.0 * (variance + 1e-8))) for g in (g_u, g_c))
    plain = alpha * g_u + beta * g_c
    hidden = beta * e_u * (e_c * g_c).abs() + alpha * e_c * (e_u * g_u).abs()
    step = -descend(
        Update(Focus(moments=SampleMoments()), aggregate=WeightedSum(alpha, beta)),
        g_u,
        g_c,
        variance,
    )
    assert torch.allclose(step, (plain + hidden) / 2, atol=1e-7)


def test_released_ties_move_where_a_gradient_is_exactly_zero() -> None:
    """The released mask is f ≥ 1/2, and f is 1/2 where a gradient is zero."""
    u, c = torch.tensor([2.0, 1.0, 0.0, -3.0]), torch.tensor([1.0, -1.0, 5.0, -0.0])
    assert And().weight(Signals(u, c)).tolist() == [1.0, 0.0, 0.0, 0.0]
    assert And(ties="released").weight(Signals(u, c)).tolist() == [1.0, 0.0, 1.0, 1.0]
