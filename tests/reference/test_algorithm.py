"""The shipped update against the letter of the paper, over one table of problems."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from expunge.update import (
    Bernoulli,
    Focus,
    MinAbs,
    Prob,
    Saliency,
    Update,
    WeightedSum,
)
from expunge.update._block_loop import ROW, SMALL
from tests.reference.algorithm import (
    Outcome,
    Tensor1,
    diagnostics,
    mask_and,
    mask_saliency,
)

STEPS = 3
AGGREGATES = {"linear": WeightedSum(), "min-abs": MinAbs()}
SHAPES = [(7,), (), (0,), (3, 0), (33, 65), (1,), (4, 3, 5, 5)]
LARGE = [(17, 1000), (), (5,), (40, ROW), (3, 111)]


def addon(name: str, moments: str):
    kinds = {"prob": Prob, "bernoulli": Bernoulli, "focus": Focus}
    return kinds[name](moments=moments) if name in kinds else name


def ordinary(shape, generator):
    return torch.randn(shape, generator=generator) * 1e-3


def with_zeros(shape, generator):
    keep = torch.rand(shape, generator=generator) < 0.5
    return torch.randn(shape, generator=generator) * keep


def extreme(shape, generator):
    """Magnitudes from the smallest normal float to what still has a float32 square."""
    exponent = torch.rand(shape, generator=generator) * 53 - 38
    return torch.randn(shape, generator=generator).sign() * 10**exponent


def channels_last(shape, generator):
    g = ordinary(shape, generator)
    return g.to(memory_format=torch.channels_last) if g.dim() == 4 else g


def strided(shape, generator):
    """Views that are neither dense nor in order."""
    if not shape:
        return ordinary((3,), generator)[1]
    return ordinary((*shape[1:], shape[0] * 2), generator)[..., ::2].movedim(-1, 0)


def expanded(shape, generator):
    return ordinary((), generator).expand(shape)


KINDS = [ordinary, with_zeros, channels_last, strided, expanded]


def problem(kind, shapes, seed: int = 0) -> list[tuple[list[Tensor], list[Tensor]]]:
    generator = torch.Generator().manual_seed(seed)
    make = lambda: [kind(shape, generator) for shape in shapes]  # noqa: E731
    return [(make(), make()) for _ in range(STEPS)]


def draws(like: list[Tensor], generator: torch.Generator) -> list[Tensor]:
    """The update's random stream: whole rows of the large tensors, then all that is left."""
    uniform = [torch.zeros_like(g) for g in like]
    flat = [u.as_strided((u.numel(),), (1,)) for u in uniform]
    heads = [u.numel() - u.numel() % ROW if u.numel() >= SMALL else 0 for u in uniform]
    for u, head in zip(flat, heads, strict=True):
        u[:head] = torch.rand(head, generator=generator)
    for u, head in zip(flat, heads, strict=True):
        u[head:] = torch.rand(u.numel() - head, generator=generator)
    return uniform


def numbers(tensor: Tensor) -> list[float]:
    return tensor.double().flatten().tolist()


def largest(gradients: list[Tensor]) -> float:
    return max(abs(x) for g in gradients for x in numbers(g))


def expected_steps(name, aggregate, moments, steps, variances=None, seed=0) -> list[list[Outcome]]:
    tensors = [Tensor1(name, aggregate, moments) for _ in steps[0][0]]
    generator = torch.Generator().manual_seed(seed)
    result = []
    for g_u, g_c in steps:
        uniform = draws(g_u, generator)
        result.append(
            [
                t.step(
                    numbers(u),
                    numbers(c),
                    uniform=numbers(r),
                    variances=variances and (numbers(variances[0][k]), numbers(variances[1][k])),
                    largest=(largest(g_u), largest(g_c)),
                )
                for k, (t, u, c, r) in enumerate(zip(tensors, g_u, g_c, uniform, strict=True))
            ]
        )
        for k, outcome in enumerate(result[-1]):
            outcome.doubtful = doubtful(name, outcome, numbers(uniform[k]))
    return result


def doubtful(name: str, outcome: Outcome, uniform: list[float]) -> list[bool]:
    """Where float32 may fall on the other side of a threshold than float64."""
    if name == "prob":
        return [abs(f - 0.3) < 1e-5 for f in outcome.f]
    if name == "bernoulli":
        return [abs(f - u) < 1e-5 for f, u in zip(outcome.f, uniform, strict=True)]
    return [False] * len(outcome.step)


