from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from expunge import _tensors as tensors
from expunge._errors import DataError, InvalidInput
from expunge.data import load
from expunge.engine import Recipe
from expunge.engine._artifact import load_artifact, save_artifact
from expunge.evaluation import predict
from expunge.evaluation._file_jobs import train_initial
from expunge.models import build_model
from expunge.request._job import InputForm
from expunge.request._job_file import load_job
from expunge.request._run import forget
from expunge.request._verify import verify
from expunge.request.loading._load import (
    InputHook,
    choose_form,
    load_model_and_data,
    model_and_data_of,
)
from tests.unit.request.jobs import weights_digest
from tests.unit.request.worlds import Net, Viewing, bytes_of, fitted, floats, images, job_of

FACTORIES = """
from tests.unit.request.worlds import Net, Viewing, bytes_of, floats
def net(classes=4): return Net(classes)
def no_net(): return "net"
def data(): return floats(80, 1), floats(20, 2), floats(20, 3)
def pictures(): return bytes_of(80, 1), bytes_of(20, 2), bytes_of(20, 3)
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A folder with a user's own model and data."""
    (tmp_path / "inputs_own.py").write_text(FACTORIES)
    monkeypatch.chdir(tmp_path)
    torch.save(fitted(floats(80, 1)).state_dict(), tmp_path / "w.pt")
    return tmp_path


def ask(folder, **values):
    return job_of(folder, **({"model": "inputs_own:net", "data": "inputs_own:data"} | values))


@pytest.fixture(scope="module")
def artifact(tmp_path_factory):
    path = tmp_path_factory.mktemp("digits") / "initial.safetensors"
    recipe = Recipe(epochs=1, batch_size=64, lr=0.05)
    train_initial("digits", path, model="small-cnn", width=0.125, recipe=recipe, limit=200)
    return path


def test_a_users_own_model_and_data_are_loaded(own):
    loaded = load_model_and_data(ask(own))
    assert not loaded.model.training
    assert (len(loaded.train), len(loaded.val), len(loaded.test)) == (80, 20, 20)
    assert loaded.classes == ("ant", "bee", "cat", "dog")
    assert loaded.card is None
    state = torch.load(own / "w.pt", weights_only=True)
    tensors.save(own / "same.safetensors", state, {"another": "file"})
    same = load_model_and_data(ask(own, weights=own / "same.safetensors"))
    again = loaded.with_weights(own / "same.safetensors")
    assert loaded.weights_digest == same.weights_digest == again.weights_digest
    assert loaded.weights_digest == weights_digest(own / "same.safetensors")
    prints = [part.fingerprint() for part in (loaded.train, loaded.val, loaded.test)]
    assert loaded.data_digest == hashlib.sha256("/".join(prints).encode()).hexdigest()
    said = predict(loaded.model, loaded.train)
    assert (said.classes == said.labels).float().mean() > 0.9


def test_build_makes_a_fresh_model_of_the_same_shape(own):
    loaded = load_model_and_data(ask(own))
    fresh = loaded.build()
    assert fresh is not loaded.model
    assert not torch.equal(fresh.last.weight, loaded.model.last.weight)
    fresh.load_state_dict(loaded.model.state_dict())


def test_other_weights_can_be_put_in(own):
    other = fitted(floats(80, 1), steps=3)
    tensors.save(own / "other.safetensors", other.state_dict(), {"anything": 1})
    loaded = load_model_and_data(ask(own))
    changed = loaded.with_weights(own / "other.safetensors")
    assert torch.equal(changed.model.last.weight, other.last.weight)
    assert changed.weights_digest != loaded.weights_digest
    assert changed.data_digest == loaded.data_digest
    assert not torch.equal(loaded.model.last.weight, other.last.weight)


def test_images_go_as_fractions_to_a_model_that_takes_floats_only(own):
    (own / "conv.py").write_text(
        "from torch import nn\n"
        "def net(): return nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(32, 4))\n"
    )
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(32, 4))
    torch.save(net.state_dict(), own / "w.pt")
    loaded = load_model_and_data(ask(own, model="conv:net", data="inputs_own:pictures"))
    with torch.no_grad():
        expected = net(bytes_of(80, 1).images.float() / 255)
    torch.testing.assert_close(predict(loaded.model, loaded.train).logits, expected)


def test_a_model_that_flattens_with_view_can_be_evaluated(tmp_path):
    x, y = images(40, 1, channels=3)
    pairs = torch.utils.data.TensorDataset(torch.from_numpy(x).float() / 255, torch.from_numpy(y))
    model = Viewing().eval()
    loaded = model_and_data_of(model, (pairs, pairs, pairs), job_of(tmp_path))
    with torch.no_grad():
        plain = model(pairs.tensors[0])
    torch.testing.assert_close(predict(loaded.model, loaded.train).logits, plain)


