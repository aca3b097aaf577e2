"""Each method's U and C against its formula, written out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from expunge._errors import InvalidInput
from expunge.methods import (
    Batch,
    ConvTranspose,
    FineTune,
    GradientAscent,
    L1Sparse,
    Method,
    NegGradPlus,
    Problem,
    RandomLabel,
    Scrub,
)
from expunge.update import Term
from tests.tiny import Counting

GENERATOR = torch.Generator().manual_seed(3)
FORGET = Batch(torch.randn(5, 4, generator=GENERATOR), torch.tensor([0, 1, 2, 0, 1]), "forget")
RETAIN = Batch(torch.randn(6, 4, generator=GENERATOR), torch.tensor([2, 2, 1, 0, 1, 0]), "retain")


def literal_cross_entropy(model: Counting, batch: Batch) -> float:
    """-1/B Σ log softmax(Wx + b)_y, in Python numbers."""
    total = 0.0
    for x, y in zip(batch.inputs, batch.targets.tolist(), strict=True):
        z = literal_logits(model, x)
        total -= math.log(math.exp(z[y]) / sum(math.exp(v) for v in z))
    return total / len(batch.inputs)


def literal_logits(model: Counting, x: Tensor) -> list[float]:
    weight, bias = model.head.weight.tolist(), model.head.bias.tolist()
    return [sum(w * v for w, v in zip(row, x.tolist(), strict=True)) + b
            for row, b in zip(weight, bias, strict=True)]  # fmt: skip


def literal_kl(first: Counting, model: Counting, batch: Batch) -> float:
    """1/B Σ_x Σ_k p₀(k|x) log(p₀(k|x) / p(k|x))."""
    total = 0.0
    for x in batch.inputs:
        p0, p = (softmax(literal_logits(m, x)) for m in (first, model))
        total += sum(a * math.log(a / b) for a, b in zip(p0, p, strict=True))
    return total / len(batch.inputs)


def softmax(z: list[float]) -> list[float]:
    total = sum(math.exp(v) for v in z)
    return [math.exp(v) / total for v in z]


def moved(problem: Problem) -> Counting:
    """The student, after a few steps away from the initial model."""
    with torch.no_grad():
        problem.model.head.weight.mul_(1.7).add_(0.3)
    assert isinstance(problem.model, Counting)
    return problem.model


def loss_of(term: Tensor | Term) -> float:
    return (term.loss if isinstance(term, Term) else term).item()


def test_fine_tune_minimises_the_loss_on_retain() -> None:
    problem = Problem(Counting())
    term = FineTune().objective(problem, FORGET, RETAIN)
    assert loss_of(term) == pytest.approx(literal_cross_entropy(problem.model, RETAIN), rel=1e-5)
    assert term.saliency is None
    assert not FineTune().constrained


def test_gradient_ascent_minimises_minus_the_loss_on_forget() -> None:
    problem = Problem(Counting())
    term = GradientAscent().objective(problem, FORGET, RETAIN)
    assert loss_of(term) == pytest.approx(-literal_cross_entropy(problem.model, FORGET), rel=1e-5)
    assert not GradientAscent().constrained


def test_neg_grad_plus_climbs_on_forget_and_descends_on_retain() -> None:
    problem = Problem(Counting())
    u = NegGradPlus().objective(problem, FORGET, RETAIN)
    c = NegGradPlus().constraint(problem, FORGET, RETAIN)
    assert loss_of(u) == pytest.approx(-literal_cross_entropy(problem.model, FORGET), rel=1e-5)
    assert loss_of(c) == pytest.approx(literal_cross_entropy(problem.model, RETAIN), rel=1e-5)
    assert NegGradPlus().constrained


def test_l1_sparse_minimises_the_sum_of_absolute_weights() -> None:
    problem = Problem(Counting())
    head = problem.model.head
    norm = sum(abs(v) for row in head.weight.tolist() for v in row)
    norm += sum(abs(v) for v in head.bias.tolist())
    assert loss_of(L1Sparse().objective(problem, FORGET, RETAIN)) == pytest.approx(norm, rel=1e-5)
    c = L1Sparse().constraint(problem, FORGET, RETAIN)
    assert loss_of(c) == pytest.approx(literal_cross_entropy(problem.model, RETAIN), rel=1e-5)


def test_l1_sparse_leaves_frozen_weights_out_of_the_norm() -> None:
    problem = Problem(Counting())
    problem.model.head.bias.requires_grad_(False)
    norm = sum(abs(v) for row in problem.model.head.weight.tolist() for v in row)
    assert loss_of(L1Sparse().objective(problem, FORGET, RETAIN)) == pytest.approx(norm, rel=1e-5)


@pytest.mark.parametrize("gamma", [0.0, 1.0, 2.5])
def test_scrub_leaves_the_initial_model_on_forget_and_stays_with_it_on_retain(
    gamma: float,
) -> None:
    problem = Problem(Counting())
    first, student = Counting(), moved(problem)
    u = Scrub(gamma).objective(problem, FORGET, RETAIN)
    c = Scrub(gamma).constraint(problem, FORGET, RETAIN)
    divergence = literal_kl(first, student, FORGET)
    assert divergence > 0.01
    assert loss_of(u) == pytest.approx(-divergence, rel=1e-4)
    expected = literal_kl(first, student, RETAIN) + gamma * literal_cross_entropy(student, RETAIN)
    assert loss_of(c) == pytest.approx(expected, rel=1e-4)


def test_scrub_runs_the_student_once_a_batch() -> None:
    problem = Problem(Counting(), needs_saliency=True)
    Scrub().objective(problem, FORGET, RETAIN)
    Scrub().constraint(problem, FORGET, RETAIN)
    assert problem.model.calls == 2
    assert problem.initial.calls == 2


def test_the_teacher_is_the_initial_model_frozen_in_eval_mode() -> None:
    model = nn.Sequential(Counting(), nn.Dropout(0.5)).train()
    problem = Problem(model)
    with torch.no_grad():
        model[0].head.weight.add_(1.0)
    teacher = problem.initial
    assert torch.equal(teacher[0].head.weight, Counting().head.weight)
    assert not any(module.training for module in teacher.modules())
    assert not any(p.requires_grad for p in teacher.parameters())
    assert not problem.initial_logits(FORGET).requires_grad
    assert problem.initial is teacher


class Drawn:
    """A loss that remembers the targets it was asked about."""

    def __init__(self) -> None:
        self.targets: list[Tensor] = []

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        self.targets.append(targets)
        return F.cross_entropy(logits, targets)


def test_random_label_is_the_loss_with_the_drawn_labels() -> None:
    drawn = Drawn()
    problem = Problem(Counting(), loss=drawn)
    term = RandomLabel().objective(problem, FORGET, RETAIN)
    relabelled = Batch(FORGET.inputs, drawn.targets[0], "forget")
    expected = literal_cross_entropy(problem.model, relabelled)
    assert loss_of(term) == pytest.approx(expected, rel=1e-5)
    truth = literal_cross_entropy(problem.model, FORGET)
    assert term.saliency.item() == pytest.approx(truth, rel=1e-5)
    c = RandomLabel().constraint(problem, FORGET, RETAIN)
    assert loss_of(c) == pytest.approx(literal_cross_entropy(problem.model, RETAIN), rel=1e-5)


def test_random_label_is_never_the_true_one_and_uniform_over_the_others() -> None:
    drawn, classes, count = Drawn(), 5, 20_000
    batch = Batch(torch.zeros(count, 4), torch.arange(count) % classes, "forget")
    RandomLabel().objective(Problem(Counting(classes=classes), loss=drawn), batch, RETAIN)
    table = torch.zeros(classes, classes)
    table.index_put_((batch.targets, drawn.targets[0]), torch.ones(count), accumulate=True)
    assert table.diagonal().sum() == 0
    others = table[~torch.eye(classes, dtype=torch.bool)]
    expected = count / (classes * (classes - 1))
    chi_square = float(((others - expected) ** 2 / expected).sum())
    assert chi_square < 37.7  # the 99.9th percentile at 15 degrees of freedom


def test_random_label_is_fresh_at_each_visit() -> None:
    drawn = Drawn()
    problem = Problem(Counting(classes=10), loss=drawn)
    for _ in range(2):
        RandomLabel().objective(problem, FORGET, RETAIN)
    assert not torch.equal(drawn.targets[0], drawn.targets[2])


def test_random_label_draws_among_the_classes_it_is_told() -> None:
    drawn = Drawn()
    batch = Batch(torch.zeros(200, 4), torch.zeros(200, dtype=torch.int64), "forget")
    RandomLabel(num_classes=3).objective(Problem(Counting(classes=10), loss=drawn), batch, RETAIN)
    assert set(drawn.targets[0].tolist()) == {1, 2}


def test_random_label_refuses_what_it_cannot_draw() -> None:
    with pytest.raises(InvalidInput, match=r"at least 2, or None. .got 1"):
        RandomLabel(num_classes=1)
    with pytest.raises(InvalidInput, match="got 20 classes and 3 outputs"):
        RandomLabel(num_classes=20).objective(Problem(Counting()), FORGET, RETAIN)
    soft = Batch(FORGET.inputs, torch.full((5, 3), 1 / 3), "forget")
    with pytest.raises(InvalidInput, match="one class number per example"):
        RandomLabel().objective(Problem(Counting()), soft, RETAIN)
    single = Batch(FORGET.inputs, torch.zeros(5, dtype=torch.int64), "forget")
    with pytest.raises(InvalidInput, match="got 1 classes and 1 outputs"):
        RandomLabel().objective(Problem(Counting(classes=1)), single, RETAIN)


@pytest.mark.parametrize("method", [RandomLabel(), Scrub()])
def test_saliency_shares_the_forward_pass_on_forget(method: Method) -> None:
    problem = Problem(Counting(), needs_saliency=True)
    term = method.objective(problem, FORGET, RETAIN)
    assert problem.model.calls == 1
    expected = literal_cross_entropy(problem.model, FORGET)
    assert term.saliency.item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("method", [GradientAscent(), NegGradPlus()])
def test_ascent_needs_no_saliency_of_its_own(method: Method) -> None:
    problem = Problem(Counting(), needs_saliency=True)
    assert method.objective(problem, FORGET, RETAIN).saliency is None
    assert problem.model.calls == 1


@pytest.mark.parametrize(
    ("method", "base"), [(FineTune(), 1), (ConvTranspose(), 1), (L1Sparse(), 0)]
)
def test_methods_that_do_not_visit_forget_make_one_extra_pass_only_if_asked(
    method: Method, base: int
) -> None:
    plain, ranked = Problem(Counting()), Problem(Counting(), needs_saliency=True)
    assert method.objective(plain, FORGET, RETAIN).saliency is None
    assert plain.model.calls == base
    saliency = method.objective(ranked, FORGET, RETAIN).saliency
    assert ranked.model.calls == base + 1
    expected = literal_cross_entropy(ranked.model, FORGET)
    assert saliency.item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("label", [-1, 3, 70])
def test_labels_outside_the_classes_are_named(label: int) -> None:
    batch = Batch(torch.zeros(2, 4), torch.tensor([0, label]), "retain")
    with pytest.raises(InvalidInput, match=rf"Labels should be in 0..2, .* \(got {label}\)"):
        Problem(Counting()).loss_on(batch)


def test_a_negative_gamma_is_refused() -> None:
    with pytest.raises(InvalidInput, match="`gamma` should be finite and not negative"):
        Scrub(gamma=-1.0)


def test_a_method_without_an_objective_says_so() -> None:
    with pytest.raises(TypeError, match="Method should define `objective`"):
        Method().objective(Problem(Counting()), FORGET, RETAIN)
