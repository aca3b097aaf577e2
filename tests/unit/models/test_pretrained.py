"""Models of transformers, made here, saved, and loaded from their folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import expunge
from expunge._errors import DataError
from expunge.data import PretrainedTokenizer, TextSet, invent_corpus
from expunge.models import load_causal_model
from tests import tiny
from tests.unit.data.text.pretrained import word_level_folder

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
