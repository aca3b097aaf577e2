"""Tasks of lm-evaluation-harness, on a task of our own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from expunge import InvalidInput
from expunge.integrations import harness_scores
from tests.unit.data.text.pretrained import word_level_folder

WORDS = ("where", "is", "ann", "bob", "cid", "here", "there")
PLACES = ("here", "there")
QUESTIONS = [f"where is {name}" for name in ("ann", "bob", "cid")]


def write_task(folder: Path) -> Path:
    """A task of three questions with two choices; the first one is always right."""
    rows = [{"question": question, "choices": PLACES} for question in QUESTIONS]
    data = folder / "places.json"
    data.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    content = {
        "task": "places",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": str(data), "cache_dir": str(folder / "cache")},
        "test_split": "train",
        "output_type": "multiple_choice",
        "doc_to_text": "{{question}}",
        "doc_to_target": 0,
        "doc_to_choice": "choices",
        "metric_list": [{"metric": "acc"}],
    }
    path = folder / "places.yaml"
    path.write_text(json.dumps(content), encoding="utf-8")  # JSON is YAML
    return path


def write_llama(folder: Path) -> Any:
    """A fresh Llama and its tokenizer of words, in a folder."""
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    tokenizer = AutoTokenizer.from_pretrained(word_level_folder(folder, WORDS))
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
    config = LlamaConfig(
        vocab_size=len(tokenizer), num_attention_heads=2, max_position_embeddings=32, **sizes
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = LlamaForCausalLM(config).eval()
    model.save_pretrained(folder)
    return model, tokenizer


def accuracy(model: Any, tokenizer: Any) -> float:
    """How often the first choice is the likelier one."""
    prompts = tokenizer(QUESTIONS, return_tensors="pt")["input_ids"]
    first, second = tokenizer.convert_tokens_to_ids(list(PLACES))
    with torch.no_grad():
        logits = model(prompts).logits[:, -1]
    return float((logits[:, first] > logits[:, second]).double().mean())


def test_without_the_harness_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lm_eval", None)
    with pytest.raises(InvalidInput, match=r"pip install 'expunge\[lm-eval\]'"):
        harness_scores(torch.nn.Identity(), None, "arc_easy")


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")  # of the harness
def test_a_task_of_a_file_is_scored(tmp_path: Path) -> None:
    pytest.importorskip("lm_eval")
    model, tokenizer = write_llama(tmp_path / "model")
    task = write_task(tmp_path)
    scores = harness_scores(model, tokenizer, str(task))
    assert scores["places acc"] == pytest.approx(accuracy(model, tokenizer))
    assert {*scores} == {"places acc", "places acc_stderr"}
    assert 0.0 < scores["places acc"] < 1.0, "a question of each kind"
    task.write_text("task: [")
    with pytest.raises(InvalidInput, match="lm-evaluation-harness cannot run"):
        harness_scores(model, tokenizer, str(task))
