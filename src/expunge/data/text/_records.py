"""Records of question and answer in the format of TOFU, read from JSON or JSON lines.

A record is an object with ``question`` and ``answer``. ``paraphrased_answer`` says the same in
other words and ``perturbed_answer`` is a list of false answers in those words; the truth ratio
needs both. ``id`` names the record (default: its position), ``person`` whom it is about. Other keys
are ignored (Maini et al., 2024), unless there is no ``question``: it may stand under one of them. A
text without a question has none of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expunge._errors import DataError, InvalidInput
from expunge._files import write_text
from expunge._kinds import check_arguments, check_fields
from expunge.data._id_file import read_json_entries

PERTURBED = ("perturbed_answer", "perturbed_answers")
"""TOFU's own name of the list, and the one that people write."""
KEYS = ("id", "person", "question", "answer", "paraphrased_answer", *PERTURBED)


@dataclass(frozen=True)
class TextRecord:
    """A question with its answer, and what metrics need besides.

    ``paraphrased_answer`` is empty and ``perturbed_answers`` is () where there are none.
    """

    id: str
    question: str
    answer: str
    paraphrased_answer: str = ""
    perturbed_answers: tuple[str, ...] = ()
    person: str = ""

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.answer.strip():
            raise InvalidInput(f"`answer` should not be empty. (got {self.answer!r})")
        if self.perturbed_answers and not self.paraphrased_answer:
            object.__setattr__(self, "paraphrased_answer", self.answer)

    def as_dict(self) -> dict[str, Any]:
        """Plain values with TOFU's keys; what is empty is left out."""
        values: dict[str, Any] = {
            "id": self.id,
            "person": self.person,
            "question": self.question,
            "answer": self.answer,
            "paraphrased_answer": self.paraphrased_answer,
            "perturbed_answer": list(self.perturbed_answers),
        }
        return {name: value for name, value in values.items() if value}


def load_records(path: str | Path) -> tuple[TextRecord, ...]:
    """The records in a file: a list in ``.json``, or an object per line.

    Ids should differ; without any, they are positions, from 0.
    """
    check_arguments(load_records, locals())
    path = Path(path)
    records = [
        as_record(values, f"{path}, {place}", str(position))
        for position, (place, values) in enumerate(read_json_entries(path))
    ]
    if not records:
        raise DataError(f"{path} should hold records, each with a question and an answer. (got 0)")
    seen: dict[str, int] = {}
    for position, record in enumerate(records):
        if record.id in seen:
            raise DataError(
                f"{path}: every id should be there once. (got {record.id!r} at positions "
                f"{seen[record.id]} and {position})"
            )
        seen[record.id] = position
    return tuple(records)


def save_records(path: str | Path, records: Iterable[TextRecord], *, private: bool = False) -> None:
    """Write records as JSON lines, or as a list where the name ends in ``.json``."""
    plain = [record.as_dict() for record in records]
    if Path(path).suffix.lower() == ".json":
        text = json.dumps(plain, ensure_ascii=False, indent=1) + "\n"
    else:
        text = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in plain)
    write_text(path, text, private=private)


def refuse_as_images(path: Path, **_: Any) -> Any:
    """Say where texts can be used: they are not images, which other commands take."""
    raise InvalidInput(
        f"{path} holds texts, which `expunge forget` and `expunge evaluate` take, and "
        "`expunge.TextSet` in Python."
    )


def as_record(values: Any, place: str, position: str = "") -> TextRecord:
    """The record that plain values with TOFU's keys describe, or what is wrong with them."""
    if not isinstance(values, dict):
        raise DataError(
            f"{place}: a record should be an object with `question` and `answer`. "
            f"(got {type(values).__name__})"
        )

    def text(name: str, default: str | None = None) -> str:
        value = values.get(name, default)
        if not isinstance(value, str):
            raise DataError(f"{place}: `{name}` should be a text. (got {value!r})")
        return value

    unread = [repr(key) for key in values if key not in KEYS]
    if "question" not in values and unread:
        raise DataError(
            f"{place}: there is no `question`, and nothing is read from {', '.join(unread)}. "
            "Rename the key of the question; if the text has none, leave the other keys out."
        )
    name = values.get("id", position)
    if isinstance(name, bool) or not isinstance(name, str | int):
        raise DataError(f"{place}: `id` should be a text or a whole number. (got {name!r})")
    key = next((key for key in PERTURBED if key in values), PERTURBED[0])
    perturbed = values.get(key, [])
    perturbed = [perturbed] if isinstance(perturbed, str) else perturbed
    if not isinstance(perturbed, list) or not all(isinstance(each, str) for each in perturbed):
        raise DataError(f"{place}: `{key}` should be a list of texts. (got {perturbed!r})")
    try:
        return TextRecord(
            str(name),
            text("question", ""),
            text("answer"),
            text("paraphrased_answer", ""),
            tuple(perturbed),
            text("person", ""),
        )
    except InvalidInput as error:
        raise DataError(f"{place}: {error}") from error
