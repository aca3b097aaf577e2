"""Gradients of losses and micro-batches."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from expunge._errors import InvalidInput
from expunge.update import Term, Update
from expunge.update._gradients import loss_gradient
from tests.reference.algorithm import sample_variance
from tests.unit.update.problems import batch, gradients, small_model


def micro_losses(model, parts: int, size: int = 12):
    x, y = batch(0, size)
    for a, b in zip(x.chunk(parts), y.chunk(parts), strict=True):
        yield F.cross_entropy(model(a), b)


@pytest.mark.parametrize("wrap", [list, iter, tuple], ids=["list", "generator", "tuple"])
def test_micro_batches_average_to_the_full_batch(wrap):
    model = small_model()
    params = list(model.parameters())
    x, y = batch(0)
    loss = F.cross_entropy(model(x), y)
    whole = gradients(loss, params)
    result = loss_gradient(wrap(micro_losses(model, 4)), params)
    torch.testing.assert_close(result.gradients, whole)
    torch.testing.assert_close(result.loss, loss.detach())
    assert result.micro_batches == 4


@pytest.mark.parametrize("parts", [2, 3, 6])
def test_spread_is_the_literal_formula(parts):
    model = small_model().double()
    params = list(model.parameters())
    x, y = batch(0)

    def terms():
        pieces = zip(x.double().chunk(parts), y.chunk(parts), strict=True)
        return [F.cross_entropy(model(a), b) for a, b in pieces]

    each = [gradients(loss, params) for loss in terms()]
    result = loss_gradient(terms(), params, squares=True)
    for k in range(len(params)):
        want = sample_variance([g[k].flatten().tolist() for g in each])
        got = result.squares[k].flatten() / (parts * (parts - 1))
        assert got.tolist() == pytest.approx(want, rel=1e-9, abs=1e-18)


def test_a_part_without_gradient_counts_as_zero():
    a, b = nn.Parameter(torch.tensor(2.0)), nn.Parameter(torch.tensor(3.0))
    result = loss_gradient([a * 1.0, b * 4.0, a * 5.0], [a, b], squares=True)
    assert [float(g) for g in result.gradients] == pytest.approx([2.0, 4 / 3])
    want = [sample_variance([[1.0], [0.0], [5.0]])[0], sample_variance([[0.0], [4.0], [0.0]])[0]]
    assert [float(s) / 6 for s in result.squares] == pytest.approx(want)


def test_half_precision_micro_batches_are_averaged_in_float32():
    p = nn.Parameter(torch.ones((), dtype=torch.bfloat16))
    result = loss_gradient([p * 256.0] + [p * 1.0 for _ in range(255)], [p], squares=True)
    assert result.gradients[0].dtype == torch.bfloat16
    assert float(result.gradients[0]) == pytest.approx((256 + 255) / 256, rel=5e-3)
    want = sample_variance([[256.0]] + [[1.0]] * 255)[0] * 256 * 255
    assert float(result.squares[0]) == pytest.approx(want, rel=1e-5)


def test_gradients_are_left_where_backward_needs_them():
    model = small_model()
    params = list(model.parameters())
    loss_gradient(list(micro_losses(model, 2)), params)
    assert all(p.grad is None for p in params)


def test_hooks_on_parameters_fire():
    p = nn.Parameter(torch.tensor(1.0))
    p.register_hook(lambda g: 10 * g)
    assert float(loss_gradient(2 * p, [p]).gradients[0]) == 20.0


def test_sparse_gradients_become_dense():
    table = nn.Embedding(5, 2, sparse=True)
    loss = table(torch.tensor([1, 3])).square().sum()
    [gradient] = loss_gradient(loss, [table.weight]).gradients
    assert torch.equal(
        gradient,
        torch.zeros(5, 2).index_copy(0, torch.tensor([1, 3]), 2 * table.weight.detach()[[1, 3]]),
    )
    update = Update("focus")
    other = table(torch.tensor([1])).square().sum()
    update.backward(table(torch.tensor([1, 3])).sum(), other, params=table.parameters())
    assert table.weight.grad.layout is torch.strided


def test_saliency_shares_the_forward_graph():
    model = small_model()
    params = list(model.parameters())
    x, y = batch(0)
    logits = model(x)
    saliency, loss = F.cross_entropy(logits, y), F.cross_entropy(logits, (y + 1) % 3)
    want, other = gradients_twice(saliency, loss, params)
    result = loss_gradient(Term(loss, saliency), params, with_saliency=True)
    torch.testing.assert_close(result.saliency_gradient, want)
    torch.testing.assert_close(result.gradients, other)


def gradients_twice(first, second, params):
    one = list(torch.autograd.grad(first, params, retain_graph=True))
    return one, list(torch.autograd.grad(second, params, retain_graph=True))


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (torch.ones(3, requires_grad=True), r"A loss should be a scalar tensor.*\(got \(3,\)\)"),
        (torch.ones(()), "this one needs no gradient"),
        ([], r"at least one part. \(got none\)"),
        (0.5, r"A loss should be a scalar tensor.*\(got float\)"),
        ([1.0], r"A loss should be a scalar tensor.*\(got float\)"),
    ],
)
def test_what_is_no_loss_is_refused(loss, message):
    p = nn.Parameter(torch.ones(()))
    with pytest.raises(InvalidInput, match=message):
        loss_gradient(loss, [p])


def test_saliency_in_some_micro_batches_only_is_refused():
    p = nn.Parameter(torch.ones(()))
    with pytest.raises(InvalidInput, match=r"Every micro-batch.*\(got 1 for 2"):
        loss_gradient([Term(p * 1, p * 2), Term(p * 1)], [p], with_saliency=True)


@pytest.mark.parametrize("covered", [True, False])
def test_a_reentrant_checkpoint_is_refused_rather_than_missed(covered):
    """Its parameters would silently have no gradient; without reentering all have theirs."""
    body, head = nn.Linear(3, 3), nn.Linear(3, 1)
    params = [*body.parameters(), *([] if covered else head.parameters())]
    x = torch.ones(2, 3, requires_grad=True)
    for reentrant in (False, True):
        hidden = checkpoint(body, x, use_reentrant=reentrant)
        loss = (hidden if covered else head(hidden)).square().mean()
        if reentrant:
            with pytest.raises(InvalidInput, match="use_reentrant=False"):
                loss_gradient(loss, params)
        else:
            assert all(g is not None for g in loss_gradient(loss, params).gradients)
