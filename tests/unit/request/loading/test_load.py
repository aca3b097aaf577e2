from __future__ import annotations

import hashlib

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
from expunge.ledger._ledger import weights_digest
from expunge.models import build_model
from expunge.request.loading._load import load_model_and_data, model_and_data_of
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


def test_a_card_with_a_data_factory_is_checked_too(artifact, own):
    with pytest.raises(DataError, match=r"from inputs_own:data are not those.*fingerprint differs"):
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
