"""ReGUn against literal loops."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.data import DataLoader

from expunge import Batch, InvalidInput, Problem
from expunge.engine._split_reader import RunSplits
from expunge.methods import ReferenceGuided
from expunge.methods._reference_guided import (
    class_references,
    mix_references,
    without_lost_classes,
)
from tests import tiny
from tests.tiny import CLASSES, TinyConv, bits, images, same

FORGET, RETAIN, UNSEEN = images(7, seed=1), images(12, seed=2), images(10, seed=3)


def draw(seed: int, count: int) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    logits = torch.randn(count, CLASSES, generator=random, dtype=torch.float64)
    return logits.softmax(1), torch.randint(CLASSES, (count,), generator=random)


def literal_mean(rows: list[Tensor]) -> list[float]:
    return [sum(float(row[k]) for row in rows) / len(rows) for k in range(CLASSES)]


@given(st.integers(0, 1000), st.integers(1, 9))
def test_references_are_means_over_the_class_or_over_everything(seed: int, count: int) -> None:
    outputs, labels = draw(seed, count)
    made = class_references(outputs, labels)
    for c in range(CLASSES):
        rows = [row for row, y in zip(outputs, labels.tolist(), strict=True) if y == c]
        assert made[c].tolist() == pytest.approx(literal_mean(rows or list(outputs)))


@given(st.integers(0, 1000))
def test_the_mixed_reference_is_the_mean_over_a_batch_with_the_forget_sets_classes(
    seed: int,
) -> None:
    """As if every forget example drew one unseen example with its class's mean output."""
    outputs, labels = draw(seed, 9)
    _, forgotten = draw(seed + 1, 11)
    references = class_references(outputs, labels)
    rows = [references[y] for y in forgotten.tolist()]
    assert mix_references(references, forgotten).tolist() == pytest.approx(literal_mean(rows))


def test_a_class_of_which_nothing_is_retained_gets_no_probability() -> None:
    references = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1]])
    made = without_lost_classes(references, torch.tensor([0, 2, 2]))
    assert made.tolist() == [pytest.approx([5 / 7, 0.0, 2 / 7]), pytest.approx([0.5, 0.0, 0.5])]


@pytest.mark.parametrize("reference", ["batch", "class"])
def test_the_objective_is_the_divergence_from_the_reference(reference: str) -> None:
    model = TinyConv().eval()
    problem = Problem(model, splits=RunSplits(FORGET, RETAIN, UNSEEN), batchnorm="frozen")
    with torch.no_grad():  # what the initial model does with unseen data, whatever the current one
        unseen = model(UNSEEN.tensors[0]).softmax(1)
        model.head.weight.mul_(-3.0)
        forget = model(FORGET.tensors[0]).softmax(1)
    method = ReferenceGuided(reference)  # type: ignore[arg-type]
    method.begin_epoch(problem, 1, 1)
    means = {
        c: literal_mean([p for p, y in zip(unseen, UNSEEN.tensors[1], strict=True) if y == c])
        for c in range(CLASSES)
    }
    labels = FORGET.tensors[1].tolist()
    mean = [sum(means[y][k] for y in labels) / len(labels) for k in range(CLASSES)]
    total = 0.0
    for p, y in zip(forget.tolist(), labels, strict=True):
        q = mean if reference == "batch" else means[y]
        total += sum(q[k] * math.log(q[k] / p[k]) for k in range(CLASSES))
    batch, retain = Batch(*FORGET.tensors, "forget"), Batch(*RETAIN.tensors, "retain")
    made = method.objective(problem, batch, retain)
    assert made.loss.item() == pytest.approx(total / len(labels), rel=1e-5)
    loss = torch.nn.functional.cross_entropy
    assert made.saliency is not None
    assert made.saliency.item() == pytest.approx(loss(forget.log(), FORGET.tensors[1]).item())
    kept = loss(model(RETAIN.tensors[0]), RETAIN.tensors[1])
    assert method.constraint(problem, batch, retain).item() == pytest.approx(kept.item())


def test_references_do_not_follow_the_model() -> None:
    problem = Problem(TinyConv(), splits=RunSplits(FORGET, RETAIN, UNSEEN))
    method = ReferenceGuided()
    method.begin_epoch(problem, 1, 2)
    first = problem.memory["references"]
    with torch.no_grad():
        problem.model.head.bias.add_(torch.tensor([1.0, 0.0, 0.0]))
    method.begin_epoch(problem, 2, 2)
    assert problem.memory["references"] is first


def test_a_loader_gives_the_same_step_as_the_dataset() -> None:
    made = [
        tiny.unlearn(
            TinyConv(),
            forget=forget,
            retain=RETAIN,
            unseen=UNSEEN,
            method="ReGUn",
            addon="none",
            optimizer=torch.optim.SGD,
            epochs=1,
            batch_size=7,
            progress=False,
        )
        for forget in (FORGET, DataLoader(FORGET, batch_size=7))
    ]
    first, second = (bits(result.model) for result in made)
    assert not same(first, bits(TinyConv()))
    for name, value in first.items():
        assert torch.allclose(value, second[name], atol=1e-6), name


def test_without_unseen_data_the_remedy_is_named() -> None:
    with pytest.raises(InvalidInput, match="give `unseen`"):
        tiny.unlearn(TinyConv(), forget=FORGET, retain=RETAIN, method="ReGUn")


@pytest.mark.parametrize("option", [{"reference": "epoch"}, {"sample": 0}])
def test_bad_options_are_refused(option: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(option))):
        ReferenceGuided(**option)  # type: ignore[arg-type]
