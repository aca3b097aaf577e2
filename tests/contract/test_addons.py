"""What every add-on promises, with every aggregation and every estimate of the noise."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor
from torch._dynamo.utils import counters

from expunge.update import ADDONS, AGGREGATES, MOMENTS, Focus, Jacobian, Update, WeightedSum
from expunge.update import _block_loop as block_loop
from expunge.update._block_loop import ROW, SMALL

NOISY = [name for name in ADDONS if ADDONS[name]().moment_estimator is not None]
CONFIGURATIONS = [
    *((name, "adam") for name in ADDONS if name not in NOISY),
    *((name, moments) for name in NOISY for moments in MOMENTS),
]
EVERY_ADDON = pytest.mark.parametrize(("name", "moments"), CONFIGURATIONS)
# Whether the add-on of a plug-in is a mask is for its author to say.
OWN_ADDONS = pytest.mark.parametrize(
    ("name", "moments"), [each for each in CONFIGURATIONS if not ADDONS.origin(each[0])]
)
EVERY_AGGREGATE = pytest.mark.parametrize("aggregate", list(AGGREGATES))
STEPS = 3


def make(name: str, moments: str, **changes):
    kind = ADDONS[name]
    if kind.cuts_products:
        changes["ratio"] = 0.05 / 0.95  # whatever is aggregated
    return kind(moments=moments, **changes) if name in NOISY else kind(**changes)


def problem(seed: int, *shapes: tuple[int, ...]) -> list[list[list[Tensor]]]:
    """Per step: g_U, g_C, and a variance for each."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda: [torch.randn(shape, generator=generator) * 0.1 for shape in shapes]  # noqa: E731
    return [
        [draw(), draw(), [x.square() for x in draw()], [x.square() for x in draw()]]
        for _ in range(STEPS)
    ]


def run(addon, aggregate, steps, **options) -> list[list[Tensor]]:
    update = Update(addon, aggregate, **options)
    sampled = addon.moment_estimator is not None and addon.moment_estimator.from_micro_batches
    return [
        update.combine(g_u, g_c, variances=(v_u, v_c) if sampled else None, constraint_loss=1.0)
        for g_u, g_c, v_u, v_c in steps
    ]


def weights(addon, steps) -> list[list[Tensor]]:
    """The weights themselves: what remains when everything aggregates to one."""
    return run(addon, Jacobian(lambda matrix: torch.ones_like(matrix[0])), steps)


def mapped(steps, function):
    return [[[function(t) for t in side] for side in step] for step in steps]


@EVERY_ADDON
def test_weights_lie_between_zero_and_one(name, moments):
    for step in weights(make(name, moments), problem(0, (50, 7), (), (3,))):
        for weight in step:
            assert ((weight >= 0) & (weight <= 1)).all()


@OWN_ADDONS
def test_masks_are_zero_or_one_and_the_soft_ones_are_in_between(name, moments):
    addon = make(name, moments)
    values = torch.cat([w.flatten() for w in weights(addon, problem(0, (500,)))[-1]])
    fractional = ((values > 0) & (values < 1)).any()
    assert bool(fractional) is (name == "focus")


@EVERY_ADDON
@EVERY_AGGREGATE
def test_the_step_is_the_weight_times_the_aggregation(name, moments, aggregate):
    steps = problem(1, (50, 7), (), (3,))
    addon, combine = make(name, moments), AGGREGATES[aggregate]().combine
    got, weight = run(addon, aggregate, steps), weights(addon, steps)
    for (g_u, g_c, *_), moved, weighed in zip(steps, got, weight, strict=True):
        whole = combine(joined(g_u), joined(g_c))
        torch.testing.assert_close(joined(moved), joined(weighed) * whole)


def joined(tensors) -> Tensor:
    return torch.cat([t.flatten() for t in tensors])


@pytest.mark.parametrize(("name", "moments"), [c for c in CONFIGURATIONS if not ADDONS[c[0]].draws])
@EVERY_AGGREGATE
def test_permuting_parameters_permutes_the_step(name, moments, aggregate):
    steps = problem(2, (211,))
    order = torch.randperm(211, generator=torch.Generator().manual_seed(0))
    addon = make(name, moments)
    straight = run(addon, aggregate, steps)
    permuted = run(addon, aggregate, mapped(steps, lambda t: t[order]))
    for [one], [other] in zip(straight, permuted, strict=True):
        torch.testing.assert_close(other, one[order], rtol=1e-6, atol=1e-9)


