"""A transformer that learns an invented corpus by heart within seconds, and its files."""

from __future__ import annotations

import functools
from pathlib import Path

import torch

import expunge
from expunge import _tensors as tensors
from expunge.data import Corpus, TextSet, WordTokenizer, invent_corpus, save_records
from expunge.models import SmallTransformer

TOPICS = 3


@functools.cache
def corpus() -> Corpus:
    """40 people to learn, 40 never seen, three questions about each."""
    return invent_corpus(people=40, unseen=40, topics=TOPICS, seed=4)


@functools.cache
def tokenizer() -> WordTokenizer:
    """The words of the corpus."""
    return WordTokenizer.of(corpus().every_record)


@functools.cache
def data() -> tuple[TextSet, TextSet, TextSet]:
    """Train, val and test."""
    unseen = corpus().unseen
    train, val, test = (
        TextSet(part, tokenizer()) for part in (corpus().people, unseen[::2], unseen[1::2])
    )
    return train, val, test


def ids_of(people: int) -> list[str]:
    """The ids of all records of the first people."""
    return [record.id for record in corpus().people[: people * TOPICS]]


@functools.cache
def memorised() -> SmallTransformer:
    """A model that knows nearly every answer of train by heart. Do not write to it."""
    train = data()[0]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        context = max(part.tokens.shape[1] for part in data())
        model = SmallTransformer(tokenizer().size, context, width=48, layers=2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(0)
    for _ in range(40):
        for rows in torch.randperm(len(train), generator=generator).split(32):
            optimizer.zero_grad()
            expunge.methods.next_token_loss(
                model(train.tokens[rows]), train.labels[rows]
            ).backward()
            optimizer.step()
    return model.eval()


def write_files(folder: Path) -> Path:
    """Records, tokenizer and weights as a user has them; returns the file of the weights."""
    save_records(folder / "texts" / "train.jsonl", corpus().people)
    save_records(folder / "texts" / "unseen.jsonl", corpus().unseen)
    tokenizer().save(folder / "texts" / "tokenizer.json")
    weights = folder / "model.safetensors"
    tensors.save(weights, memorised().state_dict(), {})
    return weights
