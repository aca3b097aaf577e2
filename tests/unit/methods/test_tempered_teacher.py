"""LoTUS against its formulas, one number at a time."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

import expunge
from expunge import Batch, InvalidInput, Problem
from expunge.engine._split_reader import RunSplits
from expunge.methods import TemperedTeacher
from expunge.methods._tempered_teacher import LEVELS, gumbel_noise
from tests import tiny
from tests.tiny import CLASSES, TinyConv, bits, images, same
from tests.unit.engine.test_checkpoint import KillAt, Killed

FORGET, RETAIN, UNSEEN = images(7, seed=1), images(12, seed=2), images(10, seed=3)


def accuracy(model: torch.nn.Module, data: TensorDataset, lost: tuple[int, ...] = ()) -> float:
    right = 0
    for x, y in data:
        right += int(model(x[None]).argmax()) == int(y) and int(y) not in lost
    return right / len(data)


def trained() -> TinyConv:
    """A model that is better on forget than on unseen data."""
    data = torch.utils.data.ConcatDataset([FORGET, RETAIN])
    recipe = expunge.Recipe(epochs=15, batch_size=19, lr=0.1)
    model = tiny.train(TinyConv(), data, recipe=recipe, progress=False).model
    assert isinstance(model, TinyConv)
    return model


def problem_of(model: TinyConv, retain: TensorDataset = RETAIN) -> Problem:
    return Problem(model, splits=RunSplits(FORGET, retain, UNSEEN), batchnorm="frozen")


def test_the_temperature_follows_the_accuracy_that_is_left_to_lose() -> None:
    model = trained()
    problem, method = problem_of(model), TemperedTeacher(gain=3.0)
    on_unseen = accuracy(model, UNSEEN)
    temperatures = []
    for epoch in (1, 2):
        method.begin_epoch(problem, epoch, 2)
        difference = accuracy(model, FORGET) - on_unseen  # of the initial model on unseen data
        made = float(problem.memory["temperature"])
        assert made == pytest.approx(math.exp(3.0 * difference))
        temperatures.append(made)
        with torch.no_grad():
            model.head.bias.add_(torch.tensor([50.0, 0.0, 0.0]))
    assert temperatures[0] > temperatures[1]


def test_unseen_data_of_a_class_that_is_not_retained_count_as_wrong() -> None:
    model = trained()
    x, y = RETAIN.tensors
    problem = problem_of(model, TensorDataset(x[y != 2], y[y != 2]))
    TemperedTeacher(gain=1.0).begin_epoch(problem, 1, 1)
    difference = accuracy(model, FORGET) - accuracy(model, UNSEEN, lost=(2,))
    assert float(problem.memory["temperature"]) == pytest.approx(math.exp(difference))


def literal_scores(logits: Tensor, draws: Tensor | None) -> list[list[float]]:
    rows = logits.tolist()
    if draws is None:
        return rows
    for row, numbers in zip(rows, draws.tolist(), strict=True):
        for k, number in enumerate(numbers):
            row[k] += -math.log(-math.log((number + 0.5) / LEVELS))
    return rows


def literal_cross_entropy(targets: list[list[float]], logits: Tensor) -> float:
    total = 0.0
    for t, z in zip(targets, logits.tolist(), strict=True):
        log_sum = math.log(sum(math.exp(v) for v in z))
        total -= sum(t[k] * (z[k] - log_sum) for k in range(CLASSES))
    return total / len(targets)


@pytest.mark.parametrize("noise", [True, False])
def test_forget_targets_are_soft_and_retain_targets_are_hard(noise: bool) -> None:
    model = trained()
    problem, method = problem_of(model), TemperedTeacher(gain=20.0, noise=noise)
    method.begin_epoch(problem, 1, 1)
    tau = float(problem.memory["temperature"])
    assert tau > 1.1
    with torch.no_grad():
        teacher = [model(part.tensors[0]) for part in (FORGET, RETAIN)]
        model.head.weight.mul_(0.7)
        student = [model(part.tensors[0]) for part in (FORGET, RETAIN)]
    random = torch.Generator().manual_seed(0)
    draws = [torch.randint(LEVELS, logits.shape, generator=random) for logits in teacher]
    soft_scores, hard_scores = (
        literal_scores(logits, numbers if noise else None)
        for logits, numbers in zip(teacher, draws, strict=True)
    )
    soft = [[math.exp(v / tau) / sum(math.exp(w / tau) for w in z) for v in z] for z in soft_scores]
    hard = [[float(v == max(z)) for v in z] for z in hard_scores]

    forget, retain = Batch(*FORGET.tensors, "forget"), Batch(*RETAIN.tensors, "retain")
    objective = method.objective(problem, forget, retain)
    constraint = method.constraint(problem, forget, retain)
    assert objective.loss.item() == pytest.approx(literal_cross_entropy(soft, student[0]), rel=1e-5)
    assert constraint.item() == pytest.approx(literal_cross_entropy(hard, student[1]), rel=1e-5)
    labels = [[float(k == y) for k in range(CLASSES)] for y in FORGET.tensors[1].tolist()]
    assert objective.saliency is not None
    plain = literal_cross_entropy(labels, student[0])
    assert objective.saliency.item() == pytest.approx(plain, rel=1e-5)


def test_the_noise_is_finite_and_has_the_mean_of_a_gumbel_distribution() -> None:
    assert gumbel_noise(torch.tensor([0, LEVELS - 1])).isfinite().all()
    evenly = gumbel_noise(torch.arange(0, LEVELS, 64))
    assert float(evenly.mean()) == pytest.approx(0.5772, abs=1e-3)
    assert float(evenly.var()) == pytest.approx(math.pi**2 / 6, abs=1e-3)


def test_a_killed_run_resumes_to_the_same_bits(tmp_path: Path) -> None:
    options = {
        "forget": FORGET,
        "retain": RETAIN,
        "unseen": UNSEEN,
        "method": "LoTUS",
        "epochs": 2,
        "batch_size": 3,
        "progress": False,
    }
    whole = tiny.unlearn(TinyConv(), **options)
    kept = {"checkpoint": tmp_path / "run", "checkpoint_every": 1}
    with pytest.raises(Killed):
        tiny.unlearn(TinyConv(), callbacks=[KillAt(3)], **kept, **options)
    again = tiny.unlearn(TinyConv(), **kept, **options)
    assert same(bits(whole.model), bits(again.model))


@pytest.mark.parametrize("option", [{"gain": 0.0}, {"sample": 0}])
def test_bad_options_are_refused(option: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(option))):
        TemperedTeacher(**option)  # type: ignore[arg-type]