@EVERY_ADDON
@EVERY_AGGREGATE
def test_cutting_parameters_elsewhere_changes_nothing(name, moments, aggregate):
    if ADDONS[name].needs_saliency or ADDONS[name].cuts_products:
        steps = problem(3, (40, 5))  # their thresholds are of a tensor: only reshape
        cut = mapped(steps, lambda t: t.view(5, 2, 20))
        whole = [[t.view(40, 5) for t in s] for s in run(make(name, moments), aggregate, cut)]
    else:
        steps = problem(3, (200,))
        cut = [[list(side[0].split([3, 97, 100])) for side in step] for step in steps]
        whole = [[torch.cat(s)] for s in run(make(name, moments), aggregate, cut)]
    for one, other in zip(run(make(name, moments), aggregate, steps), whole, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-6, atol=1e-9)


@EVERY_ADDON
@pytest.mark.parametrize("factor", [2.0**-6, 2.0**10])
def test_weights_ignore_a_common_scale(name, moments, factor):
    """Signs, medians and ratios ĝ/√v do not change with it, if ε is out of the way."""
    changes = {"eps": 1e-30} if name in NOISY else {}
    addon, steps = make(name, moments, **changes), problem(4, (300,))
    scaled = [
        [[factor * t for t in g_u], [factor * t for t in g_c], *scale_variances(step, factor)]
        for step in steps
        for g_u, g_c, *_ in [step]
    ]
    torch.testing.assert_close(weights(addon, scaled), weights(addon, steps))


def scale_variances(step, factor):
    return [[factor**2 * t for t in side] for side in step[2:]]


@EVERY_ADDON
@EVERY_AGGREGATE
def test_zero_gradients_give_a_zero_step(name, moments, aggregate):
    steps = mapped(problem(5, (50,), ()), torch.zeros_like)
    for step in run(make(name, moments), aggregate, steps):
        assert not any(t.any() for t in step)


@pytest.mark.parametrize("name", NOISY)
def test_moments_make_a_difference(name):
    steps = problem(6, (500,))
    outcomes = {m: weights(make(name, m), steps)[-1][0] for m in MOMENTS}
    assert not torch.equal(outcomes["adam"], outcomes["published"])
    assert not torch.equal(outcomes["adam"], outcomes["sample"])


@pytest.mark.parametrize("name", NOISY)
def test_bernoulli_alone_depends_on_the_seed(name):
    steps = problem(7, (500,))
    one, other = (run(make(name, "adam"), "linear", steps, seed=k) for k in (0, 1))
    assert torch.equal(one[0][0], other[0][0]) is (name != "bernoulli")


# What follows compiles; the specs are those of tests/reference where they can be.


def by_name(name: str, moments: str, aggregate: str, **options):
    shapes = [(40, ROW), (SMALL + 5,), (3, 9), ()]
    steps = problem(8, *shapes)
    addon = make(name, moments)
    return [run(addon, aggregate, steps, compile=c, **options) for c in (False, True)]


@pytest.mark.parametrize(
    ("name", "moments", "aggregate"),
    [
        ("focus", "adam", "linear"),
        pytest.param("bernoulli", "sample", "linear", marks=pytest.mark.thorough),
        pytest.param("prob", "published", "min-abs", marks=pytest.mark.thorough),
        pytest.param("saliency", "adam", "linear", marks=pytest.mark.thorough),
    ],
)
def test_compiled_is_blocked(name, moments, aggregate):
    blocked, fused = by_name(name, moments, aggregate)
    for one, other in zip(blocked, fused, strict=True):
        for a, b in zip(one, other, strict=True):
            if name == "focus":
                torch.testing.assert_close(b, a, rtol=1e-5, atol=1e-7)
            else:  # a mask may fall on the other side of its threshold, rarely
                assert (torch.isclose(a, b, rtol=1e-5)).double().mean() > 0.999
    assert not block_loop.broken


