"""Loss scaling: the statistics see the gradients as they are, or not at all."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from expunge._errors import InvalidInput
from expunge.update import Focus, LossScale, Saliency, Term, Update
from tests.unit.update.problems import losses, small_model


def train(update: Update, steps: int = 3) -> tuple[nn.Module, Update]:
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        first, second = (losses(model, 2 * step + k) for k in range(2))
        objective, constraint = zip(first, second, strict=True)
        update.backward(list(objective), list(constraint), params=model.parameters())
        update.step(optimizer)
    return model, update


@pytest.mark.parametrize("addon", [Focus(), Focus(moments="sample"), Saliency()])
@pytest.mark.parametrize("strict", [False, True])
def test_a_scale_changes_nothing_where_nothing_overflows(addon, strict):
    """Powers of two come out of float32 gradients without a trace."""
    plain, a = train(Update(addon, strict=strict))
    scaled, b = train(Update(addon, strict=strict, loss_scale=LossScale(2.0**14)))
    for p, q in zip(plain.parameters(), scaled.parameters(), strict=True):
        torch.testing.assert_close(q, p, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(a.state.moments_u, b.state.moments_u)
    torch.testing.assert_close(a.losses, b.losses)
    assert not b.skipped


def overflowing(update: Update, p: nn.Parameter, size: float) -> None:
    update.backward((p * size).sum(), p.square().sum(), params=[p])


def test_a_skipped_step_leaves_everything_as_it_was():
    p = nn.Parameter(torch.ones(3))
    update = Update("focus", loss_scale=LossScale(2.0**20))
    optimizer = torch.optim.Adam([p], lr=0.1)
    overflowing(update, p, 1.0)
    update.step(optimizer)
    before = [m.clone() for m in (*update.state.moments_u, p.detach())]
    overflowing(update, p, 1e37)
    assert update.skipped
    assert p.grad is None
    assert update.loss_scale.value == 2.0**19
    assert update.state.step == 1
    update.step(optimizer)
    optimizer.step()  # by hand, as in a loop that does not ask: there is nothing to do
    for a, b in zip(before, [*update.state.moments_u, p.detach()], strict=True):
        assert torch.equal(a, b)
    overflowing(update, p, 1.0)
    assert not update.skipped


def test_a_skipped_strict_step_may_be_followed_by_another():
    p = nn.Parameter(torch.ones(3))
    update = Update("and", strict=True, loss_scale=LossScale(2.0**20))
    overflowing(update, p, 1e37)
    overflowing(update, p, 1.0)
    update.step(torch.optim.SGD([p], lr=0.1))
    assert not torch.equal(p.detach(), torch.ones(3))


def test_at_scale_one_what_is_not_finite_is_handed_on():
    p = nn.Parameter(torch.ones(3))
    update = Update("none", loss_scale=LossScale(1.0))
    update.backward(
        (p - 1).abs().sqrt().sum(), p.square().sum(), params=[p]
    )  # finite, with slope ∞
    assert not update.skipped
    assert not p.grad.isfinite().all()


def test_it_grows_and_backs_off_as_grad_scaler_does():
    ours, theirs = LossScale(64.0, every=2), torch.amp.GradScaler("cpu", 64.0, growth_interval=2)
    p = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([p], lr=0.0)
    for finite in (True, True, False, True, False, False, True, True, True):
        ours.follow(finite=finite)
        theirs.scale(torch.zeros(()))
        p.grad = torch.tensor([1.0 if finite else float("inf")])
        theirs.step(optimizer)
        theirs.update()
        assert ours.value == theirs.get_scale()


def test_its_state_is_saved_with_the_update():
    _, update = train(Update("focus", loss_scale=LossScale(8.0, every=2)))
    other = Update("focus", loss_scale=LossScale())
    other.load_state_dict(update.state_dict())
    assert (other.loss_scale.value, other.loss_scale.good) == (16.0, 1)
    assert "loss_scale" not in Update("focus").state_dict()


def test_float16_parameters_are_refused():
    p = nn.Parameter(torch.ones(3, dtype=torch.float16))
    update = Update("focus", loss_scale=LossScale())
    with pytest.raises(InvalidInput, match=r"parameters in float32.*\(got gradients in float16\)"):
        update.backward(p.sum(), p.sum() * 2, params=[p])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"value": 0.5}, "`value` should be finite and at least 1"),
        ({"value": float("inf")}, "`value` should be finite and at least 1"),
        ({"growth": 0.5}, "`growth` should be finite and at least 1"),
        ({"backoff": 1.0}, r"`backoff` should be in \(0, 1\)"),
        ({"every": 0}, "`every` should be a whole number, at least 1"),
    ],
)
def test_bad_values_are_refused(options, message):
    with pytest.raises(InvalidInput, match=message):
        LossScale(**options)


def test_weights_make_unequal_micro_batches_the_whole():
    p = nn.Parameter(torch.tensor([1.0, 2.0], dtype=torch.float64))
    x = torch.randn(7, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    whole, cut = Update("saliency"), Update("saliency")
    for update, parts in ((whole, [x]), (cut, [x[:4], x[4:6], x[6:]])):
        terms = [
            Term((p * q).sin().mean(), (p * q).cos().mean(), weight=len(parts) * len(q) / 7)
            for q in parts
        ]
        update.backward(terms, p.square().sum(), params=[p])
        update.kept = p.grad.clone()
    torch.testing.assert_close(cut.kept, whole.kept)
    torch.testing.assert_close(cut.losses, whole.losses)
