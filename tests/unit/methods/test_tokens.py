"""Losses on token sequences against their formulas, written out token by token."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

import expunge
from expunge import Batch, InvalidInput, Problem
from expunge.methods import NPO, GradientDifference, next_token_loss
from expunge.methods._scrub import kl_divergence
from expunge.methods._tokens import sequence_log_likelihood
from expunge.update import Update
from tests import tiny
from tests.tiny import Counting, bits, points, same
from tests.unit.methods.token_worlds import (
    FORGET,
    RETAIN,
    WORDS,
    Bigram,
    Dicts,
    assert_is,
    gradient,
    literal_log_likelihoods,
    literal_nll,
    moved,
    precise,
    texts,
)


class Output:
    def __init__(self, logits: Tensor) -> None:
        self.logits = logits


class Wrapped(Bigram):
    """As Hugging Face's models answer: an object that has ``logits``."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Any:
        return Output(super().forward(input_ids, attention_mask))


def literal_npo(model: Bigram, first: Bigram, batch: Batch, beta: float) -> float:
    """-(2/β)·1/B Σ log σ(-β log(π(y|x)/π₀(y|x))), equation (3) of Zhang et al."""
    total = 0.0
    now, then = (literal_log_likelihoods(m, batch) for m in (model, first))
    for a, b in zip(now, then, strict=True):
        ratio = sum(a) - sum(b)
        total += math.log(1.0 / (1.0 + math.exp(beta * ratio)))
    return -2.0 / beta * total / len(now)


@pytest.mark.parametrize("kind", [Bigram, Wrapped])
def test_gradient_difference_is_minus_and_plus_the_mean_over_tokens(kind: type[Bigram]) -> None:
    problem = Problem(kind())
    u = GradientDifference().objective(problem, FORGET, RETAIN)
    c = GradientDifference().constraint(problem, FORGET, RETAIN)
    assert u.loss.item() == pytest.approx(-literal_nll(problem.model, FORGET), rel=1e-5)
    assert c.item() == pytest.approx(literal_nll(problem.model, RETAIN), rel=1e-5)
    assert u.saliency is None


@pytest.mark.parametrize("beta", [0.01, 0.1, 2.5])
def test_npo_is_its_formula_on_whole_sequences(beta: float) -> None:
    problem, first, student = precise()
    u = NPO(beta).objective(problem, FORGET, RETAIN)
    c = NPO(beta).constraint(problem, FORGET, RETAIN)
    assert_is(u, student, lambda model: literal_npo(model, first, FORGET, beta))
    assert_is(c, student, lambda model: literal_nll(model, RETAIN))


def test_npo_starts_as_ascent_and_slows_down_as_a_sequence_is_forgotten() -> None:
    problem = Problem(Bigram())
    model = problem.model
    ascent = gradient(sequence_log_likelihood(model(FORGET.inputs), FORGET.targets).mean(), model)
    first = gradient(NPO().objective(problem, FORGET, RETAIN), model)
    torch.testing.assert_close(first, ascent)
    with torch.no_grad():  # every labelled token becomes very unlikely
        for row, labels in zip(FORGET.inputs, FORGET.targets, strict=True):
            for t in range(1, 8):
                if labels[t] != -100:
                    model.table[row[t - 1], labels[t]] -= 200.0
    last = gradient(NPO(1.0).objective(problem, FORGET, RETAIN), model)
    assert last.norm() < 1e-3 * first.norm()


def test_the_saliency_of_npo_ranks_as_the_loss_on_forget() -> None:
    problem = Problem(Bigram())
    student = moved(problem)
    term = NPO().objective(problem, FORGET, RETAIN)
    own = gradient(term.saliency, student)
    plain = gradient(next_token_loss(student(FORGET.inputs), FORGET.targets), student)
    torch.testing.assert_close(own / own.norm(), plain / plain.norm())
    assert student.seen.count("ids") == 2  # one for the loss with its saliency, one of this test


def test_class_numbers_are_sequences_of_one_token_with_no_shift() -> None:
    logits, labels = torch.randn(4, 3), torch.tensor([0, 2, 1, 1])
    torch.testing.assert_close(next_token_loss(logits, labels), F.cross_entropy(logits, labels))
    each = -F.cross_entropy(logits, labels, reduction="none")
    torch.testing.assert_close(sequence_log_likelihood(logits, labels), each)


def test_the_loss_is_computed_in_float32_from_half_precision() -> None:
    logits = torch.randn(2, 8, WORDS).bfloat16()
    labels = FORGET.targets[:2]
    value = next_token_loss(logits, labels)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, next_token_loss(logits.float(), labels))


def test_padding_on_the_right_needs_no_mask() -> None:
    tokens = FORGET.inputs.clone()
    tokens[0, 4:], tokens[1, 5:] = 0, 3  # where nothing is labelled any more
    assert not torch.equal(tokens, FORGET.inputs)
    padded, plain = (
        sequence_log_likelihood(Bigram()(x), FORGET.targets) for x in (tokens, FORGET.inputs)
    )
    assert torch.equal(padded, plain)