def assert_step(got: Tensor, outcome: Outcome, g_u: Tensor, g_c: Tensor) -> None:
    assert got.shape == g_u.shape
    scale = 0.05 * g_u.double().abs() + 0.95 * g_c.double().abs()
    want = torch.tensor(outcome.step, dtype=torch.float64).reshape(g_u.shape)
    skip = torch.tensor(outcome.doubtful, dtype=torch.bool).reshape(g_u.shape)
    wrong = ((got.double() - want).abs() > 4e-6 * scale + 1e-44) & ~skip
    assert skip.sum() <= max(2, 1e-3 * skip.numel())
    assert not wrong.any(), (got[wrong], want[wrong])


def chained(vectors) -> list[float]:
    return list(itertools.chain.from_iterable(vectors))


def check(name, aggregate, moments, steps, *, compile=False) -> None:
    update = Update(addon(name, moments), AGGREGATES[aggregate], compile=compile)
    variances = None
    if moments == "sample" and name in ("prob", "bernoulli", "focus"):
        generator = torch.Generator().manual_seed(9)
        squares = lambda g: torch.rand(g.shape, generator=generator) * g.square()  # noqa: E731
        variances = tuple([squares(g) for g in side] for side in steps[0])
    expected = expected_steps(name, aggregate, moments, steps, variances)
    for (g_u, g_c), outcomes in zip(steps, expected, strict=True):
        got = update.combine(g_u, g_c, variances=variances)
        for step, outcome, u, c in zip(got, outcomes, g_u, g_c, strict=True):
            assert_step(step, outcome, u, c)
        assert_diagnostics(update, g_u, g_c, outcomes)


def assert_diagnostics(update: Update, g_u, g_c, outcomes: list[Outcome]) -> None:
    parts = {k: chained(getattr(o, k) for o in outcomes) for k in ("step", "weight", "aggregated")}
    f = None if outcomes[0].f is None else chained(o.f for o in outcomes)
    whole = Outcome(**parts, f=f)
    u, c = (chained(numbers(g) for g in side) for side in (g_u, g_c))
    n, got = len(u), update.diagnostics.as_dict()
    scale = math.sqrt(math.fsum(x * x for x in u) + math.fsum(x * x for x in c))
    # A weight below float32's resolution of f is zero there, and counts as not moved.
    slack = sum(sum(o.doubtful) for o in outcomes) / n
    slack += sum(0 < weight < 1e-6 for weight in whole.weight) / n
    for key, want in diagnostics(u, c, whole).items():
        if math.isnan(want):
            assert math.isnan(got[key]), key
            continue
        size = {"norm": scale, "bound": abs(want)}.get(key, 1.0)
        size = scale**2 if "alignment" in key else size
        assert got[key] == pytest.approx(want, rel=2e-5, abs=(2e-5 + slack) * size), key


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("moments", ["adam", "published", "sample"])
@pytest.mark.parametrize("name", ["prob", "bernoulli", "focus"])
def test_probable_addons_follow_the_paper(name, moments, kind):
    check(name, "linear", moments, problem(kind, SHAPES))
    check(name, "min-abs", moments, problem(kind, SHAPES, seed=1))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", ["none", "saliency", "and"])
def test_plain_addons_follow_the_paper(name, kind):
    check(name, "linear", "adam", problem(kind, SHAPES))
    check(name, "min-abs", "adam", problem(kind, SHAPES, seed=1))


@pytest.mark.parametrize("moments", ["adam", "published", "sample"])
@pytest.mark.parametrize("name", ["saliency", "and", "prob", "focus"])
def test_steps_are_right_at_extreme_ratios(name, moments):
    steps = problem(extreme, [(513,)])
    variances = ([torch.full((513,), 1e-30)], [torch.full((513,), 1e30)])
    given = {"variances": variances} if moments == "sample" and name in ("prob", "focus") else {}
    update = Update(addon(name, moments), "linear", diagnostics=False)
    expected = expected_steps(name, "linear", moments, steps, given.get("variances"))
    for (g_u, g_c), [outcome] in zip(steps, expected, strict=True):
        [step] = update.combine(g_u, g_c, **given)
        assert_step(step, outcome, g_u[0], g_c[0])


def test_sample_moments_bear_gradients_whose_squares_overflow():
    g = [torch.tensor([1e30, -1e30, 1e-38])]
    ones = [torch.ones(3)]
    update = Update(Focus(moments="sample"), WeightedSum(1, 1), diagnostics=False)
    [step] = update.combine(g, g, variances=(ones, ones))
    torch.testing.assert_close(step, torch.tensor([2e30, -2e30, 1e-38]))


def test_zero_gradients_have_an_agreement_of_exactly_one_half():
    update = Update("focus", WeightedSum(1.0, 1.0))
    zero, some = [torch.zeros(5)], [torch.arange(5.0)]
    assert update.combine(zero, some)[0].tolist() == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert update.diagnostics.agreement == 0.5


