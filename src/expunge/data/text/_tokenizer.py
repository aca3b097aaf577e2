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

CHAT = "chat"
"""The name of the tokenizer's own chat template."""
TEMPLATES = {
    "question-answer": "Question: {question}\nAnswer:",
    "q-a": "Q: {question}\nA:",
    "plain": "{question}",
    "llama-2": "[INST] {question} [/INST]",
    "instruction": "### Instruction:\n{question}\n\n### Response:\n{answer}",
    "alpaca": "Below is an instruction that describes a task. Write a response that appropriately "
    "completes the request.\n\n### Instruction:\n{question}\n\n### Response:\n{answer}",
    "human-assistant": "Human: {question}\n\nAssistant:",
    "chatml": "<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n{answer}<|im_end|>",
}
"""Prompts that models are often trained with, by name."""
MARK = "\ue000"
"""Stands for an answer while its surroundings are rendered."""
DATE = "26 Jul 2024"
"""The date in prompts that have one: what Llama's own template says where it is not told."""
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

    A record is rendered as one text and tokenised as a whole, as in training. Its answer begins
    with the first token that the prompt alone does not begin with, and ends with the token by which
    the template ends it, or with the end of text. A record without a question has no template.

    Args:
        tokenizer: any tokenizer of transformers, or the folder or name of a pretrained one.
        template: a name of :data:`TEMPLATES`, ``chat``, or a text with ``{question}`` in it, and
            ``{answer}`` if the answer does not follow after a blank. Give the one that the model
            was trained with (default: ``chat`` if the tokenizer has a chat template, otherwise
            ``question-answer``). Other braces are written twice, ``{{`` and ``}}``.
    """

    def __init__(self, tokenizer: Any, template: str | None = None) -> None:
        self.tokenizer = _load(tokenizer) if isinstance(tokenizer, (str, Path)) else tokenizer
        own = getattr(self.tokenizer, "chat_template", None)
        self.is_chat = template == CHAT or (template is None and bool(own))
        if self.is_chat and not own:
            raise InvalidInput(
                f"`template` {CHAT!r} needs a tokenizer with a chat template. (got none) Give the "
                f"text of the prompt, or one of {', '.join(TEMPLATES)}."
            )
        usual = template or "question-answer"
        self.template: str = str(own) if self.is_chat else _with_answer(usual)
        if self.tokenizer.eos_token_id is None:
            raise InvalidInput(
                "The tokenizer should have an end-of-text token, by which answers end. Set its "
                "`eos_token`."
            )
        ending = self._ids(self._render("?")[1], special=False)
        added = self.tokenizer.added_tokens_decoder
        self._end = next((token for token in ending if token in added), None)

    @property
    def size(self) -> int:
        return len(self.tokenizer)

    @property
    def pad(self) -> int:
        token = self.tokenizer.pad_token_id
        return self.end if token is None else int(token)

    @property
    def end(self) -> int:
        return int(self.tokenizer.eos_token_id if self._end is None else self._end)

    def encode(self, question: str, answer: str) -> Pair:
        before, after = self._render(question) if question else ("", "")
        # A chat template writes the first token itself, and so may a text.
        written = self.is_chat or before.startswith(self.tokenizer.bos_token or "\0")
        prompt, whole = (
            self._ids(text, special=not (question and written))
            for text in (before, f"{before}{answer}{after}")
        )
        pairs = enumerate(zip(prompt, whole, strict=False))
        begin = next((k for k, (a, b) in pairs if a != b), min(len(prompt), len(whole)))
        begin = max(begin, 1)  # nothing predicts the first token
        rest = whole[begin:]
        rest = rest[: rest.index(self.end)] if self.end in rest else rest
        return whole[:begin], [*rest, self.end]

    def decode(self, tokens: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=True)).strip()

    def show(self, tokens: Sequence[int]) -> str:
        """The text of tokens with the special ones, as the model reads them."""
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=False))

    def fingerprint(self) -> str:
        vocabulary = sorted(self.tokenizer.get_vocab().items())
        words = f"{self.template}/{self.pad}/{self.end}/{vocabulary}"
        return hashlib.sha256(words.encode()).hexdigest()

    def _ids(self, text: str, special: bool) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=special)["input_ids"])

    def _render(self, question: str) -> tuple[str, str]:
        """What stands before an answer, and what stands after it."""
        if not self.is_chat:
            text = self.template.format(question=question, answer=MARK)
        else:
            turns = zip(("user", "assistant"), (question, MARK), strict=True)
            chat = [{"role": role, "content": content} for role, content in turns]
            try:  # some templates write today's date, and prompts should be the same tomorrow
                text = self.tokenizer.apply_chat_template(chat, tokenize=False, date_string=DATE)
            except Exception as error:  # templates raise what they like
                raise InvalidInput(
                    f"The tokenizer's chat template does not take a question and an answer: "
                    f"{error}. Give another `template`."
                ) from error
        before, mark, after = text.rpartition(MARK)
        if not mark:
            raise InvalidInput(
                "The tokenizer's chat template leaves answers out. Give another `template`."
            )
        return before, after


def _with_answer(template: str) -> str:
    """The template of a name, or a text that is one; with the place of the answer."""
    text = TEMPLATES.get(template, template)
    try:
        fields = [part for _, *part in string.Formatter().parse(text) if part[0] is not None]
    except ValueError:
        fields = []
    names = [part[0] for part in fields if part[1:] == ["", None]]
    asked = names[:-1] if names[-1:] == ["answer"] else names
    if set(asked) != {"question"} or len(names) < len(fields):
        raise InvalidInput(
            "`template` should contain {question}, then {answer} or nothing, and other braces only "
            f"twice, as in {{{{ and }}}}; or be one of {CHAT}, {', '.join(TEMPLATES)}. "
            f"(got {template!r})"
        )
    blank = "" if text[-1:].isspace() else " "
    return text if asked != names else f"{text}{blank}{{answer}}"


def _load(source: str | Path) -> Any:
    library = import_extra("transformers", "transformers", "Pretrained tokenizers")
    adapters = Path(source) / "adapter_config.json"
    if adapters.is_file() and not (Path(source) / "tokenizer_config.json").is_file():
        source = json.loads(adapters.read_text(encoding="utf-8"))["base_model_name_or_path"]
    try:
        return library.AutoTokenizer.from_pretrained(str(source))
    except (OSError, ValueError) as error:
        raise DataError(f"{source} is not a pretrained tokenizer: {error}") from error
