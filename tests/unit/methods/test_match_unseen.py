"""MATCH against literal loops, and what it promises about the distribution of outputs."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset

import expunge
from expunge import InvalidInput, MatchUnseen
from expunge.methods import Batch, Problem
from expunge.methods._match_unseen import LARGEST_CORRECTION, label_divergence
from tests.tiny import TinyConv, bits, images, same

FORGET, RETAIN, UNSEEN = images(12, seed=1), images(24, seed=2), images(20, seed=3)
OPTIONS = {"method": "match-unseen", "addon": "none", "epochs": 2, "batch_size": 4}


@pytest.mark.parametrize("weight", [0.0, 0.5, 2.0])
def test_the_objective_is_that_of_the_definition(weight: float) -> None:
    problem = Problem(TinyConv())
    targets = torch.softmax(torch.randn(8, 3, generator=torch.Generator().manual_seed(1)), dim=1)
    offsets = torch.tensor([0.5, -0.25, 0.0], dtype=torch.float64)
    problem.memory |= {"targets": targets, "offsets": offsets}
    indices = torch.tensor([5, 0, 3])
    x, y = (part[indices] for part in FORGET.tensors)
    batch = Batch(x, y, "forget", indices=indices)
    found = MatchUnseen(label_weight=weight).objective(problem, batch, batch).loss.detach()
    total = 0.0
    outputs = (problem.logits(batch).detach() + offsets).softmax(1)
    for row, label, target in zip(outputs, y, targets[indices], strict=True):
        total += sum(float(t * (t.log() - p.log())) for t, p in zip(target, row, strict=True))
        p, t = float(row[label]), float(target[label])
        total += weight * (p * math.log(p / t) - p + t)
    assert float(found) == pytest.approx(total / 3, rel=1e-5)


def test_the_gradient_of_the_constraint_is_that_of_a_loss_weighted_by_class() -> None:
    model = TinyConv()
    problem = Problem(model)
    weights = torch.tensor([0.5, 2.0, 1.25])
    problem.memory["class_weights"] = weights
    batch = Batch(*RETAIN.tensors, "retain")
    found = torch.autograd.grad(
        MatchUnseen().constraint(problem, batch, batch), list(model.parameters())
    )
    losses = [
        weights[label] * torch.nn.functional.cross_entropy(row[None], label[None])
        for row, label in zip(problem.logits(batch), batch.targets, strict=True)
    ]
    expected = torch.autograd.grad(sum(losses) / len(losses), list(model.parameters()))
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_classes_that_lost_accuracy_weigh_more_the_longer_it_lasts() -> None:
    memory = {"lost_so_far": torch.zeros(3, dtype=torch.float64)}
    lost = torch.tensor([0.1, 0.0, -0.1], dtype=torch.float64)
    method, history = MatchUnseen(), []
    for refresh in range(1, 31):
        method._weigh_classes(memory, lost)
        history.append(memory["class_weights"])
        raw = [math.exp(each * (1.0 + 0.6 * refresh)) for each in lost.tolist()]
        expected = [min(max(3 * each / sum(raw), 0.2), 5.0) for each in raw]
        assert history[-1].tolist() == pytest.approx(expected)
    assert history[-1][0] > history[0][0] > 1.0 > history[0][2] > history[-1][2]
    memory = {"lost_so_far": torch.zeros(3, dtype=torch.float64)}
    method._weigh_classes(memory, torch.full((3,), 0.2, dtype=torch.float64))
    assert memory["class_weights"].tolist() == pytest.approx([1.0] * 3), (
        "all alike: none weighs more"
    )


def test_a_label_without_probability_is_pulled_harder_than_by_the_divergence_alone() -> None:
    """At p = 0.1 where 0.001 is asked for, KL(t ‖ p) pulls by 0.1; the label term adds more."""
    p = torch.tensor([0.1], dtype=torch.float64, requires_grad=True)
    label_divergence(p.log(), torch.tensor([0.001], dtype=torch.float64)).backward()
    assert float(p.grad) == pytest.approx(math.log(100.0))
    assert float(label_divergence(p.detach().log(), p.detach())) == pytest.approx(0.0)


def test_a_killed_run_resumes_to_the_same_bits(tmp_path: Path) -> None:
    class Killed(expunge.Callback):
        def on_step(self, run: object) -> None:
            if run.step == 4:  # type: ignore[attr-defined]
                raise KeyboardInterrupt

    data = {"forget": FORGET, "retain": RETAIN, "unseen": UNSEEN, "progress": False}
    whole = expunge.unlearn(TinyConv(), **data, **OPTIONS)
    file = tmp_path / "run.checkpoint"
    resumable = {"checkpoint": file, "checkpoint_every": 1}
    with pytest.raises(KeyboardInterrupt):
        expunge.unlearn(TinyConv(), callbacks=[Killed()], **resumable, **data, **OPTIONS)
    assert file.exists()
    again = expunge.unlearn(TinyConv(), **resumable, **data, **OPTIONS)
    assert same(bits(whole.model), bits(again.model))


class Listed(Dataset[tuple[Tensor, Tensor]]):
    """A dataset that hands out one item at a time."""

    def __init__(self, data: TensorDataset) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.data[index]


def test_a_dataset_read_item_by_item_is_matched_as_one_in_memory() -> None:
    """The same targets; batches differ in their order only, so take a single one."""
    options = {**OPTIONS, "batch_size": 64}
    made = [
        expunge.unlearn(
            TinyConv(), forget=forget, retain=RETAIN, unseen=UNSEEN, progress=False, **options
        )
        for forget in (FORGET, Listed(FORGET))
    ]
    first, second = (bits(result.model) for result in made)
    for name, value in first.items():
        assert torch.allclose(value, second[name], atol=1e-6), name


def test_loaders_do_not_tell_which_examples_a_batch_holds() -> None:
    with pytest.raises(InvalidInput, match="not as a DataLoader"):
        expunge.unlearn(
            TinyConv(),
            forget=DataLoader(FORGET, batch_size=4),
            retain=RETAIN,
            unseen=UNSEEN,
            **OPTIONS,
        )


def test_without_unseen_data_the_remedy_is_named() -> None:
    with pytest.raises(InvalidInput, match="give `unseen`"):
        expunge.unlearn(TinyConv(), forget=FORGET, retain=RETAIN, **OPTIONS)


@pytest.mark.parametrize("option", [{"views": "blur"}, {"gain": -1.0}, {"label_weight": -0.5}])
def test_bad_options_are_refused(option: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(option))):
        MatchUnseen(**option)  # type: ignore[arg-type]


def test_a_difference_that_does_not_close_does_not_wind_up() -> None:
    """A rate of almost nothing: the model stays sure of data that it should be wrong on."""
    corrections = []

    class Watch(expunge.Callback):
        def on_epoch(self, run: object) -> None:
            corrections.append(run.problem.memory["correction"].clone())  # type: ignore[attr-defined]

    model = TinyConv().eval()
    with torch.no_grad():
        model.head.weight.mul_(1000.0)
        right, wrong = (model(part.tensors[0]).argmax(1) for part in (FORGET, UNSEEN))
    known = TensorDataset(FORGET.tensors[0], right)
    unknown = TensorDataset(UNSEEN.tensors[0], (wrong + 1) % 3)
    expunge.unlearn(
        model,
        forget=known,
        retain=RETAIN,
        unseen=unknown,
        callbacks=[Watch()],
        lr=1e-12,
        **{**OPTIONS, "epochs": 12, "method": MatchUnseen(gain=1.0)},
    )
    assert corrections[0].eq(0.0).all()
    assert corrections[-1].abs().max() == pytest.approx(LARGEST_CORRECTION)
    assert all(each.abs().max() <= LARGEST_CORRECTION for each in corrections)