def test_scrub_averages_over_the_labelled_tokens() -> None:
    problem = Problem(Bigram(), loss=next_token_loss)
    first, student = Bigram(), moved(problem)
    keep = FORGET.targets[:, 1:] != -100
    rows = [m(FORGET.inputs)[:, :-1][keep] for m in (first, student)]
    term = expunge.methods.Scrub().objective(problem, FORGET, RETAIN)
    torch.testing.assert_close(term.loss, -kl_divergence(*rows))


@pytest.mark.parametrize(
    ("logits", "labels", "message"),
    [
        (torch.zeros(2, 3, 5), torch.zeros(2, 4).long(), r"\(got \[2, 3, 5\] with \[2, 4\]\)"),
        (torch.zeros(2, 3, 5), torch.full((2, 3), -100), "should have a token to predict"),
        (torch.zeros(1, 2, 5), torch.tensor([[0, 5]]), r"in 0..4, or -100 .* \(got 5\)"),
        (torch.zeros(1, 2, 5), torch.tensor([[0, -1]]), r"\(got -1\)"),
    ],
)
def test_labels_that_cannot_be_are_named(logits: Tensor, labels: Tensor, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        next_token_loss(logits, labels)


def test_a_loss_of_ones_own_is_not_ignored_silently() -> None:
    problem = Problem(Counting(), loss=F.multi_margin_loss)
    for method in (GradientDifference(), NPO()):
        with pytest.raises(InvalidInput, match=r"leave `loss` out.*\(got multi_margin_loss\)"):
            method.objective(problem, Batch(*points(4).tensors, "forget"), RETAIN)
    with pytest.raises(InvalidInput, match=r"`beta` should be positive and finite. \(got 0\)"):
        NPO(beta=0)


def unlearn(model: nn.Module | None = None, **options: Any) -> expunge.Result:
    chosen: dict[str, Any] = {"forget": texts(6, 1), "retain": texts(9, 2), "method": "npo"}
    chosen |= {"epochs": 2, "batch_size": 3, "lr": 1e-2}
    return tiny.unlearn(model or Bigram(), **chosen | options)


@pytest.mark.parametrize("addon", ["none", "focus", expunge.Focus(moments="sample")])
@pytest.mark.parametrize("method", ["npo", "gradient-difference"])
def test_dicts_bring_the_mask_along_and_change_nothing_else(method: str, addon: Any) -> None:
    data = {"forget": Dicts(texts(6, 1)), "retain": Dicts(texts(9, 2))}
    model = Bigram()
    loaders = {k: DataLoader(d.data, batch_size=3, shuffle=True) for k, d in data.items()}
    pairs = unlearn(model, method=method, addon=addon, **loaders)
    dicts = unlearn(model, method=method, addon=addon, **data)
    assert same(bits(pairs.model), bits(dicts.model))
    assert set(dicts.model.seen) == {"ids and mask"}


@pytest.mark.parametrize("method", ["npo", "gradient-difference"])
def test_forget_becomes_unlikely_and_retain_does_not(method: str) -> None:
    shared = {"forget": texts(4, 1), "retain": texts(9, 2)}
    weights = expunge.WeightedSum(0.3, 0.7)
    after = unlearn(method=method, epochs=30, aggregate=weights, **shared).model
    worse, kept = (
        literal_nll(after, Batch(*data.tensors, "forget"))
        - literal_nll(Bigram(), Batch(*data.tensors, "forget"))
        for data in (shared["forget"], shared["retain"])
    )
    assert worse > 0.1
    assert kept < 0.0


def test_a_killed_run_on_tokens_resumes_to_the_same_weights(
    tmp_path: Path, one_thread: None
) -> None:
    whole = unlearn(forget=Dicts(texts(6, 1)))
    file = tmp_path / "run.ckpt"

    class Kill(expunge.Callback):
        def on_step(self, run: Any) -> None:
            if run.step == 3:
                raise KeyboardInterrupt

    options = {"forget": Dicts(texts(6, 1)), "checkpoint": file, "checkpoint_every": 1}
    with pytest.raises(KeyboardInterrupt):
        unlearn(callbacks=[Kill()], **options)
    assert same(bits(unlearn(**options).model), bits(whole.model))


def test_the_same_in_a_loop_of_ones_own(one_thread: None) -> None:
    result = unlearn(forget=texts(3, 1), retain=texts(3, 2), epochs=4)
    problem, update = Problem(Bigram()), Update("focus")
    optimizer = torch.optim.Adam(problem.parameters, lr=1e-2)
    forget, retain = (Batch(*texts(3, k).tensors, "forget") for k in (1, 2))
    for _ in range(4):
        update.backward(
            objective=NPO().objective(problem, forget, retain),
            constraint=NPO().constraint(problem, forget, retain),
            params=problem.parameters,
        )
        optimizer.step()
    for ours, theirs in zip(problem.parameters, result.model.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)  # the order within a batch differs