@pytest.mark.parametrize(
    ("values", "error", "complaint"),
    [
        ({"model": "inputs_own:nets"}, InvalidInput, "has no 'nets'"),
        ({"model": "inputs_own:no_net"}, InvalidInput, r"return a torch\.nn\.Module\. \(got str\)"),
        ({"model": ""}, InvalidInput, r"`model` should be given: .*w\.pt has no card"),
        ({"model": "resnet19"}, InvalidInput, "Unknown model 'resnet19'. Did you mean 'resnet18'"),
        ({"model": "a b:c"}, InvalidInput, r"Unknown model 'a b:c'\. Known: .*module:factory"),
        ({"model": "small-cnn"}, InvalidInput, r"do not fit the model: missing body\."),
        (
            {"model_options": {"classes": 5}},
            InvalidInput,
            r"last\.weight is \(4, 12\), not \(5, 12",
        ),
        ({"model_options": {"depth": 5}}, InvalidInput, r"TypeError: .*'depth'"),
        (
            {"data": "digits"},
            InvalidInput,
            r"cannot take the data, torch\.uint8 of shape \[1, 8, 8",
        ),
        ({"data": "npz:none.npz"}, DataError, r"no file or folder none\.npz"),
    ],
)
def test_what_does_not_fit_is_explained(own, values, error, complaint):
    with pytest.raises(error, match=complaint):
        load_model_and_data(ask(own, **values))


def test_too_few_outputs_for_the_labels_are_refused(own):
    torch.save(Net(3).state_dict(), own / "w.pt")
    with pytest.raises(DataError, match=r"in 0\.\.2: the model has 3 outputs\. \(got 3 in train\)"):
        load_model_and_data(ask(own, model_options={"classes": 3}))


def test_more_outputs_than_classes_get_names(own):
    torch.save(Net(6).state_dict(), own / "w.pt")
    loaded = load_model_and_data(ask(own, model_options={"classes": 6}))
    assert loaded.classes == ("ant", "bee", "cat", "dog", "4", "5")


def test_weights_of_nan_are_refused(own):
    state = fitted(floats(80, 1)).state_dict()
    state["last.bias"][0] = torch.nan
    torch.save(state, own / "w.pt")
    with pytest.raises(InvalidInput, match=r"should be finite\. \(got NaN .* in last\.bias"):
        load_model_and_data(ask(own))
    model = fitted(floats(80, 1))
    model.load_state_dict(state)
    with pytest.raises(InvalidInput, match="NaN or infinity on its training data"):
        model_and_data_of(model, (floats(40, 1), floats(20, 2)), job_of(own))


@pytest.mark.parametrize("model", [nn.Flatten(0), nn.Identity(), 3])
def test_a_model_that_gives_no_logits_is_refused(tmp_path, model):
    with pytest.raises(
        InvalidInput, match=r"should (return logits \[N, K\]|be a torch\.nn\.Module)"
    ):
        model_and_data_of(model, (floats(40, 1), floats(20, 2)), job_of(tmp_path))


def test_an_artifact_needs_neither_model_nor_data(artifact, tmp_path):
    loaded = load_model_and_data(job_of(tmp_path, weights=artifact))
    assert loaded.card is not None
    assert len(loaded.train) == 200
    assert len(load_model_and_data(job_of(tmp_path, weights=artifact, data="digits")).val) == 135
    assert (
        load_model_and_data(job_of(tmp_path, weights=artifact, model="Small-CNN")).card is not None
    )


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        (
            {"model": "resnet18"},
            r"holds a small-cnn, as its card says\. \(got the model 'resnet18'\)",
        ),
        ({"model": "some.module:net"}, r"holds a small-cnn"),
        ({"model_options": {"width": 1.0}}, r"with width 0\.125, as its card says\. \(got 1\.0\)"),
        ({"data_limit": 100}, r"`data_limit` should be 200.*\(got 100\) Leave it out"),
        ({"data_seed": 3}, r"`data_seed` should be 0"),
    ],
)
def test_what_contradicts_the_card_is_refused(artifact, tmp_path, values, complaint):
    with pytest.raises(InvalidInput, match=complaint):
        load_model_and_data(job_of(tmp_path, weights=artifact, **values))


