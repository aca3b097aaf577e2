"""Tokenizers: what a text set needs of one, one of words, and those of transformers."""

from __future__ import annotations

import hashlib
import json
import re
import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from expunge._errors import DataError, InvalidInput
from expunge._files import read_text, write_text
from expunge._kinds import check_kind
from expunge._lazy import import_extra
from expunge.data.text._records import TextRecord

Pair = tuple[list[int], list[int]]
"""The tokens of a prompt, and those of its answer with the token that ends it."""

TEMPLATE = "Question: {question}\nAnswer:"
SPECIAL = ("<pad>", "<unknown>", "<answer>", "<end>")
PAD, UNKNOWN, ANSWER, END = range(4)
_WORDS = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")
_GLUED = re.compile(r" ([.,;:!?)\]])")


@runtime_checkable
class Tokenizer(Protocol):
    """What turns a question and an answer into tokens, and tokens into text."""

    @property
    def size(self) -> int:
        """Number of tokens; all ids are below it."""

    @property
    def pad(self) -> int:
        """The token that fills up shorter rows; no label is ever at its place."""

    @property
    def end(self) -> int:
        """The token that ends an answer."""

    def encode(self, question: str, answer: str) -> Pair:
        """Prompt and answer; the model predicts the answer, whose last token is ``end``."""

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of an answer, without special tokens."""

    def fingerprint(self) -> str:
        """SHA-256 of what decides the tokens."""


@dataclass(frozen=True)
class WordTokenizer:
    """A token per word or punctuation mark; words that are not in ``words`` are unknown.

    A row reads ``question <answer> answer <end>``. Names with ``'`` or ``-`` are one word.

    >>> tokenizer = WordTokenizer.of([TextRecord("0", "Who?", "Nobody, yet.")])
    >>> prompt, answer = tokenizer.encode("Who?", "Nobody, yet.")
    >>> len(prompt), len(answer), tokenizer.decode(answer)
    (3, 5, 'Nobody, yet.')
    """

    words: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(set(self.words)) < len(self.words) or set(SPECIAL) & set(self.words):
            raise InvalidInput("`words` should be different from each other and not special.")
        positions = {word: k for k, word in enumerate(self.words, start=len(SPECIAL))}
        object.__setattr__(self, "_positions", positions)

    @classmethod
    def of(cls, records: Iterable[TextRecord]) -> WordTokenizer:
        """The words of all texts of ``records``, sorted."""
        check_kind("records", Iterable[TextRecord], records)
        words: set[str] = set()
        for record in records:
            texts = (record.question, record.answer, record.paraphrased_answer)
            for text in (*texts, *record.perturbed_answers):
                words.update(_WORDS.findall(text))
        return cls(tuple(sorted(words)))

    @property
    def size(self) -> int:
        return len(SPECIAL) + len(self.words)

    @property
    def pad(self) -> int:
        return PAD

    @property
    def end(self) -> int:
        return END

    def encode(self, question: str, answer: str) -> Pair:
        return [*self._tokens(question), ANSWER], [*self._tokens(answer), END]

    def decode(self, tokens: Sequence[int]) -> str:
        known = [token for token in tokens if token >= len(SPECIAL)]
        words = " ".join(self.words[token - len(SPECIAL)] for token in known)
        return _GLUED.sub(r"\1", words)

    def fingerprint(self) -> str:
        return hashlib.sha256("\n".join(self.words).encode()).hexdigest()

    def save(self, path: str | Path) -> None:
        """Write the words as JSON."""
        write_text(path, json.dumps({"words": self.words}, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> WordTokenizer:
        """Read what :meth:`save` wrote."""
        try:
            words = json.loads(read_text(path, "UTF-8 JSON"))["words"]
            return cls(tuple(str(word) for word in words))
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path} does not hold the words of a tokenizer: {error!r}.") from error

    def _tokens(self, text: str) -> list[int]:
        positions: dict[str, int] = self._positions  # type: ignore[attr-defined]
        return [positions.get(word, UNKNOWN) for word in _WORDS.findall(text)]


class PretrainedTokenizer:
    """A tokenizer of transformers: ``expunge[transformers]`` installs what it needs.

    Args:
        tokenizer: any tokenizer of transformers, or the folder or name of a pretrained one.
        template: the prompt, with ``{question}`` in it. The answer follows after a blank. Give the
            one that the model was trained with; braces of its own are written twice, ``{{`` and
            ``}}``.
    """

    def __init__(self, tokenizer: Any, template: str = TEMPLATE) -> None:
        self.tokenizer = _load(tokenizer) if isinstance(tokenizer, (str, Path)) else tokenizer
        self.template = template
        if not _asks_question(template):
            raise InvalidInput(
                "`template` should contain {question}, and other braces only twice, as in {{ and "
                f"}}}}. (got {template!r})"
            )
        if self.tokenizer.eos_token_id is None:
            raise InvalidInput(
                "The tokenizer should have an end-of-text token, by which answers end. Set its "
                "`eos_token`."
            )

    @property
    def size(self) -> int:
        return len(self.tokenizer)

    @property
    def pad(self) -> int:
        token = self.tokenizer.pad_token_id
        return self.end if token is None else int(token)

    @property
    def end(self) -> int:
        return int(self.tokenizer.eos_token_id)

    def encode(self, question: str, answer: str) -> Pair:
        # Apart from each other, so that the boundary between the two is that of tokens.
        prompt = self.tokenizer(self.template.format(question=question))["input_ids"]
        while prompt and prompt[-1] == self.end:  # some add it to whatever they encode
            prompt = prompt[:-1]
        words = self.tokenizer(f" {answer}", add_special_tokens=False)["input_ids"]
        return list(prompt), [*words, self.end]

    def decode(self, tokens: Sequence[int]) -> str:
        text: str = self.tokenizer.decode(list(tokens), skip_special_tokens=True)
        return text.strip()

    def fingerprint(self) -> str:
        vocabulary = sorted(self.tokenizer.get_vocab().items())
        words = f"{self.template}/{self.pad}/{self.end}/{vocabulary}"
        return hashlib.sha256(words.encode()).hexdigest()


def _asks_question(template: str) -> bool:
    """Whether ``{question}`` is the one placeholder of a template."""
    try:
        fields = [tuple(part) for _, *part in string.Formatter().parse(template)]
    except ValueError:
        return False
    return {part for part in fields if part[0] is not None} == {("question", "", None)}


def _load(source: str | Path) -> Any:
    library = import_extra("transformers", "transformers", "Pretrained tokenizers")
    try:
        return library.AutoTokenizer.from_pretrained(str(source))
    except (OSError, ValueError) as error:
        raise DataError(f"{source} is not a pretrained tokenizer: {error}") from error
