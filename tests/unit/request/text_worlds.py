"""A language model small enough to be trained and to forget within seconds."""

from __future__ import annotations

import functools

import torch
from torch import Tensor, nn

import expunge
from expunge.data import Corpus, TextSet, WordTokenizer, invent_corpus

TOPICS = 3


class BagOfWords(nn.Module):
    """Predicts a token from the one before it and from all others before, in any order."""

    def __init__(self, vocabulary: int, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.last = nn.Embedding(vocabulary, vocabulary)
            self.bag = nn.Embedding(vocabulary, vocabulary)
        for table in (self.last, self.bag):
            nn.init.normal_(table.weight, std=0.01)

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.last(tokens) + self.bag(tokens).cumsum(dim=1)
        return logits


@functools.cache
def corpus() -> Corpus:
    """24 people to learn, 24 never seen, three questions about each."""
    return invent_corpus(people=24, unseen=24, topics=TOPICS, seed=4)


@functools.cache
def tokenizer() -> WordTokenizer:
    """The words of the corpus."""
    return WordTokenizer.of(corpus().every_record)


def data() -> tuple[TextSet, TextSet, TextSet]:
    """Train, val and test."""
    unseen = corpus().unseen
    parts = (corpus().people, unseen[::2], unseen[1::2])
    train, val, test = (TextSet(part, tokenizer()) for part in parts)
    return train, val, test


def ids_of(people: int) -> list[str]:
    """The ids of all records of the first people."""
    return [record.id for record in corpus().people[: people * TOPICS]]


@functools.cache
def memorised() -> BagOfWords:
    """A model that knows every answer of train by heart. Do not write to it."""
    model = BagOfWords(tokenizer().size)
    train = data()[0]
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    for _ in range(120):
        optimizer.zero_grad()
        expunge.next_token_loss(model(train.tokens), train.labels).backward()
        optimizer.step()
    return model.eval()
