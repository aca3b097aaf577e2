"""MATCH against literal loops, and what it promises about the distribution of outputs."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset

import expunge
from expunge import InvalidInput
from expunge.methods import Batch, MatchUnseen, Problem
from expunge.methods._match_unseen import margins, match_outputs
from tests import tiny
from tests.tiny import TinyConv, bits, images, same

FORGET, RETAIN, UNSEEN = images(12, seed=1), images(24, seed=2), images(20, seed=3)
OPTIONS = {"method": "match-unseen", "addon": "none", "epochs": 2, "batch_size": 4}
CLASSES = torch.arange(4)


def draw(seed: int, count: int, classes: int = 4) -> tuple[Tensor, Tensor]:
    """Logits and labels."""
    random = torch.Generator().manual_seed(seed)
    logits = torch.randn(count, classes, generator=random, dtype=torch.float64)
    return logits, torch.randint(classes, (count,), generator=random)


def margin(logits: Tensor, label: int) -> float:
    return float(logits[label]) - max(float(z) for c, z in enumerate(logits) if c != label)


def literal_targets(
    unseen: Tensor, unseen_labels: Tensor, forget: Tensor, labels: Tensor
) -> Tensor:
    """The definition, one example and one class at a time."""
    targets = torch.zeros_like(forget)
    for i, label in enumerate(labels.tolist()):
        pool = [k for k, other in enumerate(unseen_labels.tolist()) if other == label]
        pool = pool or list(range(len(unseen)))
        pool.sort(key=lambda k: margin(unseen[k], int(unseen_labels[k])))
        alike = [margin(forget[k], label) for k in range(len(labels)) if labels[k] == label]
        below = sum(each < margin(forget[i], label) for each in alike)
        donor = pool[int((below + 0.5) / len(alike) * len(pool))]
        donor_label, p = int(unseen_labels[donor]), unseen[donor].softmax(0).tolist()
        targets[i, label] = p.pop(donor_label)
        others = sorted((c for c in range(4) if c != label), key=lambda c: -float(forget[i, c]))
        for c, value in zip(others, sorted(p, reverse=True), strict=True):
            targets[i, c] = value
    return targets


@given(st.integers(0, 1000))
def test_targets_are_those_of_the_definition(seed: int) -> None:
    (unseen, unseen_labels), (forget, labels) = draw(seed, 15), draw(seed + 1, 9)
    made = match_outputs(unseen, unseen_labels, forget, labels, CLASSES)
    assert torch.allclose(made, literal_targets(unseen, unseen_labels, forget, labels))
    assert torch.allclose(made.sum(1), torch.ones(9, dtype=made.dtype))


@pytest.mark.parametrize("times", [1, 3])
def test_forget_data_get_the_joint_distribution_of_unseen_data(times: int) -> None:
    unseen, unseen_labels = draw(0, 40)
    forget, _ = draw(1, 40 * times)
    labels = unseen_labels.repeat(times)
    made = match_outputs(unseen, unseen_labels, forget, labels, CLASSES)
    expected = unseen.softmax(1).repeat(times, 1)
    for of in (
        lambda p: p.gather(1, labels[:, None])[:, 0],
        lambda p: -(p * p.log()).sum(1),
        lambda p: (p.argmax(1) == labels).double(),
    ):
        assert torch.allclose(of(made).sort().values, of(expected).sort().values)


def test_a_class_of_which_nothing_is_retained_gets_no_probability() -> None:
    unseen, unseen_labels = draw(0, 15)
    unseen[unseen_labels == 2] = torch.tensor([-1e4, -1e4, 1e4, -1e4]).double()
    forget, labels = draw(1, 9)
    made = match_outputs(unseen, unseen_labels, forget, labels, torch.tensor([0, 1, 3]))
    assert made[:, 2].eq(0).all()
    others = labels != 2
    assert torch.allclose(made[others].sum(1), torch.ones(int(others.sum()), dtype=made.dtype))
    assert made[~others].eq(0).all(), "nothing is known of where a sure class should go"


def test_margins_are_those_to_the_runner_up() -> None:
    made = margins(torch.tensor([[-1.0, -2.0, -5.0], [-1.0, -2.0, -5.0]]), torch.tensor([0, 2]))
    assert made.tolist() == [1.0, -4.0]


def test_the_objective_is_that_of_the_definition() -> None:
    problem = Problem(TinyConv(), keeps_initial=False)
    targets = draw(1, 12, classes=3)[0].softmax(1)
    problem.memory["targets"] = targets
    indices = torch.tensor([5, 0, 3])
    x, y = (part[indices] for part in FORGET.tensors)
    batch = Batch(x, y, "forget", indices=indices)
    found = MatchUnseen().objective(problem, batch, batch).loss.detach()
    total = 0.0
    for row, target in zip(
        problem.logits(batch).detach().softmax(1), targets[indices], strict=True
    ):
        total += sum(float(t * (t.log() - p.log())) for t, p in zip(target, row, strict=True))
    assert float(found) == pytest.approx(total / 3, rel=1e-5)


def test_targets_follow_the_model() -> None:
    """Refreshed before every epoch of 6 but the second."""
    seen = []

    class Watch(expunge.Callback):
        def on_epoch(self, run: object) -> None:
            seen.append(run.problem.memory["targets"].clone())  # type: ignore[attr-defined]

    options = OPTIONS | {"epochs": 6, "lr": 0.01}
    data = {"forget": FORGET, "retain": RETAIN, "unseen": UNSEEN}
    tiny.unlearn(TinyConv(), callbacks=[Watch()], progress=False, **data, **options)
    changed = [not torch.equal(*pair) for pair in pairwise(seen)]
    assert changed == [False, True, True, True, True]


def test_a_killed_run_resumes_to_the_same_bits(tmp_path: Path) -> None:
    class Killed(expunge.Callback):
        def on_step(self, run: object) -> None:
            if run.step == 4:  # type: ignore[attr-defined]
                raise KeyboardInterrupt

    data = {"forget": FORGET, "retain": RETAIN, "unseen": UNSEEN, "progress": False}
    whole = tiny.unlearn(TinyConv(), **data, **OPTIONS)
    file = tmp_path / "run.checkpoint"
    resumable = {"checkpoint": file, "checkpoint_every": 1}
    with pytest.raises(KeyboardInterrupt):
        tiny.unlearn(TinyConv(), callbacks=[Killed()], **resumable, **data, **OPTIONS)
    assert file.exists()
    again = tiny.unlearn(TinyConv(), **resumable, **data, **OPTIONS)
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
        tiny.unlearn(
            TinyConv(), forget=forget, retain=RETAIN, unseen=UNSEEN, progress=False, **options
        )
        for forget in (FORGET, Listed(FORGET))
    ]
    first, second = (bits(result.model) for result in made)
    for name, value in first.items():
        assert torch.allclose(value, second[name], atol=1e-6), name


def test_loaders_do_not_tell_which_examples_a_batch_holds() -> None:
    with pytest.raises(InvalidInput, match="not as a DataLoader"):
        tiny.unlearn(
            TinyConv(),
            forget=DataLoader(FORGET, batch_size=4),
            retain=RETAIN,
            unseen=UNSEEN,
            **OPTIONS,
        )


def test_without_unseen_data_the_remedy_is_named() -> None:
    with pytest.raises(InvalidInput, match="give `unseen`"):
        tiny.unlearn(TinyConv(), forget=FORGET, retain=RETAIN, **OPTIONS)
