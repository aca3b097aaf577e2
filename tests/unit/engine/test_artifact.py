"""A model in one file: it comes back by itself, or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

import expunge
from expunge import _tensors as tensors
from expunge._errors import DataError, InvalidInput
from expunge.engine._artifact import (
    Card,
    DataCard,
    ModelCard,
    load_artifact,
    load_card_data,
    save_artifact,
)
from expunge.engine._model_from_config import load_checked_weights
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


@pytest.mark.parametrize("name", ["model.safetensors", "model.pt"])
def test_weights_without_a_card_are_refused_with_what_to_say(tmp_path: Path, name: str) -> None:
    path = foreign(tmp_path / name)
    complaint = r"weights without a card.* --model .* and --data, or .* model\.card\.json"
    with pytest.raises(InvalidInput, match=complaint):
        load_artifact(path)
    with pytest.raises(InvalidInput, match=complaint):
        load_artifact(path, model="small-cnn")


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
    with pytest.raises(InvalidInput, match="weights without a card"):
        load_artifact(path)


def test_weights_that_do_not_fit_are_named() -> None:
    model = torch.nn.Linear(2, 3)
    wrong = {"weight": torch.zeros(3, 5), "scale": torch.zeros(1)}
    with pytest.raises(InvalidInput) as caught:
        load_checked_weights(model, wrong, "a file")
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
    load_checked_weights(model, model.state_dict(), "a file")


def foreign(path: Path, classes: int = 10) -> Path:
    """Weights that somebody else trained, without a card."""
    config = MODEL.model_dump() | {"num_classes": classes}
    state = build_model(**config, mean=[0.3], std=[0.2], seed=1).state_dict()
    if path.suffix == ".pt":
        torch.save({"state_dict": {f"module.{k}": v for k, v in state.items()}}, path)
    else:
        safetensors.torch.save_file(state, path)
    return path


@pytest.mark.parametrize("name", ["model.safetensors", "model.pt"])
def test_weights_of_any_origin_are_read_if_somebody_says_what_they_are_of(
    tmp_path: Path, name: str
) -> None:
    path = foreign(tmp_path / name)
    found = load_artifact(path, model="small-cnn,width=0.1", data="digits", stage="unlearned")
    assert found.card.model == MODEL.model_copy(update={"num_classes": 10})
    assert (found.card.stage, found.card.data.spec) == ("unlearned", "digits")
    assert torch.allclose(found.model.normalise.mean, torch.tensor(0.3))
    # Such a model was trained on all of train, so val comes out of test.
    splits = load_card_data(found.card)
    assert (len(splits.train), len(splits.val) + len(splits.test)) == (1347, 450)
    assert splits.train.fingerprint() == found.card.data.fingerprint
    with pytest.raises(InvalidInput, match="do not fit the model"):
        load_artifact(path, model="small-cnn", data="digits")
    with pytest.raises(InvalidInput, match=r"The model mlp takes vectors\. \(got images"):
        load_artifact(path, model="mlp", data="digits")


def test_a_card_beside_weights_says_what_they_are_of(tmp_path: Path) -> None:
    path = foreign(tmp_path / "mine.pt")
    card = {"model": MODEL.model_dump() | {"num_classes": 10}, "data": {"spec": "digits"}}
    card["recipe"] = {"epochs": 3}
    (tmp_path / "mine.card.json").write_text(json.dumps(card))
    found = load_artifact(path)
    assert found.card.recipe == {"epochs": 3}
    assert len(found.card.data.fingerprint) == 64
    (tmp_path / "mine.card.json").write_text("{")
    with pytest.raises(DataError, match=r"mine\.card\.json is not valid JSON"):
        load_artifact(path)


def test_code_that_a_card_names_is_not_run_unless_the_user_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "artifact_shop.py").write_text(
        "import pathlib, torch\n"
        "from torch.utils.data import TensorDataset\n"
        "pathlib.Path('trace').touch()\n"
        "def build(): return torch.nn.Linear(2, 3)\n"
        "def data():\n"
        "    make = lambda n: TensorDataset(torch.ones(n, 2), torch.arange(n) % 3)\n"
        "    return make(6), make(6)\n"
    )
    monkeypatch.chdir(tmp_path)
    path, net = tmp_path / "m.safetensors", torch.nn.Linear(2, 3)
    named = ModelCard(name="artifact_shop:build", num_classes=3, in_channels=2)
    data = DataCard(spec="artifact_shop:data", fingerprint="abc")
    save_artifact(path, net, Card(model=named, data=data))
    with pytest.raises(InvalidInput, match=r"names code.*--model artifact_shop:build"):
        load_artifact(path)
    card = Card(model=named, data=data)
    with pytest.raises(InvalidInput, match=r"names code.*--data artifact_shop:data"):
        load_card_data(card)
    assert not (tmp_path / "trace").exists()
    found = load_artifact(path, model="artifact_shop:build")
    assert same(bits(found.model), bits(net))
    with pytest.raises(DataError, match="fingerprint differs"):
        load_card_data(card, "artifact_shop:data")
    with pytest.raises(InvalidInput, match=r"holds a artifact_shop:build, as its card says"):
        load_artifact(path, model="mlp")
    # Nor are options of the card passed to a function that was named without them.
    save_artifact(path, net, Card(model=named.model_copy(update={"options": {"x": 1}}), data=data))
    with pytest.raises(InvalidInput, match=r"passes other options .*--model artifact_shop:build,x"):
        load_artifact(path, model="artifact_shop:build")


@pytest.mark.parametrize(
    ("model", "data", "code"),
    [
        ("hf:/nowhere", "digits", "the library transformers"),
        ("small-cnn", "hf:somebody/something", "the library datasets"),
        ("small-cnn", "npz://elsewhere/x.npz", "a file of another computer"),
    ],
)
def test_neither_another_library_nor_the_network_is_used_because_a_card_says_so(
    tmp_path: Path, model: str, data: str, code: str
) -> None:
    path = tmp_path / "m.safetensors"
    named = MODEL.model_copy(update={"name": model})
    save_artifact(path, built(), Card(model=named, data=DataCard(spec=data)))
    with pytest.raises(InvalidInput, match=f"names code, {code}.*, which was not imported"):
        load_artifact(path)
    card = Card(model=MODEL, data=DataCard(spec="cifar10"))
    with pytest.raises(DataError, match="nothing is downloaded because a file names it"):
        load_card_data(card)


def test_options_of_a_model_are_in_its_card_where_there_are_any(tmp_path: Path) -> None:
    assert "options" not in MODEL.model_dump()
    config = {"name": "vgg16", "num_classes": 3, "in_channels": 1, "width": 0.05}
    named = ModelCard(**config, options={"dropout": 0.25})
    path = tmp_path / "m.safetensors"
    save_artifact(path, build_model(**config), CARD.model_copy(update={"model": named}))
    assert load_artifact(path).model.body.classifier[2].p == 0.25
    reserved = named.model_copy(update={"options": {"seed": 3}})
    save_artifact(path, build_model(**config), CARD.model_copy(update={"model": reserved}))
    with pytest.raises(InvalidInput, match="`seed` is not an option of the model vgg16"):
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
