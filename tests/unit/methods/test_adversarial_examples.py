"""AMUN: the attack against a literal loop, and what is learned from its examples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import expunge
from expunge import Batch, InvalidInput, Problem
from expunge.engine._split_reader import RunSplits
from expunge.methods import AdversarialExamples
from expunge.methods._adversarial_examples import DOUBLINGS, as_numbers, nearest_adversarial
from expunge.models import Normalise
from tests import tiny
from tests.tiny import CLASSES, Counting, TinyConv, bits, images, points, same
from tests.unit.engine.test_checkpoint import KillAt, Killed

FORGET, RETAIN = points(10, seed=1), points(12, seed=2)
QUICK = AdversarialExamples(radius=0.5, steps=5)


def net() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, CLASSES)).double()
    return model.requires_grad_(False)


def literal_attack(
    model: nn.Module, x: Tensor, low: float, high: float, radius: float, steps: int
) -> Tensor:
    """One example, by the cross-entropy itself."""
    label, now = model(x[None]).argmax(), x.clone()
    for doubling in range(DOUBLINGS + 1):
        reach = radius * 2**doubling
        for _ in range(steps):
            point = now.clone().requires_grad_()
            logits = model(point[None])
            if int(logits.argmax()) != int(label):
                return now
            loss = F.cross_entropy(logits, label[None])
            (gradient,) = torch.autograd.grad(loss, point)
            now = now + reach / 10 * gradient / gradient.norm()
            if float((now - x).norm()) > reach:
                now = x + (now - x) / (now - x).norm() * reach
            now = now.clamp(low, high)
    return now


def test_the_attack_is_that_of_the_definition() -> None:
    model, x = net(), points(12, seed=5).tensors[0].double()
    options = {"low": -3.0, "high": 2.0, "radius": 0.2, "steps": 12}
    found = nearest_adversarial(model, x.clamp(-3.0, 2.0), **options)
    assert found.original_classes.tolist() == model(x.clamp(-3.0, 2.0)).argmax(1).tolist()
    for i, point in enumerate(x.clamp(-3.0, 2.0)):
        expected = literal_attack(model, point, **options)
        torch.testing.assert_close(found.inputs[i], expected, rtol=1e-6, atol=1e-8)
    fooled = found.classes != found.original_classes
    assert fooled.all()
    assert torch.equal(model(found.inputs).argmax(1)[:5], found.classes[:5])


def test_no_example_is_much_farther_than_the_nearest() -> None:
    """Of a linear model the boundary is known: (z_a - z_b)/‖w_a - w_b‖ away."""
    model = Counting().eval().requires_grad_(False)
    x = points(20, seed=7).tensors[0]
    found = nearest_adversarial(model, x, low=-9.0, high=9.0, radius=0.01, steps=50)
    weight, logits = model.head.weight, model(x)
    for i, label in enumerate(found.original_classes.tolist()):
        nearest = min(
            float((logits[i, label] - logits[i, k]) / (weight[label] - weight[k]).norm())
            for k in range(CLASSES)
            if k != label
        )
        distance = float((found.inputs[i] - x[i]).norm())
        # Up to a step beyond the boundary, and not quite towards the nearest part of it.
        assert nearest <= distance <= 1.5 * nearest + 0.1


def test_a_model_that_cannot_be_fooled_gives_the_most_probable_other_class() -> None:
    model = nn.Linear(4, CLASSES).requires_grad_(False)
    model.weight.zero_()
    model.bias.copy_(torch.tensor([0.0, 2.0, 1.0]))
    x = points(3).tensors[0]
    found = nearest_adversarial(model, x, low=-5.0, high=5.0, radius=0.1, steps=1)
    assert torch.equal(found.inputs, x)
    assert found.classes.tolist() == [2, 2, 2]


def prepared(method: AdversarialExamples, model: nn.Module, forget: TensorDataset) -> Problem:
    problem = Problem(
        model, splits=RunSplits(forget, RETAIN), needs_saliency=True, batchnorm="frozen"
    )
    method.begin_epoch(problem, 1, 2)
    return problem


def test_every_example_has_a_wrong_label_and_a_mispredicted_one_stays_where_it_is() -> None:
    model = Counting()
    problem = prepared(QUICK, model, FORGET)
    x, y = FORGET.tensors
    inputs, labels = problem.memory["adversarial"], problem.memory["wrong labels"]
    assert (labels != y).all()
    assert torch.equal(labels, model(inputs).argmax(1))
    wrong = model(x).argmax(1) != y
    assert wrong.any()
    assert not wrong.all()
    assert torch.equal((inputs == x).all(1), wrong)
    assert float(inputs.min()) >= float(x.min())
    assert float(inputs.max()) <= float(x.max())


@pytest.mark.parametrize("originals", [True, False])
def test_the_objective_is_the_loss_on_both_or_on_the_adversarial_ones(originals: bool) -> None:
    method = AdversarialExamples(originals=originals, radius=0.5, steps=5)
    problem = prepared(method, Counting(), FORGET)
    chosen = torch.tensor([7, 2, 3])
    x, y = (part[chosen] for part in FORGET.tensors)
    forget, retain = Batch(x, y, "forget", indices=chosen), Batch(*RETAIN.tensors, "retain")
    pairs = [
        (problem.memory["adversarial"][i], problem.memory["wrong labels"][i])
        for i in chosen.tolist()
    ]
    if originals:
        pairs += list(zip(x, y, strict=True))
    losses = [F.cross_entropy(problem.model(a[None]), b[None]).item() for a, b in pairs]
    made = method.objective(problem, forget, retain)
    assert made.loss.item() == pytest.approx(sum(losses) / len(losses), rel=1e-5)
    assert made.saliency is not None
    plain = F.cross_entropy(problem.model(x), y)
    assert made.saliency.item() == pytest.approx(plain.item(), rel=1e-5)
    kept = F.cross_entropy(problem.model(RETAIN.tensors[0]), RETAIN.tensors[1])
    assert method.constraint(problem, forget, retain).item() == pytest.approx(kept.item())


def test_bytes_are_attacked_as_numbers_between_0_and_1() -> None:
    x, y = images(9).tensors
    data = TensorDataset((x * 40 + 100).clamp(0, 255).to(torch.uint8), y)
    model = nn.Sequential(Normalise([0.5], [0.25]), TinyConv()).eval()
    problem = prepared(QUICK, model, data)
    inputs = problem.memory["adversarial"]
    assert inputs.dtype == torch.float32
    assert 0.0 <= float(inputs.min()) <= float(inputs.max()) <= 1.0
    torch.testing.assert_close(model(as_numbers(data.tensors[0])), model(data.tensors[0]))
    x, y = images(12, seed=2).tensors
    other = TensorDataset((x * 40 + 100).clamp(0, 255).to(torch.uint8), y)
    result = run(model, forget=data, retain=other)
    assert not same(bits(result.model), bits(model))


def run(model: nn.Module | None = None, **options: Any) -> expunge.Result:
    chosen: dict[str, Any] = {"forget": images(10, seed=1), "retain": images(12, seed=2)}
    chosen |= {"method": QUICK, "epochs": 2, "batch_size": 4, "progress": False}
    return tiny.unlearn(model or TinyConv(), **chosen | options)


def test_a_killed_run_resumes_to_the_same_bits(tmp_path: Path) -> None:
    kept = {"checkpoint": tmp_path / "run", "checkpoint_every": 1}
    with pytest.raises(Killed):
        run(callbacks=[KillAt(4)], **kept)
    assert same(bits(run(**kept).model), bits(run().model))


def test_images_are_augmented_beside_their_adversarial_examples() -> None:
    assert not same(bits(run(augment=expunge.Augment(padding=1)).model), bits(run().model))


def test_loaders_do_not_tell_which_examples_a_batch_holds() -> None:
    with pytest.raises(InvalidInput, match="not as a DataLoader"):
        run(forget=DataLoader(images(10, seed=1), batch_size=4))


def test_tokens_cannot_change_a_little() -> None:
    tokens = TensorDataset(torch.arange(12).view(6, 2), torch.arange(6) % CLASSES)
    other = (tokens.tensors[0].flip(1), tokens.tensors[1])
    model = nn.Sequential(nn.Embedding(12, 2), nn.Flatten(), nn.Linear(4, CLASSES))
    with pytest.raises(InvalidInput, match=r"images or vectors.*got torch.int64"):
        run(model, forget=tokens, retain=TensorDataset(*other))


@pytest.mark.parametrize("option", [{"radius": 0.0}, {"steps": 0}])
def test_bad_options_are_refused(option: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(option))):
        AdversarialExamples(**option)  # type: ignore[arg-type]
