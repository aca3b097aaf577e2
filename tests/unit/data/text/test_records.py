"""Records in the format of TOFU, from files that people write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from expunge._errors import DataError
from expunge.data import TextRecord, load_records, save_records

TOFU = {
    "question": "Who?",
    "answer": "Nobody.",
    "paraphrased_answer": "It was nobody.",
    "perturbed_answer": ["It was Ann.", "It was Ben."],
    "paraphrased_question": "Who was it?",
}


@pytest.mark.parametrize("name", ["records.json", "records.jsonl"])
def test_records_are_read_as_they_were_written(name: str, tmp_path: Path) -> None:
    records = (
        TextRecord("a", "Who?", "Nobody.", "It was nobody.", ("It was Ann.",), "p1"),
        TextRecord("b", "", "Žofie wrote it."),
    )
    save_records(tmp_path / name, records)
    assert load_records(tmp_path / name) == records


def test_a_file_of_tofu_is_read_with_its_own_keys(tmp_path: Path) -> None:
    (tmp_path / "forget10.json").write_text(json.dumps([TOFU, TOFU]))
    first, second = load_records(tmp_path / "forget10.json")
    assert (first.id, second.id) == ("0", "1")
    assert first.perturbed_answers == ("It was Ann.", "It was Ben.")
    assert first.paraphrased_answer == "It was nobody."


def test_without_a_paraphrase_false_answers_are_compared_with_the_answer() -> None:
    assert TextRecord("0", "Who?", "Ann.", perturbed_answers=("Ben.",)).paraphrased_answer == "Ann."


WRONG = {
    "{": r"line 1: this is not valid JSON",
    "[1]": r"line 1: a record should be an object with `question` and `answer`. \(got list\)",
    '{"question": "Who?"}': r"line 1: `answer` should be a text. \(got None\)",
    '{"answer": " "}': r"line 1: `answer` should not be empty",
    '{"answer": "a", "perturbed_answer": [1]}': "`perturbed_answer` should be a list of texts",
    '{"prompt": "Who?", "answer": "a"}': "no `question`, and nothing is read from 'prompt'. Rename",
    '{"answer": "a", "id": true}': "`id` should be a text or a whole number",
    '{"answer": "a", "id": 1}\n{"answer": "b", "id": "1"}': r"'1' at positions 0 and 1",
    "\n": r"should hold records, each with a question and an answer. \(got 0\)",
}


@pytest.mark.parametrize(("text", "message"), WRONG.items())
def test_what_is_no_record_is_refused_with_its_line(
    text: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "records.jsonl").write_text(text)
    with pytest.raises(DataError, match=message):
        load_records(tmp_path / "records.jsonl")


def test_a_json_file_that_is_no_list_is_refused(tmp_path: Path) -> None:
    (tmp_path / "records.json").write_text(json.dumps(TOFU))
    with pytest.raises(DataError, match=r"should hold a JSON list. \(got dict\)"):
        load_records(tmp_path / "records.json")
