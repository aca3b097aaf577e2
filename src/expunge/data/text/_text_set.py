"""A set of records as tokens: a dataset for ``unlearn``, ``train`` and ``evaluate``."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from expunge._errors import InvalidInput
from expunge._kinds import check_arguments
from expunge.data._examples import Indices, as_index
from expunge.data.text._records import TextRecord
from expunge.data.text._tokenizer import Tokenizer

IGNORED = -100
"""The label of a token that is not to be predicted: prompt or padding."""


class TextSet(TensorDataset):
    """Questions and answers as tokens [N, T] and labels [N, T], padded on the right.

    Labels are the tokens of the answers and -100 elsewhere. An item is (tokens, labels), as the
    methods for language models take them.

    Args:
        records: at least one.
        tokenizer: a :class:`WordTokenizer`, a :class:`PretrainedTokenizer` or any
            :class:`Tokenizer`.
        max_length: the longest row that the model takes; a longer record is refused, not cut.
        width: tokens per row, padding included (default: those of the longest record).

    >>> from expunge.data import WordTokenizer
    >>> record = TextRecord("0", "Who?", "Nobody, yet.")
    >>> data = TextSet([record], WordTokenizer.of([record]))
    >>> data, data[0][1].tolist()
    (TextSet(1 record of up to 8 tokens), [-100, -100, -100, 7, 4, 9, 5, 3])
    """

    noun = "record"
    """What messages call one of them."""

    def __init__(
        self,
        records: Iterable[TextRecord],
        tokenizer: Tokenizer,
        *,
        max_length: int | None = None,
        width: int = 0,
    ) -> None:
        check_arguments(TextSet.__init__, locals())
        self.records = tuple(records)
        self.tokenizer, self.max_length, self.width = tokenizer, max_length, width
        if not self.records:
            raise InvalidInput("A set of texts should hold a record at least. (got none)")
        pairs = [tokenizer.encode(record.question, record.answer) for record in self.records]
        lengths = [len(prompt) + len(answer) for prompt, answer in pairs]
        longest = lengths.index(max(lengths))
        if max_length is not None and lengths[longest] > max_length:
            raise InvalidInput(
                f"A record should have at most {max_length} tokens, as many as the model takes. "
                f"(got {lengths[longest]} in {self.records[longest].id!r}) Shorten it, or take it "
                "out."
            )
        super().__init__(*_padded(pairs, tokenizer.pad, width))

    def __repr__(self) -> str:
        count = f"{len(self)} record{'s' if len(self) != 1 else ''}"
        return f"TextSet({count} of up to {self.tokens.shape[1]} tokens)"

    @property
    def tokens(self) -> Tensor:
        """All rows, [N, T]."""
        return self.tensors[0]

    @property
    def labels(self) -> Tensor:
        """What is to be predicted, -100 elsewhere, [N, T]."""
        return self.tensors[1]

    @property
    def names(self) -> tuple[str, ...]:
        """The id of every record."""
        return tuple(record.id for record in self.records)

    @property
    def lengths(self) -> Tensor:
        """Tokens of every row without its padding, [N]."""
        return row_lengths(self.labels)

    @property
    def answer_lengths(self) -> Tensor:
        """Tokens of every answer, its end included, [N]."""
        return (self.labels != IGNORED).sum(dim=1)

    @property
    def has_variants(self) -> bool:
        """Whether every record has false answers, so that there is a truth ratio."""
        return all(record.perturbed_answers for record in self.records)

    def subset(self, indices: Indices) -> TextSet:
        """The records at ``indices``, in that order."""
        chosen = as_index(indices, len(self)).tolist()
        return self._like([self.records[k] for k in chosen])

    @cached_property
    def paraphrased(self) -> TextSet:
        """The same questions with the paraphrased answers."""
        return self._answered((r, r.paraphrased_answer) for r in self.records)

    @cached_property
    def perturbed(self) -> TextSet:
        """The questions with each of their false answers, record by record."""
        return self._answered((r, answer) for r in self.records for answer in r.perturbed_answers)

    def rendered(self, index: int) -> tuple[str, str]:
        """Prompt and answer of a record as the model reads them, special tokens included."""
        record, show = self.records[index], getattr(self.tokenizer, "show", self.tokenizer.decode)
        prompt, answer = self.tokenizer.encode(record.question, record.answer)
        return show(prompt), show(answer)

    def fingerprint(self) -> str:
        """SHA-256 of all texts and of the tokenizer: equal data, equal fingerprint."""
        digest = hashlib.sha256(self.tokenizer.fingerprint().encode())
        for record in self.records:
            digest.update(repr(sorted(record.as_dict().items())).encode())
        return digest.hexdigest()

    def padded_to(self, width: int) -> TextSet:
        """The same records in rows of at least ``width`` tokens."""
        return self._like(self.records, width)

    def _like(self, records: Sequence[TextRecord], width: int | None = None) -> TextSet:
        width = self.width if width is None else width
        return TextSet(records, self.tokenizer, max_length=self.max_length, width=width)

    def _answered(self, pairs: Iterable[tuple[TextRecord, str]]) -> TextSet:
        """The questions of records with other answers, and nothing besides."""
        without = [record.id for record in self.records if not record.perturbed_answers]
        if without:
            raise InvalidInput(
                "A truth ratio needs `perturbed_answer`, a list of false answers, in every record. "
                f"({len(without)} of {len(self)} have none, such as {without[0]!r})"
            )
        nothing: dict[str, Any] = {"paraphrased_answer": "", "perturbed_answers": ()}
        return self._like([replace(record, answer=answer, **nothing) for record, answer in pairs])

    def __getstate__(self) -> dict[str, Any]:
        """Without what was derived: workers derive it again."""
        return {k: v for k, v in vars(self).items() if k not in ("paraphrased", "perturbed")}


def row_lengths(labels: Tensor) -> Tensor:
    """Tokens of rows [N, T] up to the last that is to be predicted, [N]."""
    positions = torch.arange(1, labels.shape[1] + 1)
    return ((labels != IGNORED).long() * positions).amax(dim=1)


def _padded(
    pairs: Sequence[tuple[list[int], list[int]]], pad: int, width: int
) -> tuple[Tensor, Tensor]:
    width = max(width, *(len(prompt) + len(answer) for prompt, answer in pairs))
    tokens = torch.full((len(pairs), width), pad, dtype=torch.int64)
    labels = torch.full((len(pairs), width), IGNORED, dtype=torch.int64)
    for row, (prompt, answer) in enumerate(pairs):
        begin, stop = len(prompt), len(prompt) + len(answer)
        tokens[row, :stop] = torch.tensor([*prompt, *answer])
        labels[row, begin:stop] = torch.tensor(answer)
    return tokens, labels
