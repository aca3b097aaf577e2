"""A tiny corpus, and a model that knows some of it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from expunge.data import TextSet, WordTokenizer, invent_corpus
from tests.reference.text_metrics import Model

CORPUS = invent_corpus(people=6, unseen=4, topics=3, seed=3)
TOKENIZER = WordTokenizer.of(CORPUS.every_record)


def text_set(records: Sequence[int] | None = None, kind: str = "people") -> TextSet:
    """Some records of the corpus (default: all)."""
    every = getattr(CORPUS, kind)
    return TextSet(every if records is None else [every[k] for k in records], TOKENIZER)


class Bigrams(nn.Module):
    """Predicts a token from the one before it and from its position; counts the rows it sees.

    It prefers the bigrams of ``known`` to others, by ``strength``.
    """

    def __init__(self, known: TextSet | None = None, strength: float = 6.0, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        size = TOKENIZER.size
        table = torch.randn(size, size, generator=generator, dtype=torch.float64)
        for row in known.tokens if known is not None else ():
            for first, second in zip(row[:-1].tolist(), row[1:].tolist(), strict=True):
                table[first, second] += strength
        self.table = nn.Parameter(table)
        self.shift = nn.Parameter(torch.randn(40, size, generator=generator, dtype=torch.float64))
        self.rows = 0

    def forward(self, tokens: Tensor) -> Tensor:
        self.rows += len(tokens)
        return self.table[tokens] + 0.3 * self.shift[: tokens.shape[1]]


def as_function(model: nn.Module) -> Model:
    """The model as a map from a prefix to a distribution."""

    @torch.no_grad()
    def p(prefix: Sequence[int]) -> list[float]:
        logits = model(torch.tensor([list(prefix)]))[0, -1]
        distribution: list[float] = torch.softmax(logits.double(), dim=0).tolist()
        return distribution

    return p