def test_new_shapes_do_not_recompile():
    update_once(SMALL)
    before = counters["stats"]["unique_graphs"]
    for size in (SMALL + 1, 2 * SMALL, 1 << 20, (1 << 20) + ROW, (1 << 21) + 5 * ROW + 3, 40 * ROW):
        update_once(size)
    assert counters["stats"]["unique_graphs"] == before
    assert before > 0


def update_once(size: int) -> None:
    g = torch.linspace(-1, 1, size)
    Update("focus", compile=True).combine([g], [g.flip(0)])


def test_small_models_never_compile_by_default(monkeypatch):
    def fail(*_):
        raise AssertionError("compiled")

    monkeypatch.setattr(block_loop, "run_compiled", fail)
    g = [torch.ones(block_loop.COMPILE_FROM - 2), torch.ones(())]
    Update("focus").combine(g, g)
    monkeypatch.setattr(block_loop, "can_compile", lambda device: True)
    with pytest.raises(AssertionError, match="compiled"):
        Update("focus").combine([*g, torch.ones(5)], [*g, torch.ones(5)])


@pytest.mark.parametrize("name", ["focus", "bernoulli"])
def test_where_compiling_fails_the_update_goes_on(monkeypatch, name):
    def failing(spec):
        def kernel(*_):
            raise RuntimeError("no compiler today\nand a long trace")

        return kernel

    monkeypatch.setattr(block_loop, "compiled", failing)
    monkeypatch.setattr(block_loop, "broken", set())
    addon = dataclasses.replace(make(name, "adam"), eps=1e-7)
    steps = problem(9, (40, ROW), (7,))
    with pytest.warns(RuntimeWarning, match=r"failed on cpu \(RuntimeError: no compiler today\)"):
        got = run(addon, "linear", steps, compile=True)
    want = run(addon, "linear", steps, compile=False)
    for one, other in zip(got, want, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_compiled_strict_steps_are_blocked_ones():
    results = []
    for compile in (False, True):
        p = torch.nn.Parameter(torch.linspace(-1, 1, SMALL + 9))
        optimizer = torch.optim.Adam([p], lr=0.1)
        update = Update(Focus(), WeightedSum(), strict=True, compile=compile)
        for k in range(2):
            update.backward((p * (k + 1)).sin().sum(), p.cos().sum(), params=[p])
            update.step(optimizer)
        results.append(p.detach())
    torch.testing.assert_close(*results)


@EVERY_ADDON
def test_diagnostics_change_no_bit_of_a_step(name, moments):
    steps = problem(3, (SMALL + 5,), (7, 3))
    with_them, without = (
        run(make(name, moments), WeightedSum(), steps, diagnostics=diagnostics, compile=False)
        for diagnostics in (True, False)
    )
    for first, second in zip(with_them, without, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@EVERY_ADDON
def test_an_add_on_that_moves_all_weighs_one_everywhere(name, moments):
    found = joined(weights(make(name, moments), problem(0, (50, 7)))[-1])
    assert ADDONS[name].moves_all <= bool((found == 1).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_diagnostics_of_a_plain_sum_are_those_of_its_definition(dtype):
    [[g_u, g_c, *_], *_] = problem(4, (SMALL + 5,), (7, 3))
    g_u, g_c = ([g.to(dtype) for g in side] for side in (g_u, g_c))
    g_u[1][0, 0] = 0.0
    update = Update("none", WeightedSum(0.3, 0.7), compile=False)
    update.combine(g_u, g_c)
    u, c = joined(g_u).double(), joined(g_c).double()
    step = 0.3 * u + 0.7 * c
    found = update.diagnostics
    expected = {
        "objective_alignment": -step.dot(u),
        "constraint_alignment": -step.dot(c),
        "product": u.dot(c),
        "moved": 1.0,
        "norm": step.norm(),
        "bound": len(step) ** 0.5 * step.abs().max(),
        "undecided": (u * c > 0).double().mean(),
    }
    for name, value in expected.items():
        assert getattr(found, name) == pytest.approx(float(value), rel=1e-4), name