@pytest.mark.parametrize("aggregate", ["linear", "min-abs"])
def test_a_tensor_in_full_disagreement_does_not_move(aggregate):
    g_u = ordinary((100,), torch.Generator().manual_seed(0))
    update = Update("and", aggregate)
    [step] = update.combine([g_u], [-g_u])
    assert not step.any()
    assert update.diagnostics.moved == 0
    assert update.diagnostics.bound == 0


@pytest.mark.parametrize(
    ("name", "aggregate", "moments"),
    [
        ("focus", "linear", "adam"),
        pytest.param("bernoulli", "linear", "sample", marks=pytest.mark.thorough),
        pytest.param("prob", "min-abs", "published", marks=pytest.mark.thorough),
        pytest.param("saliency", "linear", "adam", marks=pytest.mark.thorough),
        pytest.param("and", "linear", "adam", marks=pytest.mark.thorough),
    ],
)
def test_compiled_steps_follow_the_paper(name, aggregate, moments):
    check(name, aggregate, moments, problem(with_zeros, LARGE), compile=True)


def conflicting(kind, shapes) -> list[tuple[list[Tensor], list[Tensor]]]:
    """Gradients of C that mostly oppose those of U."""
    return [
        (g_u, [0.2 * c - u for u, c in zip(g_u, g_c, strict=True)])
        for g_u, g_c in problem(kind, shapes)
    ]


@pytest.mark.parametrize("make", [problem, conflicting], ids=lambda make: make.__name__)
@pytest.mark.parametrize("kind", [ordinary, with_zeros, channels_last])
def test_optimal_masks_are_their_definition(kind, make):
    check("optimal", "linear", "adam", make(kind, [(7,), (), (0,), (11, 13), (4, 3, 5, 5)]))


@pytest.mark.parametrize("quantile", [0.0, 0.5, 0.9])
def test_saliency_ranks_by_any_quantile(quantile):
    [(g_u, g_c), *_] = problem(ordinary, SHAPES)
    steps = Update(Saliency(quantile=quantile), WeightedSum(0.0, 1.0)).combine(g_u, g_c)
    for step, u, c in zip(steps, g_u, g_c, strict=True):
        mask = mask_saliency(numbers(u), largest(g_u), quantile)
        assert torch.equal(step, torch.tensor(mask).reshape(u.shape) * c)


def test_an_optimal_step_is_feasible_and_keeps_as_much_as_it_can():
    [(g_u, g_c), *_] = conflicting(ordinary, [(400,)])
    update = Update("optimal", WeightedSum(0.05, 0.95))
    [step] = update.combine(g_u, g_c)
    assert update.diagnostics.feasible
    assert 0 < update.diagnostics.moved < 1
    plain = Update("none", WeightedSum(0.05, 0.95))
    plain.combine(g_u, g_c)
    assert not plain.diagnostics.feasible
    # With one more of what was dropped, it would not be.
    [u], [c] = g_u, g_c
    dropped = step == 0
    nearest = torch.where(dropped, u * c, -torch.inf).argmax()
    more = step.clone()
    more[nearest] = 0.05 * u[nearest] + 0.95 * c[nearest]
    assert torch.dot(more, u) < 0


def comparable(seed: int) -> list[Tensor]:
    """Entries between 1/100 and 100 of either sign, and zeros, in two tensors."""
    generator = torch.Generator().manual_seed(seed)
    draw = torch.rand(2, 400, generator=generator)
    sign = torch.randint(-1, 2, (2, 400), generator=generator)
    return list(10 ** (4 * draw - 2) * sign)


@pytest.mark.parametrize("name", ["and", "prob"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e4])
def test_among_gradients_of_comparable_size_the_mask_is_exactly_the_papers(name, dtype, scale):
    """However the two losses are scaled against each other, short of one being nothing."""
    addon = Prob(p=0.5) if name == "prob" else name
    scale = max(scale, 1e-5) if dtype is not torch.float64 else scale
    g_u, g_c = ([g.to(dtype) for g in comparable(seed)] for seed in (0, 1))
    g_u = [g * scale for g in g_u]
    update = Update(addon, WeightedSum(0.0, 1.0))
    for step, u, c in zip(update.combine(g_u, g_c), g_u, g_c, strict=True):
        want = torch.tensor(mask_and(numbers(u), numbers(c))).to(dtype)
        assert torch.equal(step, want * c)
    agreeing = sum(sum(mask_and(numbers(u), numbers(c))) for u, c in zip(g_u, g_c, strict=True))
    assert update.diagnostics.undecided == pytest.approx(agreeing / 800)
