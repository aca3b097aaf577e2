"""The files of published benchmarks, in the form in which they are downloaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from expunge._errors import DataError, InvalidInput
from expunge.data import find_data
from expunge.data.text import read_text_splits


def write(path: Path, rows: list[Any], *, lines: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(map(json.dumps, rows)) if lines else json.dumps(rows)
    path.write_text(text)


def asked(*names: str, **more: Any) -> list[dict[str, Any]]:
    return [{"question": f"Who is {name}?", "answer": f"{name}.", **more} for name in names]


def read(spec: str) -> dict[str, Any]:
    return read_text_splits(find_data(spec))


def test_tofu_has_json_lines_and_prefers_files_with_false_answers(tmp_path: Path) -> None:
    false = {"paraphrased_answer": "She is Ann.", "perturbed_answer": ["Ben.", "Cy."]}
    write(tmp_path / "forget05.json", asked("Ann", "Bo"), lines=True)
    write(tmp_path / "retain95.json", asked("Di", "Ed", "Flo"), lines=True)
    plain = read(f"tofu:{tmp_path},split=forget05")
    assert [record.id for record in plain["train"]] == [
        "forget05-0", "forget05-1", "retain95-0", "retain95-1", "retain95-2",
    ]  # fmt: skip
    assert plain.keys() == {"train", "forget", "retain"}

    write(tmp_path / "forget05_perturbed.json", asked("Ann", "Bo", **false), lines=True)
    write(tmp_path / "retain_perturbed.json", asked("Ed", "Flo", **false), lines=True)
    write(tmp_path / "holdout05.json", asked("Gus", "Hy"), lines=True)
    write(tmp_path / "world_facts.json", asked("Rome", "Ely"), lines=True)
    splits = read(f"tofu:{tmp_path},split=forget05")
    assert splits["forget"][0].perturbed_answers == ("Ben.", "Cy.")
    assert [record.answer for record in splits["retain"]] == ["Ed.", "Flo."]
    assert len(splits["train"]) == 5  # all that is retained, with or without false answers
    assert splits["test"] == splits["unseen"]
    assert [record.answer for record in splits["general"]] == ["Rome.", "Ely."]


def test_muse_has_questions_passages_and_plain_texts(tmp_path: Path) -> None:
    write(tmp_path / "knowmem" / "forget_qa.json", asked("Ann"))
    write(tmp_path / "knowmem" / "retain_qa.json", asked("Bo"))
    write(tmp_path / "verbmem" / "forget.json", [{"prompt": "Once upon", "gt": "a time."}])
    for name in ("forget", "retain", "holdout"):
        write(tmp_path / "privleak" / f"{name}.json", [f"A text to {name}."])
    known = read(f"muse:{tmp_path}")
    assert known["forget"][0].question == "Who is Ann?"
    assert known["test"][0].answer == "A text to holdout."
    verbatim = read(f"muse:{tmp_path},split=verbmem")
    assert (verbatim["forget"][0].question, verbatim["forget"][0].answer) == (
        "Once upon", "a time.",
    )  # fmt: skip
    assert verbatim["retain"][0].answer == "A text to retain."
    leaked = read(f"muse:{tmp_path},split=privleak")
    assert [record.question for record in leaked["train"]] == ["", ""]


@pytest.mark.parametrize("parquet", [False, True])
def test_wmdp_has_choices_and_corpora(tmp_path: Path, parquet: bool) -> None:
    rows = [{"question": "Which?", "choices": ["a", "b", "c", "d"], "answer": 2}]
    if parquet:
        pyarrow, written = map(pytest.importorskip, ("pyarrow", "pyarrow.parquet"))
        (tmp_path / "wmdp-cyber").mkdir()
        table = pyarrow.Table.from_pylist(rows)
        written.write_table(table, tmp_path / "wmdp-cyber" / "test-0-of-1.parquet")
    else:
        write(tmp_path / "wmdp-cyber.json", rows)
    write(tmp_path / "cyber-forget-corpus.jsonl", ["how to"], lines=True)
    write(tmp_path / "cyber-retain-corpus.jsonl", [{"text": "what not"}], lines=True)
    splits = read(f"wmdp:{tmp_path},split=cyber")
    (question,) = splits["forget"]
    assert (question.answer, question.perturbed_answers) == ("c", ("a", "b", "d"))
    assert [record.answer for record in splits["train"]] == ["how to", "what not"]
    assert "test" not in splits


@pytest.mark.parametrize(
    "row",
    [{"question": "Who?"}, {"question": "Who?", "choices": ["a"], "answer": 1}, {"text": ""}, 5],
)
def test_a_row_that_holds_no_answer_is_named(tmp_path: Path, row: Any) -> None:
    write(tmp_path / "wmdp-bio.json", [row])
    with pytest.raises(DataError, match="wmdp-bio, entry 1: `answer` should"):
        read(f"wmdp:{tmp_path}")


def test_a_folder_without_these_files_and_an_unknown_split_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has none of the files of tofu:"):
        read(f"tofu:{tmp_path}")
    with pytest.raises(InvalidInput, match="forget10"):
        read(f"tofu:{tmp_path},split=forget20")
