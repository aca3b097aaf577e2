"""Models of other libraries and of the user."""

from __future__ import annotations

import sys
import types

import pytest
import torch
from torch import nn

from expunge._errors import InvalidInput
from expunge.models import build_model
from expunge.models._build import is_external, read_model_spec

CODE = """
import torch
class Wants(torch.nn.Linear):
    def forward(self, x):
        assert x.dtype == torch.float32
        return super().forward(x.flatten(1))
def build(size=4, classes=3): return Wants(size, classes)
def wrong(): return 5
"""


@pytest.fixture
def _shop(tmp_path, monkeypatch):
    (tmp_path / "external_shop.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    yield
    sys.modules.pop("external_shop", None)


@pytest.mark.usefixtures("_shop")
def test_a_function_builds_a_model_that_gets_images_as_fractions():
    model = build_model("external_shop:build", classes=2)
    x = torch.randint(256, (5, 1, 2, 2), dtype=torch.uint8)
    assert torch.equal(model(x), model(x.float() / 255))
    assert set(model.state_dict()) == {"weight", "bias"}


@pytest.mark.usefixtures("_shop")
def test_what_is_no_model_is_refused():
    with pytest.raises(InvalidInput, match=r"should return a torch\.nn\.Module\. \(got int\)"):
        build_model("external_shop:wrong")


@pytest.mark.usefixtures("_shop")
def test_a_seed_decides_the_weights_of_a_function_too():
    first, again = (build_model("external_shop:build", seed=3) for _ in range(2))
    assert torch.equal(first.weight, again.weight)


def test_timm_makes_a_model_by_name(monkeypatch):
    asked = {}

    def create_model(name, **options):
        asked.update(options, name=name)
        return nn.Flatten()

    monkeypatch.setitem(sys.modules, "timm", types.SimpleNamespace(create_model=create_model))
    model = build_model("timm:tiny", num_classes=7, in_channels=1, drop_rate=0.1)
    assert asked == {
        "name": "tiny",
        "pretrained": False,
        "num_classes": 7,
        "in_chans": 1,
        "drop_rate": 0.1,
    }
    assert model(torch.full((1, 1, 1, 1), 255, dtype=torch.uint8)).item() == 1.0


def test_timm_that_cannot_be_imported_names_the_way_around(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    complaint = r"need the package timm.*'expunge\[timm\]'.*torchvision.*package\.module:factory"
    with pytest.raises(InvalidInput, match=complaint):
        build_model("timm:resnet18")


def test_a_name_that_timm_does_not_know_is_wrong_usage(monkeypatch):
    def create_model(name, **options):
        raise RuntimeError(f"Unknown model ({name})")

    monkeypatch.setitem(sys.modules, "timm", types.SimpleNamespace(create_model=create_model))
    with pytest.raises(InvalidInput, match=r"timm cannot make the model 'x': Unknown model \(x\)"):
        build_model("timm:x")


def test_a_text_classifier_of_transformers_takes_padded_ids(tmp_path):
    transformers = pytest.importorskip("transformers", reason="needs the extra transformers")
    config = transformers.BertConfig(
        vocab_size=30,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        num_labels=3,
        pad_token_id=5,
        architectures=["BertForSequenceClassification"],
    )
    config.save_pretrained(tmp_path)
    model = build_model(f"hf:{tmp_path}", num_classes=3, seed=0).eval()
    short, long = torch.tensor([[7, 8, 0]]), torch.tensor([[7, 8, 0, 0, 0]])
    assert model(short).shape == (1, 3)
    assert torch.allclose(model(short), model(long), atol=1e-6), "padding should not be read"
    assert "classifier.weight" in model.state_dict()


def test_a_model_that_does_not_classify_is_refused(tmp_path):
    transformers = pytest.importorskip("transformers", reason="needs the extra transformers")
    transformers.BertConfig(architectures=["BertForMaskedLM"]).save_pretrained(tmp_path)
    with pytest.raises(InvalidInput, match=r"a model that classifies.*\(got BertForMaskedLM in"):
        build_model(f"hf:{tmp_path}")
    with pytest.raises(InvalidInput, match=r"a folder that save_pretrained wrote"):
        build_model(f"hf:{tmp_path / 'nowhere'}")


def test_names_are_told_apart_and_unknown_schemes_name_the_known_ones():
    assert [is_external(name) for name in ("mlp", "timm:x", "hf:/a/b", "a.b:c")] == [
        *[False, True, True, True]
    ]
    with pytest.raises(InvalidInput, match=r"Unknown model 'keras:a/b'\. Known: .*, timm"):
        build_model("keras:a/b")
    # What could be a function of the user's, but for its module, which is nowhere.
    with pytest.raises(InvalidInput, match=r"'kerras:vgg'\. Known: .*, timm.*\(no module 'kerras'"):
        build_model("kerras:vgg")
    with pytest.raises(InvalidInput, match=r"'qqq'\. Known: .*, timm:NAME .*, package\.module"):
        build_model("qqq")


def test_options_stand_behind_the_name():
    assert read_model_spec("VGG16,width=0.5,dropout=0") == ("vgg16", {"width": 0.5, "dropout": 0})
    assert read_model_spec("a.b:c,depth=3") == ("a.b:c", {"depth": 3})
    with pytest.raises(InvalidInput, match="`num_classes` of a model comes from its data"):
        read_model_spec("mlp,num_classes=3")
