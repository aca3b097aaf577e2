"""Models of other libraries and of the user."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import expunge
from expunge._errors import DataError, InvalidInput
from expunge.data import PretrainedTokenizer, TextSet, invent_corpus
from expunge.models import SmallTransformer, build_model, check_is_causal, load_causal_model
from expunge.models._build import is_external, read_model_spec
from tests import tiny
from tests.unit.data.text.pretrained import word_level_folder

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
    assert [is_external(name) for name in ("mlp", "hf:/a/b", "a.b:c")] == [False, True, True]
    with pytest.raises(InvalidInput, match=r"Unknown model 'keras:a/b'\. Known: .*, hf:PATH"):
        build_model("keras:a/b")
    # What could be a function of the user's, but for its module, which is nowhere.
    with pytest.raises(
        InvalidInput, match=r"'kerras:vgg'\. Known: .*, hf:PATH.*\(no module 'kerras'"
    ):
        build_model("kerras:vgg")
    with pytest.raises(InvalidInput, match=r"'qqq'\. Known: .*, hf:PATH .*, package\.module"):
        build_model("qqq")


def test_options_stand_behind_the_name():
    assert read_model_spec("VGG16,width=0.5,dropout=0") == ("vgg16", {"width": 0.5, "dropout": 0})
    assert read_model_spec("a.b:c,depth=3") == ("a.b:c", {"depth": 3})
    with pytest.raises(InvalidInput, match="`num_classes` of a model comes from its data"):
        read_model_spec("mlp,num_classes=3")


# Language models of transformers, made here, saved, and loaded from their folder.

CORPUS = invent_corpus(people=3, unseen=2, topics=2, seed=1)


def fresh(kind: str, size: int) -> Any:
    import transformers

    torch.manual_seed(0)
    ends = {"bos_token_id": 1, "eos_token_id": 1, "pad_token_id": 0}
    if kind == "gpt2":
        sizes = {"n_layer": 1, "n_head": 2, "n_embd": 8, "n_positions": 64}
        config = transformers.GPT2Config(vocab_size=size, **sizes, **ends)
        return transformers.GPT2LMHeadModel(config)
    config = transformers.LlamaConfig(
        vocab_size=size,
        hidden_size=8,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=64,
        **ends,
    )
    return transformers.LlamaForCausalLM(config)


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_a_model_from_a_folder_can_be_unlearned_and_evaluated(kind: str, tmp_path: Path) -> None:
    words = {
        word.strip(".,?")
        for record in CORPUS.every_record
        for word in f"{record.question} {record.answer} {record.paraphrased_answer}".split()
    }
    folder = word_level_folder(tmp_path, sorted({*words, "Question", "Answer", ":", ".", ",", "?"}))
    tokenizer = PretrainedTokenizer(folder)
    fresh(kind, tokenizer.size).save_pretrained(folder)
    model = load_causal_model(folder)
    assert not model.training

    people, unseen = TextSet(CORPUS.people, tokenizer), TextSet(CORPUS.unseen, tokenizer)
    forget, retain = people.subset(range(2)), people.subset(range(2, 6))
    splits = {"forget": forget, "retain": retain, "test": unseen}
    before = expunge.evaluation.evaluate_text(model, **splits, attacks=True)
    result = tiny.unlearn(
        model, forget=forget, retain=retain, method="npo", epochs=1, lr=1e-2, progress=False
    )
    after = expunge.evaluation.evaluate_text(result.model, **splits, ideal=model)
    assert after.probability < before.probability
    assert before.auc_gradient_norm is not None
    assert after.forget_quality is not None


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not a pretrained causal language model"):
        load_causal_model(tmp_path)


def test_a_masked_model_is_refused(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    config = transformers.BertConfig(vocab_size=20, num_attention_heads=2, **sizes)
    transformers.BertForMaskedLM(config).save_pretrained(tmp_path)
    with pytest.raises(InvalidInput, match="masked language models such as BERT do"):
        load_causal_model(tmp_path)


def test_an_encoder_decoder_is_refused(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.T5Config(vocab_size=20, d_model=8, d_ff=8, d_kv=4, num_layers=1)
    transformers.T5ForConditionalGeneration(config).save_pretrained(tmp_path)
    with pytest.raises(InvalidInput, match="is an encoder-decoder model"):
        load_causal_model(tmp_path)


@pytest.mark.parametrize("tokens", [[[0, 1, 2]], [[1, 1]], [[3]]])
def test_a_model_is_causal_if_what_follows_changes_nothing(tokens: list[list[int]]) -> None:
    check_is_causal(SmallTransformer(4, 8, width=8, layers=1).eval(), torch.tensor(tokens))
