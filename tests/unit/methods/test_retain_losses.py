"""Retain losses against their formulas, under any forget loss."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import expunge
from expunge import Problem
from expunge.methods import METHODS, NPO, RETAIN_LOSSES, RetainKL, TokenMethod
from expunge.update import ADDONS
from tests import tiny
from tests.tiny import bits, same
from tests.unit.methods.token_worlds import (
    FORGET,
    RETAIN,
    Bigram,
    assert_is,
    gradient,
    literal_logits,
    precise,
    softmax,
    texts,
)

FORGET_LOSSES = [name for name in METHODS if issubclass(METHODS[name], TokenMethod)]


def literal_kl(model: Bigram, first: Bigram) -> float:
    """1/N Σ Σ_k p₀ log(p₀/p) over the labelled tokens of the retain batch."""
    total, count = 0.0, 0
    for row, initial in zip(
        literal_logits(model, RETAIN), literal_logits(first, RETAIN), strict=True
    ):
        for (z, _), (z0, _) in zip(row, initial, strict=True):
            pairs = zip(softmax(z0), softmax(z), strict=True)
            total += sum(p0 * math.log(p0 / p) for p0, p in pairs)
            count += 1
    return total / count


def test_kl_is_its_formula_on_labelled_tokens() -> None:
    problem, first, student = precise()
    loss = NPO(retain="kl").constraint(problem, FORGET, RETAIN)
    assert_is(loss, student, lambda model: literal_kl(model, first))


def test_kl_asks_for_nothing_at_the_initial_model() -> None:
    problem = Problem(Bigram())
    loss = RetainKL().loss(problem, RETAIN)
    assert loss.item() == 0.0
    assert not gradient(loss, problem.model).any()


class LayeredBigram(Bigram):
    """A bigram model with a layer to read activations from."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList([torch.nn.Identity()])

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return self.blocks[0](super().forward(input_ids))


def unlearned(method: TokenMethod, addon: str = "none") -> expunge.Result:
    """Two epochs of a method on sequences of tokens, with what it needs besides."""
    data = texts(4, 1)
    if type(method) is expunge.methods.DPO:
        data = expunge.data.PreferredAnswers(data, texts(4, 7))
    return tiny.unlearn(
        LayeredBigram(),
        forget=data,
        retain=texts(5, 2),
        unseen=texts(6, 3),
        method=method,
        addon=addon,
        epochs=2,
        batch_size=4,
        lr=1e-2,
        progress=False,
    )


def made(name: str, **options: Any) -> TokenMethod:
    method = METHODS[name](**options)
    assert isinstance(method, TokenMethod)
    return method


@pytest.mark.parametrize("retain", [*RETAIN_LOSSES, "none"])
@pytest.mark.parametrize("name", FORGET_LOSSES)
def test_every_forget_loss_goes_with_every_retain_loss(name: str, retain: str) -> None:
    method = made(name, retain=retain)
    row = unlearned(method).history.epochs[-1]
    assert math.isfinite(row["objective"])
    assert math.isnan(row["constraint"]) == (retain == "none")
    assert method.constrained == (retain != "none")


@pytest.mark.parametrize("addon", ADDONS)
@pytest.mark.parametrize("name", FORGET_LOSSES)
def test_every_forget_loss_goes_with_every_addon_on_tokens(name: str, addon: str) -> None:
    """Weights end elsewhere than they began, and than without the add-on.

    The optimal weight is one wherever the sum of both gradients hurts neither: here, at times.
    """
    before, alone = bits(LayeredBigram()), bits(unlearned(made(name)).model)
    after = bits(unlearned(made(name), addon).model)
    assert all(value.isfinite().all() for value in after.values())
    assert not same(after, before)
    if addon != "optimal":
        assert same(after, alone) == (addon == "none")
