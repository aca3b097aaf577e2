"""The public class: backward, combine, strict steps."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from expunge._errors import Diverged, InvalidInput
from expunge.update import ADDONS, Focus, Saliency, Term, Update, WeightedSum
from expunge.update._block_loop import SMALL
from tests.reference.algorithm import Tensor1
from tests.unit.update.problems import batch, gradients, losses, small_model


@pytest.mark.parametrize("aggregate", ["linear", "min-abs"])
@pytest.mark.parametrize("addon", list(ADDONS))
def test_backward_is_combine_of_the_gradients(addon, aggregate):
    model = small_model()
    params = list(model.parameters())
    one, other = Update(addon, aggregate), Update(addon, aggregate)
    for step in range(3):
        g_u, g_c = (gradients(loss, params) for loss in losses(model, step))
        one.backward(*losses(model, step), params=params)
        want = other.combine(g_u, g_c)
        for p, step_taken in zip(params, want, strict=True):
            assert torch.equal(p.grad, step_taken)
        assert one.diagnostics.as_dict() == pytest.approx(other.diagnostics.as_dict(), nan_ok=True)


@pytest.mark.parametrize("kind", ["plain", "bfloat16", "hooked", "micro-batches"])
def test_a_plain_sum_without_diagnostics_is_the_one_with_them(kind):
    steps = {}
    for diagnostics in (True, False):
        model = small_model().to(torch.bfloat16 if kind == "bfloat16" else torch.float32)
        params = list(model.parameters())
        seen = []
        if kind == "hooked":
            params[0].register_hook(lambda g, seen=seen: seen.append(g.clone()) or g.clamp(max=0))
        update = Update("none", WeightedSum(0.3, 0.8), diagnostics=diagnostics)
        for step in range(2):
            outputs = [model(batch(k)[0].to(params[0])) for k in range(3 * step, 3 * step + 3)]
            *objective, constraint = (output.float().exp().mean() for output in outputs)
            objective = objective if kind == "micro-batches" else objective[0]
            update.backward(objective, constraint, params=params)
        assert update.state.step == 2
        assert update.losses[1] == constraint.detach()
        steps[diagnostics] = [*(p.grad for p in params), *seen]
    for one, other in zip(*steps.values(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-7)


def test_a_plain_sum_needs_both_losses_to_depend_on_the_parameters():
    a, b, c = (nn.Parameter(torch.ones(3)) for _ in range(3))
    update = Update("none", WeightedSum(0.5, 0.25), diagnostics=False)
    with pytest.raises(InvalidInput, match="depend on `params`"):
        update.backward(a.sum(), c.sum(), params=[a, b])
    update.backward((2 * a).sum(), (3 * a * b).sum(), params=[a, b, c])
    assert a.grad.tolist() == [1.75] * 3
    assert b.grad.tolist() == [0.75] * 3
    assert c.grad is None


def test_losses_are_kept_detached():
    model = small_model()
    update = Update("focus")
    objective, constraint = losses(model)
    update.backward(objective, constraint, params=model.parameters())
    assert update.losses == (objective.detach(), constraint.detach())
    assert not update.losses[0].requires_grad
    update.backward(losses(model)[0], params=model.parameters())
    assert update.losses[1] is None


@pytest.mark.parametrize("addon", list(ADDONS))
def test_frozen_parameters_are_passed_over(addon):
    model = small_model()
    model[0].weight.requires_grad_(False)
    update = Update(addon)
    update.backward(*losses(model), params=model.parameters())
    assert model[0].weight.grad is None
    assert model[0].bias.grad is not None


@pytest.mark.parametrize("addon", list(ADDONS))
def test_parameters_that_one_loss_or_none_reaches(addon):
    a, b, c = (nn.Parameter(torch.ones(3)) for _ in range(3))
    Update(addon).backward((2 * a).sum(), (3 * a * b).sum(), params=[a, b, c])
    assert c.grad is None
    one = Update(addon, seed=0).combine(
        [torch.full((3,), 2.0), torch.zeros(3)], [torch.full((3,), 3.0)] * 2
    )
    assert torch.equal(a.grad, one[0])
    assert torch.equal(b.grad, one[1])


@pytest.mark.parametrize("aggregate", ["linear", "torchjd:UPGrad"])
@pytest.mark.parametrize("stray", [0, 1])
def test_a_loss_that_reaches_no_parameter_is_refused(aggregate, stray):
    a, outside = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))
    both = [a.sum(), a.sum()]
    both[stray] = outside.sum()
    with pytest.raises(InvalidInput, match=r"should depend on `params`.*none of these 1"):
        Update("focus", aggregate).backward(*both, params=[a])
    assert a.grad is None


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("stray", [0, 1])
def test_a_loss_that_is_not_finite_fills_in_no_gradient(value, stray):
    a = nn.Parameter(torch.ones(3))
    both = [a.sum(), a.sum()]
    both[stray] = both[stray] * value
    update = Update("focus")
    name = ("objective", "constraint")[stray]
    with pytest.raises(Diverged, match=rf"`{name}` should be finite\. \(got {value}\)"):
        update.backward(*both, params=[a])
    assert a.grad is None
    assert not update.state.moments_u


@pytest.mark.parametrize("wrong", [None, "weights", 5, [1, 2]])
def test_what_are_no_parameters_is_refused(wrong):
    with pytest.raises(InvalidInput, match="`params` should"):
        Update().backward(torch.ones((), requires_grad=True), params=wrong)


def test_shared_parameters_count_once_and_repeated_ones_are_refused():
    torch.manual_seed(0)
    first = nn.Linear(4, 4)
    second = nn.Linear(4, 4)
    second.weight = first.weight
    params = [first.weight, first.bias, second.weight, second.bias, first.weight]
    x = torch.randn(5, 4)
    once = [first.weight, first.bias, second.bias]

    def pair():
        return second(first(x)).square().mean(), second(first(x)).sin().mean()

    want = Update("focus").combine(*(gradients(loss, once) for loss in pair()))
    update = Update("focus")
    with pytest.raises(InvalidInput, match=r"each parameter once\. \(got 5, of which 3 differ\)"):
        update.backward(*pair(), params=params)
    update.backward(*pair(), params=nn.Sequential(first, second).parameters())
    assert len(update.state.moments_u) == 3
    for p, step in zip(once, want, strict=True):
        assert torch.equal(p.grad, step)


def test_old_gradients_do_not_leak_in():
    model = small_model()
    for p in model.parameters():
        p.grad = torch.full_like(p, 1e9)
    Update("focus").backward(*losses(model), params=model.parameters())
    assert all(p.grad.abs().max() < 1e3 for p in model.parameters())


def test_a_shared_graph_needs_retain_graph():
    model = small_model()
    x, y = batch(0)

    def pair():
        loss = F.cross_entropy(model(x), y)
        return -loss, loss + 0.0

    with pytest.raises(InvalidInput, match="`retain_graph=True`"):
        Update("focus").backward(*pair(), params=model.parameters())
    update = Update("none", WeightedSum(1.0, 3.0))
    update.backward(*pair(), params=model.parameters(), retain_graph=True)
    plain = gradients(F.cross_entropy(model(x), y), model.parameters())
    torch.testing.assert_close([p.grad for p in model.parameters()], [2 * g for g in plain])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_gradients_are_weighed_in_float32(dtype):
    torch.manual_seed(0)
    g = [(torch.randn(300) * 1e-3).to(dtype) for _ in range(4)]
    half, full = Update("focus"), Update("focus")
    for u, c in (g[:2], g[2:]):
        [step] = half.combine([u], [c])
        [wide] = full.combine([u.float()], [c.float()])
        assert step.dtype == dtype
        assert torch.equal(step, wide.to(dtype))
    assert torch.equal(half.state.moments_u[0], full.state.moments_u[0])


def test_float64_gradients_are_weighed_in_float64():
    torch.manual_seed(0)
    u, c = torch.randn(2, 50, dtype=torch.float64) * 1e-3
    [step] = Update("focus").combine([u], [c])
    want = Tensor1("focus", "linear").step(u.tolist(), c.tolist()).step
    assert step.tolist() == pytest.approx(want, rel=1e-12, abs=1e-18)


@pytest.mark.parametrize("aggregate", ["linear", "torchjd:Mean"])
@pytest.mark.parametrize("addon", list(ADDONS))
def test_types_may_be_mixed_in_one_call(addon, aggregate):
    torch.manual_seed(0)
    dtypes = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.float32]
    sizes = [5, 7, SMALL + 3, 9, 11]
    pairs = [torch.randn(2, n).to(t) for n, t in zip(sizes, dtypes, strict=True)]
    update = Update(addon, aggregate)
    steps = update.combine([p[0] for p in pairs], [p[1] for p in pairs])
    assert [s.dtype for s in steps] == dtypes
    assert 0 < update.diagnostics.moved <= 1
    if addon != "bernoulli":  # its stream is consumed in another order alone
        for pair, step in zip(pairs, steps, strict=True):
            alone = Update(addon, aggregate).combine([pair[0]], [pair[1]])[0]
            torch.testing.assert_close(step, alone, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("constrained", [True, False])
@pytest.mark.parametrize("addon", list(ADDONS))
def test_combine_leaves_its_arguments_alone(addon, constrained):
    torch.manual_seed(0)
    given = [[torch.randn(SMALL + 5), torch.randn(3, 4)] for _ in range(3)]
    before = [[g.clone() for g in side] for side in given]
    extra = {"saliency": given[2]}
    steps = Update(addon).combine(given[0], given[1] if constrained else None, **extra)
    for step in steps:
        step.fill_(7.0)
    for side, old in zip(given, before, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(side, old, strict=True))


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("addon", [name for name in ADDONS if name != "saliency"])
def test_without_a_constraint_the_gradient_is_passed_on(addon, strict):
    model = small_model()
    params = list(model.parameters())
    want = gradients(losses(model)[0], params)
    update = Update(addon, strict=strict)
    update.backward(losses(model)[0], params=params)
    for p, g in zip(params, want, strict=True):
        assert torch.equal(p.grad, g)
    diagnostics = update.diagnostics
    whole = torch.cat([g.flatten() for g in want]).double()
    assert diagnostics.norm == pytest.approx(float(whole.norm()), rel=1e-6)
    assert diagnostics.bound == pytest.approx(
        len(whole) ** 0.5 * float(whole.abs().max()), rel=1e-6
    )
    assert (diagnostics.moved, diagnostics.feasible) == (1.0, True)
    assert all(
        value != value
        for value in (
            diagnostics.constraint_alignment,
            diagnostics.cosine,
            diagnostics.agreement,
            diagnostics.undecided,
        )
    )


def test_without_a_constraint_saliency_still_ranks():
    g, s = torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([4.0, -3.0, 2.0, 1.0])
    assert Update("saliency").combine([g])[0].tolist() == [0.0, 2.0, 3.0, 4.0]
    assert Update("saliency").combine([g], saliency=[s])[0].tolist() == [1.0, 2.0, 3.0, 0.0]


def test_saliency_ranks_by_views_in_any_order():
    torch.manual_seed(0)
    g, s = torch.randn(2, 6, 5)
    odd = s.t().contiguous().t()
    want = Update("saliency").combine([g], [g], saliency=[s])
    assert torch.equal(Update("saliency").combine([g], [g], saliency=[odd])[0], want[0])


def test_saliency_from_the_same_forward_pass():
    model = small_model()
    params = list(model.parameters())
    x, y = batch(0)

    def objective():
        logits = model(x)
        return F.cross_entropy(logits, (y + 1) % 3), F.cross_entropy(logits, y)

    g_u = gradients(objective()[0], params)
    rank = gradients(objective()[1], params)
    g_c = gradients(losses(model)[1], params)
    want = Update(Saliency()).combine(g_u, g_c, saliency=rank)
    update = Update(Saliency())
    loss, saliency = objective()
    update.backward(loss, losses(model)[1], params=params, saliency=saliency)
    assert all(torch.equal(p.grad, w) for p, w in zip(params, want, strict=True))
    update.backward([Term(*objective())], losses(model)[1], params=params)
    assert all(torch.equal(p.grad, w) for p, w in zip(params, want, strict=True))


def run_strictly(strict: bool, optimizer_kind, steps: int = 4):
    """Gradients agree in the first entry always, in the second only at the first step."""
    p = nn.Parameter(torch.tensor([1.0, 1.0]))
    optimizer = optimizer_kind([p])
    update = Update("and", WeightedSum(1.0, 1.0), strict=strict)
    history = []
    for step in range(steps):
        sign = torch.tensor([1.0, 1.0 if step == 0 else -1.0])
        update.backward(p.sum(), (p * sign).sum(), params=[p])
        update.step(optimizer)
        history.append(p.detach().clone())
    return torch.stack(history)


OPTIMIZERS = [
    lambda ps: torch.optim.Adam(ps, lr=0.1),
    lambda ps: torch.optim.AdamW(ps, lr=0.1, weight_decay=0.5),
    lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9, weight_decay=0.1),
]


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=["adam", "adamw", "sgd"])
def test_strict_keeps_a_masked_weight_where_it_is(optimizer):
    strict, loose = run_strictly(True, optimizer), run_strictly(False, optimizer)
    assert (strict[1:, 1] == strict[0, 1]).all()
    assert (loose[1:, 1] != loose[0, 1]).all()
    assert (strict[1:, 0] < strict[:-1, 0]).all()


def test_strict_scales_the_step_by_a_fractional_weight():
    p, q = (nn.Parameter(torch.tensor([1.0, -2.0])) for _ in range(2))
    scale = torch.tensor([1.0, 0.2])
    update = Update("focus", WeightedSum(1.0, 1.0), strict=True)
    update.backward(p.square().sum(), (p * scale).square().sum(), params=[p])
    q.grad = p.grad.clone()
    update.step(torch.optim.Adam([p], lr=0.1))
    torch.optim.Adam([q], lr=0.1).step()
    g_u = (2 * torch.tensor([1.0, -2.0])).tolist()
    g_c = (2 * scale.square() * torch.tensor([1.0, -2.0])).tolist()
    f = Tensor1("focus", "linear").step(g_u, g_c).f
    start = torch.tensor([1.0, -2.0])
    torch.testing.assert_close(p - start, torch.tensor(f) * (q - start))


@pytest.mark.parametrize("addon", list(ADDONS))
def test_strict_with_sgd_is_the_plain_update(addon):
    runs = []
    for strict in (False, True):
        model = small_model()
        update = Update(addon, strict=strict)
        for step in range(2):
            update.backward(*losses(model, step), params=model.parameters())
            update.step(torch.optim.SGD(model.parameters(), lr=0.1))
        runs.append([p.detach() for p in model.parameters()])
    torch.testing.assert_close(*runs)


def test_forgetting_the_strict_step_raises():
    model = small_model()
    update = Update("and", strict=True)
    update.backward(*losses(model), params=model.parameters())
    with pytest.raises(InvalidInput, match=r"step with `update.step\(optimizer\)`"):
        update.backward(*losses(model), params=model.parameters())


def test_a_second_strict_step_raises():
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    update = Update("and", strict=True)
    update.backward(*losses(model), params=model.parameters())
    update.step(optimizer)
    with pytest.raises(InvalidInput, match="follows a `backward` of its own"):
        update.step(optimizer)


def test_sample_moments_take_micro_batches():
    model = small_model()
    params = list(model.parameters())
    update, other = (Update(Focus(moments="sample")) for _ in range(2))
    objective, constraint = ([losses(model, k)[side] for k in range(3)] for side in (0, 1))
    means, variances = [], []
    for side in (0, 1):
        each = [gradients(losses(model, k)[side], params) for k in range(3)]
        stacks = [torch.stack(g) for g in zip(*each, strict=True)]
        means.append([s.mean(0) for s in stacks])
        variances.append([s.var(0) / 3 for s in stacks])
    update.backward(objective, constraint, params=params)
    want = other.combine(*means, variances=tuple(variances))
    torch.testing.assert_close([p.grad for p in params], want)
    with pytest.raises(InvalidInput, match=r"at least 2 micro-batches.*\(got 1 and 2\)"):
        update.backward(losses(model)[0], [losses(model, k)[1] for k in range(2)], params=params)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([torch.ones(2)], [torch.ones(3)]), "`constraint` should have as many tensors"),
        (([torch.ones(2)], []), "`constraint` should have as many tensors"),
        (([torch.ones(2)], [torch.ones(2).double()]), "of the type and on the device"),
        (([torch.ones(2)], [torch.ones(2, device="meta")]), "of the type and on the device"),
        (({"a": torch.ones(2)}, [torch.ones(2)]), "`objective` should be a list"),
        (([torch.ones(2)], [2.0]), "Each of `constraint` should be a tensor"),
        (([torch.ones(2, dtype=torch.long)], [torch.ones(2)]), "real floating-point"),
    ],
)
def test_gradients_that_do_not_pair_up_are_refused(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        Update("and").combine(*arguments)


def test_variances_go_with_sample_moments_only():
    g = [torch.ones(2)]
    with pytest.raises(InvalidInput, match="`variances` go with the moments `sample`"):
        Update("focus").combine(g, g, variances=(g, g))
    sample = Update(Focus(moments="sample"))
    with pytest.raises(InvalidInput, match="`variances` go with the moments `sample`"):
        sample.combine(g, g)
    with pytest.raises(InvalidInput, match="`variances` should have as many tensors"):
        sample.combine(g, g, variances=(g, [torch.ones(())]))
    assert torch.equal(sample.combine(g)[0], g[0])


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ([], "at least one parameter"),
        ([torch.ones(2)], "at least one parameter"),
        (torch.ones(2, requires_grad=True), "should be an iterable"),
        ([torch.ones(2, dtype=torch.complex64, requires_grad=True)], "real floating-point"),
    ],
)
def test_what_cannot_move_is_refused(params, message):
    loss = torch.ones((), requires_grad=True) * 1
    with pytest.raises(InvalidInput, match=message):
        Update("and").backward(loss, loss, params=params)


def test_strict_has_no_combine():
    with pytest.raises(InvalidInput, match="use `backward`"):
        Update("and", strict=True).combine([torch.ones(1)], [torch.ones(1)])


def test_saliency_of_micro_batches_comes_in_terms():
    p = nn.Parameter(torch.ones(2))
    with pytest.raises(InvalidInput, match="use `Term`s instead"):
        Update("saliency").backward([p.sum()], p.sum(), params=[p], saliency=p.sum())
