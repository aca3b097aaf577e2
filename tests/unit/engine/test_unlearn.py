"""What cannot be used is refused before the first step, by name and with a remedy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

import expunge
from expunge import InvalidInput
from expunge.data._batches import Batch
from expunge.methods import Method
from expunge.methods._problem import Problem
from tests import tiny
from tests.tiny import Counting, TinyConv, bits, images, points, same

FORGET, RETAIN = points(6), points(8, seed=1)


def unlearn(model: nn.Module | None = None, **options: Any) -> expunge.Result:
    chosen: dict[str, Any] = {"forget": FORGET, "retain": RETAIN, "epochs": 1, "batch_size": 2}
    return tiny.unlearn(model or Counting(), **chosen | options)


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        yield from [(torch.zeros(4), 0)] * 4


class Unsized(Dataset[Any]):
    def __getitem__(self, index: int) -> Any:
        return torch.zeros(4), 0


class Lonely(Dataset[Any]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        return torch.zeros(4)


class Hollow(IterableDataset[Any]):
    def __len__(self) -> int:
        return 4

    def __iter__(self) -> Iterator[Any]:
        return iter(())


NOTHING = TensorDataset(torch.zeros(0, 4), torch.zeros(0, dtype=torch.int64))

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "empty forget": ({"forget": NOTHING}, "The forget set should not be empty."),
    "empty retain": ({"retain": NOTHING}, "The retain set should not be empty."),
    "empty loader": ({"retain": DataLoader(NOTHING)}, "The retain set should not be empty."),
    "iterable": (
        {"forget": Endless()},
        r"`forget` should be a map-style Dataset or a DataLoader. \(got Endless\)",
    ),
    "iterable loader": ({"forget": DataLoader(Endless())}, "`forget` should have a length."),
    "hollow loader": ({"retain": DataLoader(Hollow())}, "yield at least one batch per pass"),
    "list": ({"retain": 3}, r"`retain` should be a map-style Dataset .* \(got 3\)"),
    "no length": ({"retain": Unsized()}, "`retain` should have a length."),
    "no targets": ({"retain": Lonely()}, r"yield pairs \(inputs, targets\). \(got Tensor\)"),
    "augmented objects": (
        {"retain": Subset(Unsized(), [0, 1]), "augment": expunge.Augment()},
        "augment inside your Dataset",
    ),
    "method": ({"method": "random-lable"}, "Unknown method .* Did you mean 'random-label'?"),
    "method class": ({"method": expunge.methods.Scrub}, "`method` should be a name or a method"),
    "addon": ({"addon": "fokus"}, "Unknown add-on 'fokus'. Did you mean 'focus'?"),
    "addon object": ({"addon": 3}, "`addon` should be a name or an add-on"),
    "aggregate": ({"aggregate": "min-max"}, "Did you mean 'min-abs'?"),
    "epochs": ({"epochs": 0}, r"`epochs` should be a whole number, at least 1. \(got 0\)"),
    "half epochs": ({"epochs": 1.5}, r"`epochs` should be a whole number\. \(got 1.5\)"),
    "batch size": ({"batch_size": 0}, "`batch_size` should be a whole number, at least 1"),
    "every": ({"checkpoint_every": 0}, "`checkpoint_every` should be a whole number"),
    "lr": ({"lr": -1.0}, r"`lr` should be positive and finite. \(got -1.0\)"),
    "nan lr": ({"lr": float("nan")}, "`lr` should be positive"),
    "device": ({"device": "gpu"}, "The device gpu cannot be used here"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_refused(case: str) -> None:
    options, text = WRONG[case]
    with pytest.raises(InvalidInput, match=text):
        unlearn(**options)


@pytest.mark.parametrize("split", ["forget", "retain"])
@pytest.mark.parametrize("label", [-1, 3])
def test_labels_outside_the_classes_are_refused(split: str, label: int) -> None:
    data = TensorDataset(torch.randn(4, 4), torch.tensor([0, 1, 2, label]))
    with pytest.raises(InvalidInput, match=rf"Labels should be in 0..2, .* \(got {label}\)"):
        unlearn(**{split: data})


def test_a_model_with_nothing_to_move_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no parameter that requires a gradient"):
        unlearn(Counting().requires_grad_(False))
    with pytest.raises(InvalidInput, match="no parameter that requires a gradient"):
        unlearn(nn.Flatten())


# Overlap


# Place


# Progress


def test_a_model_of_convolutions_takes_a_dataset_item_by_item() -> None:
    class Pictures(Dataset[Any]):
        def __len__(self) -> int:
            return 5

        def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
            return torch.full((1, 5, 5), float(index)), index % 3

    unlearn(TinyConv(), forget=Pictures(), retain=Pictures())


def test_forget_batches_can_be_left_as_they_are() -> None:
    seen: dict[str, list[torch.Tensor]] = {"forget": [], "retain": []}

    @dataclass(frozen=True)
    class Watching(Method):
        def objective(self, problem: Problem, forget: Batch, retain: Batch) -> torch.Tensor:
            for batch in (forget, retain):
                seen[batch.split].append(batch.inputs.clone())
            return -problem.loss_on(forget)

    images = torch.arange(1.0, 65.0).reshape(4, 1, 4, 4)
    data = TensorDataset(images, torch.arange(4) % 2)
    for augmented in ("both", "retain", "none"):
        tiny.unlearn(
            nn.Sequential(nn.Flatten(), nn.Linear(16, 2)),
            forget=Subset(data, [0, 1]),
            retain=Subset(data, [2, 3]),
            method=Watching(),
            augment=expunge.Augment(padding=2, flip=False),
            augment_splits=augmented,
            epochs=4,
            progress=False,
        )
    crops = {name: [bool((batch == 0).any()) for batch in each] for name, each in seen.items()}
    assert any(crops["forget"][:4])
    assert not any(crops["forget"][4:])
    assert any(crops["retain"][4:8])
    assert not any(crops["retain"][8:])


class Named(nn.Module):
    """A model as in the transformers library: its input has a name, and so has its output."""

    def __init__(self, output: Any) -> None:
        super().__init__()
        self.body, self.output = TinyConv(), output

    def forward(self, pixel_values: torch.Tensor) -> Any:
        return self.output(logits=self.body(pixel_values))


@pytest.mark.parametrize("output", [dict, SimpleNamespace])
@pytest.mark.parametrize("labels", [int, torch.Tensor.int, torch.Tensor.byte])
def test_dicts_are_unlearned_as_pairs_are(output: Any, labels: Any) -> None:
    pairs = {name: list(images(8, seed)) for seed, name in enumerate(("forget", "retain", "test"))}
    dicts = {
        name: [{"pixel_values": x, "labels": labels(y)} for x, y in part]
        for name, part in pairs.items()
    }
    found = []
    for model, data in ((TinyConv(), pairs), (Named(output), dicts)):
        splits: dict[str, Any] = {"forget": data["forget"], "retain": data["retain"]}
        unlearned = unlearn(model, **splits).model
        scores = expunge.evaluate(unlearned, **splits, test=data["test"])
        found.append((bits(getattr(unlearned, "body", unlearned)), scores))
    assert same(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]


def test_an_error_of_the_model_says_what_it_was_given() -> None:
    with pytest.raises(InvalidInput, match=r"got float32 \[2, 4\].*weights are float64"):
        unlearn(Counting().double())
    with pytest.raises(InvalidInput, match=r"got a tuple of float32 \[2, 3\]"):
        unlearn(nn.Sequential(Counting(), Twice()))


class Twice(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return x, x
