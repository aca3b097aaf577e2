"""Arguments of the wrong kind are errors that name the remedy, before anything is run."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

import expunge
from expunge import InvalidInput
from tests import tiny
from tests.tiny import CLASSES, Counting, TinyConv, points

FORGET, RETAIN = points(6), points(8, seed=1)
SGD = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
STEP = torch.optim.lr_scheduler.StepLR


def unlearn(model: Any = None, **options: Any) -> expunge.Result:
    chosen: dict[str, Any] = {"forget": FORGET, "retain": RETAIN, "epochs": 1, "batch_size": 3}
    return tiny.unlearn(Counting() if model is None else model, **chosen | options)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"model": "net"}, r"`model` should be a torch.nn.Module\. \(got 'net'\)"),
        ({"model": Counting}, r"\(got Counting\) Call it: Counting\(\)"),
        ({"forget": None}, r"`forget` should be a map-style .*\(got None\)"),
        ({"unseen": 5}, r"`unseen` should be a map-style .*\(got 5\)"),
        ({"optimizer": SGD}, r"`optimizer` should be a class .*lambda params.*\(got SGD\)"),
        (
            {"optimizer": lambda: 5},
            r"function of the parameters alone\. \(<lambda>: ",
        ),
        ({"schedule": STEP(SGD, 1)}, r"`schedule` should be one of step, constant, .*StepLR"),
        ({"loss": "mse"}, r"`loss` should be a function that maps .*\(got 'mse'\)"),
        ({"augment": 5}, r"`augment` should be an Augment, or None\. \(got 5\)"),
        ({"callbacks": expunge.Callback()}, r"`callbacks` should be a list\. \(got Callback\)"),
        ({"callbacks": [5]}, r"Each of `callbacks` should be a Callback\. \(got 5\)"),
        ({"checkpoint": 5}, r"`checkpoint` should be a path, or None\. \(got 5\)"),
        ({"lr": "1"}, r"`lr` should be a number\. \(got '1'\)"),
        ({"epochs": True}, r"`epochs` should be a whole number\. \(got True\)"),
        ({"strict": "no"}, r"`strict` should be True or False\. \(got 'no'\)"),
        ({"seed": 2**70}, r"`seed` should be a whole number in 0\.\.2\*\*63-1\. \(got 1180591"),
        ({"seed": "a"}, r"`seed` should be a whole number\. \(got 'a'\)"),
        ({"aggregate": "upgrad"}, r"Known: .*torchjd:NAME"),
    ],
)
def test_what_cannot_be_used_is_refused(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        unlearn(**options)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: expunge.Prob(p="0.3"), "p"),
        (lambda: expunge.Focus(eps="a"), "eps"),
        (lambda: expunge.WeightedSum("1", "2"), "alpha"),
        (lambda: expunge.methods.Scrub(gamma="a"), "gamma"),
        (lambda: expunge.methods.RandomLabel(num_classes="a"), "num_classes"),
        (lambda: expunge.update.AdamMoments(decay="a"), "decay"),
        (lambda: expunge.Recipe(epochs="3"), "epochs"),
        (lambda: expunge.Augment(padding="3"), "padding"),
    ],
)
def test_numbers_of_a_part_should_be_numbers(make: Any, name: str) -> None:
    kinds = r"(a (whole )?number(, at least 2, or None)?|positive and finite or \"relative\")"
    complaint = rf"`{name}` should be {kinds}\. \(got '"
    with pytest.raises(InvalidInput, match=complaint):
        make()


def test_bytes_for_a_model_of_floats_are_refused() -> None:
    data = [
        TensorDataset(
            torch.randint(0, 255, (6, 1, 5, 5), dtype=torch.uint8), torch.arange(6) % CLASSES
        )
        for _ in range(2)
    ]
    with pytest.raises(InvalidInput, match=r"got uint8.*Scale them to floats"):
        unlearn(TinyConv(), forget=data[0], retain=data[1])


def targets_of(kind: str) -> list[TensorDataset]:
    """Two sets of vectors with targets of another kind than class numbers."""
    made = []
    for seed in (0, 1):
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(8, 4, generator=generator)
        hot = torch.randint(0, 2, (8, CLASSES), generator=generator).float()
        kinds = {"number": x[:, :1], "hot": hot, "soft": torch.softmax(x[:, :CLASSES], dim=1)}
        made.append(TensorDataset(x, kinds[kind]))
    return made


@pytest.mark.parametrize(
    ("kind", "method", "loss", "complaint"),
    [
        ("number", "scrub", F.mse_loss, r"SCRUB compares .* two or more classes\. \(got 1 output"),
        ("hot", "scrub", F.binary_cross_entropy_with_logits, r"SCRUB takes .* that sum to"),
        ("hot", "neg-grad-plus", F.cross_entropy, r"cross_entropy takes class numbers.*binary_"),
        ("number", "neg-grad-plus", F.cross_entropy, r"cross_entropy compares .*mse_loss"),
    ],
)
def test_targets_that_do_not_go_with_the_loss_are_refused(
    kind: str, method: str, loss: Any, complaint: str
) -> None:
    forget, retain = targets_of(kind)
    model = Counting(classes=1 if kind == "number" else CLASSES)
    with pytest.raises(InvalidInput, match=complaint):
        unlearn(model, forget=forget, retain=retain, method=method, loss=loss)


@pytest.mark.parametrize(
    ("kind", "method", "loss"),
    [
        ("number", "neg-grad-plus", F.mse_loss),
        ("hot", "neg-grad-plus", F.binary_cross_entropy_with_logits),
        ("soft", "neg-grad-plus", F.cross_entropy),
        ("soft", "scrub", F.cross_entropy),
    ],
)
def test_targets_that_go_with_the_loss_are_taken(kind: str, method: str, loss: Any) -> None:
    forget, retain = targets_of(kind)
    model = Counting(classes=1 if kind == "number" else CLASSES)
    unlearn(model, forget=forget, retain=retain, method=method, loss=loss)


def test_evaluate_refuses_what_is_no_data() -> None:
    with pytest.raises(InvalidInput, match=r"`forget` should be a map-style"):
        expunge.evaluate(Counting(), forget=None, retain=RETAIN, test=points(4, seed=2))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"`model` should be a torch.nn.Module"):
        expunge.evaluate("net", forget=FORGET, retain=RETAIN, test=points(4, seed=2))  # type: ignore[arg-type]