def test_other_data_than_the_cards_are_refused(artifact, tmp_path):
    x, y = images(80, 1)
    np.savez(tmp_path / "other.npz", x=x, y=y)
    with pytest.raises(DataError, match="their fingerprint differs"):
        load_model_and_data(job_of(tmp_path, weights=artifact, data=f"npz:{tmp_path}/other.npz"))


@pytest.mark.parametrize("limit", [None, 40])
def test_data_of_a_factory_are_divided_as_for_training(own, limit):
    (own / "inputs_pair.py").write_text(
        "from tests.unit.request.worlds import bytes_of\n"
        "def pair(): return bytes_of(80, 1), bytes_of(40, 2)\n"
    )
    path, recipe = own / "trained.safetensors", Recipe(epochs=1, batch_size=64)
    model = {"model": "small-cnn", "width": 0.125}
    trained = train_initial("inputs_pair:pair", path, **model, recipe=recipe, limit=limit)
    loaded = load_model_and_data(job_of(own, weights=path, data="inputs_pair:pair"))
    assert loaded.train.fingerprint() == trained.card.data.fingerprint
    assert (len(loaded.train), len(loaded.val), len(loaded.test)) == (limit or 72, 8, 40)


def test_a_card_with_a_data_factory_is_checked_too(artifact, own):
    with pytest.raises(DataError, match=r"at inputs_own:data are not those.*fingerprint differs"):
        load_model_and_data(job_of(own, weights=artifact, data="inputs_own:data"))


def test_a_damaged_card_is_refused(artifact, tmp_path):
    found = load_artifact(artifact)
    bad = tmp_path / "bad.safetensors"
    tensors.save(bad, found.model.state_dict(), {"stage": "final"})
    with pytest.raises(DataError, match=r"card of .* is damaged: stage"):
        load_model_and_data(job_of(tmp_path, weights=bad))
    save_artifact(tmp_path / "good.safetensors", found.model, found.card)
    load_model_and_data(job_of(tmp_path, weights=tmp_path / "good.safetensors"))


def test_a_built_in_model_without_a_card_takes_its_sizes_from_the_data(tmp_path):
    splits = load("digits")
    net = build_model("small-cnn", in_channels=1, width=0.125, seed=0)
    torch.save(net.state_dict(), tmp_path / "w.pt")
    job = job_of(tmp_path, model="small-cnn", model_options={"width": 0.125}, data="digits")
    loaded = load_model_and_data(job)
    assert len(loaded.train) == len(splits.train) + len(splits.val)


def test_a_model_of_other_columns_is_told_how_a_table_is_encoded(tmp_path, monkeypatch):
    rows = "".join(
        f"{k}.5,{k % 7},{'red' if k % 2 else 'blue'},{k % 2},{'train' if k < 40 else split}\n"
        for k, split in zip(range(60), ["val", "test"] * 30, strict=True)
    )
    (tmp_path / "t.csv").write_text(f"size,age,colour,y,split\n{rows}")
    torch.save(torch.nn.Linear(3, 2).state_dict(), tmp_path / "w.pt")
    (tmp_path / "tables_own.py").write_text("import torch\ndef net(): return torch.nn.Linear(3, 2)")
    monkeypatch.chdir(tmp_path)
    job = job_of(tmp_path, model="tables_own:net", data="csv:t.csv,label=y")
    with pytest.raises(InvalidInput, match=r"float32 of shape \[5\]") as caught:
        load_model_and_data(job)
    told = str(caught.value)
    assert "2 numbers, not standardised, and 3 one-hot columns" in told
    assert '`data = "module:function"`' in told


# How a model that is not built in gets images.

MEAN, STD = 0.4, 0.2


class Watching(Net):
    """Keeps what it was given last; prepares nothing."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.given = x
        return super().forward(x)


class Normalising(Net):
    """Normalises by itself, as many do, and does not fail on bytes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward((x - MEAN) / STD)


