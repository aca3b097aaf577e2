"""A model in one file: it comes back by itself, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

import expunge
from expunge import _tensors as tensors
from expunge._errors import DataError, InvalidInput
from expunge.engine._artifact import Card, DataCard, ModelCard, load_artifact, save_artifact
from expunge.engine._model_from_config import fit_weights
from expunge.models import build_model
from tests.tiny import bits, same

MODEL = ModelCard(name="small-cnn", num_classes=4, in_channels=1, width=0.1)
CARD = Card(
    stage="initial",
    model=MODEL,
    data=DataCard(spec="digits", fingerprint="abc"),
    epochs=[{"epoch": 1, "objective": 0.5, "constraint": float("nan")}],
)


def built() -> torch.nn.Module:
    return build_model(**MODEL.model_dump(), mean=[0.3], std=[0.2], seed=1)


def test_a_model_comes_back_with_its_card(tmp_path: Path) -> None:
    path, model = tmp_path / "model.safetensors", built()
    save_artifact(path, model, CARD)
    found = load_artifact(path)
    assert same(bits(found.model), bits(model))
    assert not found.model.training
    assert found.card.model == MODEL
    assert found.card.epochs[0]["objective"] == 0.5
    assert found.card.versions["expunge"] == expunge.__version__
    assert found.card.versions["torch"] == torch.__version__
    x = torch.rand(2, 1, 8, 8)
    assert torch.equal(found.model(x), model.eval()(x))


def test_weights_without_a_card_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    safetensors.torch.save_file(built().state_dict(), path)
    with pytest.raises(DataError, match="weights without a card"):
        load_artifact(path)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"stage": "final"}, "stage"),
        ({"model": {"name": "small-cnn"}}, "model.num_classes"),
        ({"surprise": 1}, "surprise"),
        ({"recipe": {"surprise": 1}}, "recipe: .*surprise"),
        ({"recipe": {"epochs": "many"}}, "recipe: .*`epochs` should be a whole number"),
    ],
)
def test_a_damaged_card_is_refused_by_field(
    change: dict[str, Any], where: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.safetensors"
    tensors.save(path, built().state_dict(), CARD.model_dump(mode="json") | change)
    with pytest.raises(DataError, match=f"card of .* is damaged: {where}"):
        load_artifact(path)


def test_a_checkpoint_is_not_taken_for_a_model(tmp_path: Path) -> None:
    path = tmp_path / "run"
    tensors.save(path, {}, {"version": 1, "fingerprint": {}, "tree": {}})
    with pytest.raises(DataError, match="is damaged"):
        load_artifact(path)


def test_weights_that_do_not_fit_are_named() -> None:
    model = torch.nn.Linear(2, 3)
    wrong = {"weight": torch.zeros(3, 5), "scale": torch.zeros(1)}
    with pytest.raises(InvalidInput) as caught:
        fit_weights(model, wrong, "a file")
    assert str(caught.value) == (
        "The weights in a file do not fit the model: missing bias; unexpected scale; "
        "weight is (3, 5), not (3, 2)."
    )


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
@pytest.mark.parametrize("name", ["normalise.std", "body.head.bias"])
def test_weights_that_are_not_finite_are_refused(tmp_path: Path, name: str, value: float) -> None:
    path = tmp_path / "model.safetensors"
    state = built().state_dict()
    assert name in state
    state[name] = torch.full_like(state[name], value)
    tensors.save(path, state, CARD.model_dump(mode="json"))
    with pytest.raises(InvalidInput, match=f"should be finite. .got NaN or infinity in {name}"):
        load_artifact(path)


def test_infinities_that_belong_to_a_model_are_fine() -> None:
    model = torch.nn.Linear(2, 3)
    model.register_buffer("mask", torch.tensor(float("-inf")))
    fit_weights(model, model.state_dict(), "a file")


def test_a_torch_file_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "initial.pt"
    torch.save(built().state_dict(), path)
    with pytest.raises(InvalidInput, match="expunge forget --weights FILE --model"):
        load_artifact(path)


def test_weights_of_another_width_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    wide = CARD.model_copy(update={"model": MODEL.model_copy(update={"width": 0.5})})
    save_artifact(path, built(), wide)
    with pytest.raises(InvalidInput, match="do not fit the model"):
        load_artifact(path)


def test_an_unknown_model_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    other = CARD.model_copy(update={"model": MODEL.model_copy(update={"name": "small-cmm"})})
    save_artifact(path, built(), other)
    with pytest.raises(InvalidInput, match="Did you mean 'small-cnn'"):
        load_artifact(path)
