"""A Llama of subwords that learns an invented corpus by heart with a prompt of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

import expunge
from expunge.data import PretrainedTokenizer, TextSet, save_records
from tests.unit.data.text.pretrained import subwords
from tests.unit.request import text_worlds


def write_llama(folder: Path, template: str, chat: str | None = None, epochs: int = 30) -> Path:
    """A folder of model and tokenizer, as transformers writes them, with ``texts`` in it."""
    from transformers import LlamaConfig, LlamaForCausalLM

    corpus = text_worlds.corpus()
    texts = [f"{record.question} {record.answer}" for record in corpus.every_record]
    library = subwords("llama-2", texts, chat, size=600)
    train = TextSet(corpus.people, PretrainedTokenizer(library, template))
    sizes: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = LlamaConfig(
            vocab_size=len(library),
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=256,
            **sizes,
        )
        model = LlamaForCausalLM(config)
    _learn(model, train, epochs, 3e-3)
    model.save_pretrained(folder)
    library.save_pretrained(folder)
    save_records(folder / "texts" / "train.jsonl", corpus.people)
    save_records(folder / "texts" / "unseen.jsonl", corpus.unseen)
    return folder


def write_adapters(folder: Path, base: Path, template: str, epochs: int) -> Path:
    """Adapters in ``folder``, without a tokenizer, trained on the records that ``base`` has."""
    import peft

    from expunge.models import load_causal_model

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = peft.get_peft_model(
            load_causal_model(base),
            peft.LoraConfig(task_type="CAUSAL_LM", r=8, target_modules="all-linear"),
        )
    train = TextSet(text_worlds.corpus().people, PretrainedTokenizer(str(base), template))
    _learn(model, train, epochs, 1e-2)
    model.save_pretrained(folder)
    return folder


def _learn(model: Any, train: TextSet, epochs: int, lr: float) -> None:
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=lr)
    generator = torch.Generator().manual_seed(0)
    for _ in range(epochs):
        for rows in torch.randperm(len(train), generator=generator).split(32):
            optimizer.zero_grad()
            logits = model(train.tokens[rows]).logits
            expunge.methods.next_token_loss(logits, train.labels[rows]).backward()
            optimizer.step()
