"""What cannot be used is refused before the first step, by name and with a remedy."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

import expunge
from expunge import Callback, ImageSet, InvalidInput
from expunge.engine import Run
from expunge.engine._device import pick_device
from expunge.engine._overlap_check import check_disjoint
from expunge.engine._progress import ProgressBar
from tests.tiny import Counting, TinyConv, bits, points, same

FORGET, RETAIN = points(6), points(8, seed=1)


def unlearn(model: nn.Module | None = None, **options: Any) -> expunge.Result:
    chosen: dict[str, Any] = {"forget": FORGET, "retain": RETAIN, "epochs": 1, "batch_size": 2}
    return expunge.unlearn(model or Counting(), **chosen | options)


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
    "list": ({"retain": 3}, r"`retain` should be a map-style Dataset .* \(got int\)"),
    "no length": ({"retain": Unsized()}, "`retain` should have a length."),
    "no targets": ({"retain": Lonely()}, r"yield pairs \(inputs, targets\). \(got Tensor\)"),
    "augmented objects": (
        {"retain": Subset(Unsized(), [0, 1]), "augment": expunge.Augment()},
        "augment inside your Dataset",
    ),
    "method": ({"method": "random-lable"}, "Unknown method .* Did you mean 'random-label'?"),
    "method class": ({"method": expunge.Scrub}, "`method` should be a name or a method"),
    "addon": ({"addon": "fokus"}, "Unknown add-on 'fokus'. Did you mean 'focus'?"),
    "addon object": ({"addon": 3}, "`addon` should be a name or an add-on"),
    "aggregate": ({"aggregate": "min-max"}, "Did you mean 'min-abs'?"),
    "epochs": ({"epochs": 0}, r"`epochs` should be a whole number, at least 1. \(got 0\)"),
    "half epochs": ({"epochs": 1.5}, r"`epochs` should be a whole number, .* \(got 1.5\)"),
    "batch size": ({"batch_size": 0}, "`batch_size` should be a whole number, at least 1"),
    "every": ({"checkpoint_every": 0}, "`checkpoint_every` should be a whole number"),
    "lr": ({"lr": -1.0}, r"`lr` should be positive. \(got -1.0\)"),
    "nan lr": ({"lr": float("nan")}, "`lr` should be positive"),
    "device": ({"device": "gpu"}, "The device gpu cannot be used here"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_refused(case: str) -> None:
    options, text = WRONG[case]
    with pytest.raises(InvalidInput, match=text):
        unlearn(**options)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidInput, match="The device cuda cannot be used here"):
        unlearn(device="cuda")


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


def image_set(count: int, start: int = 0, names: str | None = None) -> ImageSet:
    """Images told apart by their first pixels."""
    pixels = torch.zeros(count, 1, 2, 2, dtype=torch.uint8)
    pixels[:, 0, 0, 0] = torch.arange(start, start + count).to(torch.uint8)
    labels = torch.arange(start, start + count) % 3
    called = None if names is None else [f"{names}{k}" for k in range(start, start + count)]
    return ImageSet(pixels, labels, ["a", "b", "c"], called)


def test_subsets_that_share_an_index_are_refused() -> None:
    data = points(10)
    with pytest.raises(InvalidInput, match=r"should not overlap.*\(2 shared ids, such as 3, 4\)"):
        unlearn(forget=Subset(data, [3, 1, 4]), retain=Subset(data, [4, 5, 3]))
    loaders = [DataLoader(Subset(data, ids), batch_size=2) for ids in ([0, 1], [1, 2])]
    with pytest.raises(InvalidInput, match=r"1 shared ids, such as 1"):
        unlearn(forget=loaders[0], retain=loaders[1])


def test_one_dataset_for_both_is_refused() -> None:
    data = points(10)
    with pytest.raises(InvalidInput, match="one dataset for both"):
        unlearn(forget=data, retain=data)


def test_samplers_may_divide_one_dataset() -> None:
    data = points(10)
    samplers = [torch.utils.data.SubsetRandomSampler(ids) for ids in ([0, 1], [2, 3, 4])]
    forget, retain = (DataLoader(data, batch_size=2, sampler=sampler) for sampler in samplers)
    unlearn(forget=forget, retain=retain)


def test_one_image_of_the_same_name_and_content_is_refused() -> None:
    forget, retain = image_set(20, names="n"), image_set(20, start=19, names="n")
    with pytest.raises(InvalidInput, match=r"\(1 shared images, such as n19\)"):
        check_disjoint(forget, retain)


def test_equal_names_of_other_images_are_no_overlap() -> None:
    retain = image_set(20, start=100)
    named = ImageSet(retain.images, retain.labels, retain.classes, [f"n{k}" for k in range(20)])
    check_disjoint(image_set(20, names="n"), named)


@pytest.mark.parametrize(("shared", "refused"), [(4, False), (5, True), (10, True)])
def test_equal_images_are_refused_from_half_of_the_forget_set(shared: int, refused: bool) -> None:
    forget, retain = image_set(10), image_set(50, start=10 - shared)
    if not refused:
        check_disjoint(forget, retain)
        return
    with pytest.raises(InvalidInput, match=rf"\({shared} of 10 forget images are in retain too"):
        check_disjoint(forget, retain)


def test_equal_pixels_under_another_label_are_no_overlap() -> None:
    forget = image_set(6)
    relabelled = ImageSet(forget.images, (forget.labels + 1) % 3, forget.classes)
    check_disjoint(forget, relabelled)


def test_overlap_is_seen_through_subsets_and_loaders_of_image_sets() -> None:
    with pytest.raises(InvalidInput, match="2 of 2 forget images are in retain too"):
        check_disjoint(
            DataLoader(Subset(image_set(10), [3, 4])), DataLoader(image_set(10), shuffle=True)
        )


# Place


def test_auto_stays_on_the_cpu_where_there_is_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    assert pick_device("auto", Counting()) == torch.device("cpu")
    assert pick_device("auto", nn.Flatten()) == torch.device("cpu")


def test_auto_takes_an_accelerator_if_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    found = torch.device("cuda", 1)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: found)
    assert pick_device("auto", Counting()) == found
    assert pick_device("cpu", Counting()) == torch.device("cpu")


# Progress


class Say(Callback):
    def on_step(self, run: Run) -> None:
        pass


def test_progress_is_silent_where_nobody_watches(capfd: pytest.CaptureFixture[str]) -> None:
    unlearn()
    assert capfd.readouterr() == ("", "")


def test_progress_shows_method_epoch_and_losses_on_a_terminal() -> None:
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=120)
    bar = ProgressBar("SRL-FOCUS", console=console, every=1)
    watched = unlearn(progress=False, epochs=2, callbacks=[bar])
    shown = text.getvalue()
    assert "SRL-FOCUS  epoch 2/2" in shown
    assert "6/6" in shown
    assert "steps/s" in shown
    assert " U " in shown or "U " in shown
    assert same(bits(watched.model), bits(unlearn(epochs=2).model))


def test_progress_ends_with_a_run_that_fails() -> None:
    bar = ProgressBar("x", console=Console(file=io.StringIO(), force_terminal=True))
    with pytest.raises(InvalidInput):
        unlearn(
            retain=TensorDataset(torch.zeros(2, 4), torch.tensor([0, 9])),
            callbacks=[bar],
            progress=False,
        )
    assert bar._progress is None


def test_a_model_of_convolutions_takes_a_dataset_item_by_item() -> None:
    class Pictures(Dataset[Any]):
        def __len__(self) -> int:
            return 5

        def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
            return torch.full((1, 5, 5), float(index)), index % 3

    unlearn(TinyConv(), forget=Pictures(), retain=Pictures())
