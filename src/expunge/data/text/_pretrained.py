"""Tokenizers of pretrained models, through transformers."""

from __future__ import annotations

import hashlib
import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from expunge._errors import DataError, InvalidInput
from expunge.data.text._tokenizer import Pair

TEMPLATE = "Question: {question}\nAnswer:"


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
        if _fields(template) != {("question", "", None)}:
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


def _fields(template: str) -> set[tuple[Any, ...]]:
    """The placeholders of a template; None among them if it cannot be read."""
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError:
        return {(None,)}
    return {tuple(fields) for _, *fields in parts if fields[0] is not None}


def _load(source: str | Path) -> Any:
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise InvalidInput(
            "Pretrained tokenizers need transformers: pip install 'expunge[transformers]'."
        ) from error
    try:
        return AutoTokenizer.from_pretrained(str(source))
    except (OSError, ValueError) as error:
        raise DataError(f"{source} is not a pretrained tokenizer: {error}") from error