class OfBytes(Net):
    """Was trained on numbers from 0 to 255, and answers to no others."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.exp(-self.first(x.flatten(1) / 64).square()))


@pytest.mark.parametrize(
    ("form", "prepare"),
    [
        ("bytes", lambda x: x.float()),
        ("fractions", lambda x: x.float() / 255),
        ("standardised", lambda x: (x / 255 - (x / 255).mean()) / (x / 255).std(correction=0)),
    ],
)
def test_bytes_and_fractions_become_the_form_that_was_asked_for(
    form: InputForm, prepare: Any, tmp_path: Path
) -> None:
    data = bytes_of(40, 1)
    job = job_of(tmp_path, inputs=form)
    loaded = model_and_data_of(Watching().eval(), (data, bytes_of(20, 2), bytes_of(20, 3)), job)
    assert loaded.input_form == form
    assert loaded.train.inputs.dtype == torch.uint8, "the data stay as they are"
    for given in (data.inputs, data.inputs.float() / 255):
        for model in (loaded.model, loaded.build()):
            model(given)
            assert isinstance(model.given, torch.Tensor)
            torch.testing.assert_close(model.given, prepare(data.inputs), rtol=1e-4, atol=1e-4)


def test_a_model_that_is_not_built_in_gets_fractions(tmp_path: Path) -> None:
    data = bytes_of(40, 1), bytes_of(20, 2), bytes_of(20, 3)
    loaded = model_and_data_of(Normalising().eval(), data, job_of(tmp_path))
    assert loaded.input_form == "fractions"
    assert loaded.notes == ("The model gets the images as fractions in [0, 1].",)
    again = model_and_data_of(loaded.with_inputs("bytes").model, data, job_of(tmp_path))
    assert again.input_form == "bytes", "a model keeps the form of an earlier request"
    (hook,) = [h for h in again.model._forward_pre_hooks.values() if isinstance(h, InputHook)]
    assert hook.form == "bytes"


@pytest.mark.parametrize(
    ("model", "data", "complaint"),
    [
        (build_model("small-cnn", in_channels=1, width=0.1), bytes_of(4, 1), "built-in models"),
        (Net(), floats(4, 1), "these are tensors, not images as bytes"),
    ],
)
def test_what_has_no_form_takes_none(model: nn.Module, data: Any, complaint: str) -> None:
    assert choose_form(model, data, None) is None
    with pytest.raises(InvalidInput, match=rf"{complaint}.*\(got 'bytes'\)"):
        choose_form(model, data, "bytes")


def request(model: nn.Module, out: Path, ids: list[int], **settings: Any) -> Any:
    data = bytes_of(240, 1), bytes_of(60, 2), bytes_of(80, 3)
    options = {"method": "SRL", "max_epochs": 1, "progress": False} | settings
    return forget(model=model, data=data, ids=ids, out=out, **options)


@pytest.fixture(scope="module")
def of_bytes() -> nn.Module:
    data = floats(240, 1)
    data.inputs *= 255
    return fitted(data, OfBytes(), steps=200)


def test_a_model_that_normalises_by_itself_fits(tmp_path: Path) -> None:
    model = fitted(floats(240, 1), Normalising())
    outcome = request(model, tmp_path, [1, 2, 3], dry_run=True)
    assert outcome.preflight.fits
    assert outcome.preflight.findings.fit.accuracy["train"].value > 90


def test_a_form_that_helps_is_named_and_kept_by_later_requests(
    tmp_path: Path, of_bytes: nn.Module
) -> None:
    with pytest.raises(DataError, match=r"inputs as floats in \[0, 255\].*\(--inputs bytes\)"):
        request(of_bytes, tmp_path, [1, 2, 3])
    first = request(of_bytes, tmp_path, [1, 2, 3], inputs="bytes")
    assert first.evidence.config["inputs"] == "bytes"
    assert first.evidence.metric("ta").before.value > 80
    second = request(of_bytes, tmp_path, [7, 8])
    assert second.evidence.config["inputs"] == "bytes", "as in the request before"
    data = bytes_of(240, 1), bytes_of(60, 2), bytes_of(80, 3)
    assert all(each.ok for each in verify(tmp_path, model=of_bytes, data=data))


def test_a_form_that_does_not_fit_is_reported(tmp_path: Path, of_bytes: nn.Module) -> None:
    outcome = request(of_bytes, tmp_path, [1, 2, 3], inputs="fractions", dry_run=True)
    assert not outcome.preflight.fits
    assert "(--inputs bytes)" in outcome.preflight.findings.warnings[0]


def test_the_form_is_in_the_job_of_the_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_bytes: nn.Module
) -> None:
    (tmp_path / "own_inputs.py").write_text(
        "from tests.unit.request.loading.test_load import OfBytes, bytes_of\n"
        "net = OfBytes\n"
        "def data(): return bytes_of(240, 1), bytes_of(60, 2), bytes_of(80, 3)\n"
    )
    monkeypatch.chdir(tmp_path)
    torch.save(of_bytes.state_dict(), tmp_path / "w.pt")
    forget(
        model="own_inputs:net",
        data="own_inputs:data",
        weights="w.pt",
        ids=[1, 2, 3],
        inputs="bytes",
        out="out",
        method="SRL",
        max_epochs=1,
        progress=False,
    )
    assert load_job("out/0001/job.toml").inputs == "bytes"
