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
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(0)
    for _ in range(epochs):
        for rows in torch.randperm(len(train), generator=generator).split(32):
            optimizer.zero_grad()
            logits = model(train.tokens[rows]).logits
            expunge.methods.next_token_loss(logits, train.labels[rows]).backward()
            optimizer.step()
    model.save_pretrained(folder)
    library.save_pretrained(folder)
    save_records(folder / "texts" / "train.jsonl", corpus.people)
    save_records(folder / "texts" / "unseen.jsonl", corpus.unseen)
    return folder
