from __future__ import annotations

import os

import pytest

from expunge._errors import DataError
from expunge.data._id_file import read_ids, read_placed_ids


@pytest.mark.parametrize(
    ("name", "text", "ids"),
    [
        ("a.txt", "# asked on Monday\n3\n\n cat/1.png  # his cat\n", ("3", "cat/1.png")),
        ("a.txt", "picture#7.png\r\n4\r\n", ("picture#7.png", "4")),
        ("a", "\ufeff12\n", ("12",)),
        ("a.csv", "who,ID\nann,3\nbob,5\n", ("3", "5")),
        ("a.csv", 'name,why\n"x, y.png",asked\n', ("x, y.png",)),
        ("a.csv", "3,ann\n5,bob\n", ("3", "5")),
        ("a.csv", "index\n3\n\n5\n", ("3", "5")),
        ("a.csv", 'id\n"3\n17"\n', ("3\n17",)),
        ("a.csv", 'id\n"a ""b"""\n', ('a "b"',)),
        ("a.txt", "a\x857\u20288.png\n", ("a\x857\u20288.png",)),
        ("a.tsv", "ids\tnote\n3\tok\n", ("3",)),
        ("a.json", '[3, "cat/1.png"]', (3, "cat/1.png")),
        ("a.json", '[{"id": "ann-1", "answer": "No."}]', ("ann-1",)),
        ("a.jsonl", '{"question": "Who?", "id": "ann-1"}\n"ann-2"\n7\n', ("ann-1", "ann-2", 7)),
    ],
)
def test_every_kind_of_list_is_read(tmp_path, name, text, ids):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8", newline="")
    assert read_ids(path) == ids


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("a.txt", "# nothing\n\n", "is empty"),
        ("a.csv", "id\n", "is empty"),
        ("a.csv", "who,id\nann\n", r"line 2: every line should have 2 cells.*\(got 1\)"),
        ("a.csv", "name\nx, y.png\n", r"line 2: every line should have 1 cells.*\(got 2\)"),
        ("a.csv", "who,id\n\nann,\n", "line 3: there should be an id in the column 'id'"),
        ("a.csv", "3,ann\n,bob\n", "line 2: there should be an id in the first column"),
        ("a.csv", 'id\n"3\n17\n', "line 2: this is not valid CSV: unexpected end of data"),
        ("a.csv", 'id\n3\n"4"5\n', "line 3: this is not valid CSV"),
        ("a.tsv", "id\twhy\tID\n3\tx\t4\n", r"line 1: every column .*\(got 'id' 2 times\)"),
        ("a.json", "[]", "is empty"),
        ("a.json", "[1,", "not valid JSON"),
        ("a.json", '{"ids": [1]}', r"should hold a JSON list\. \(got dict\)"),
        ("a.json", "[7, 1.5]", r"entry 2: .*whole numbers\. \(got float\)"),
        ("a.json", "[true]", r"whole numbers\. \(got bool\)"),
        ("a.jsonl", '"ann"\n[4]\n', r"line 2: .*whole numbers\. \(got list\)"),
    ],
)
def test_what_is_no_list_of_ids_is_refused(tmp_path, name, text, complaint):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(DataError, match=complaint):
        read_ids(path)


@pytest.mark.parametrize(
    ("name", "text", "places"),
    [
        ("a.txt", "# asked\n3\n\n4\n", ["line 2", "line 4"]),
        ("a.csv", 'id,why\n"3",\n4,"two\nlines"\n5,\n', ["line 2", "line 3", "line 5"]),
        ("a.jsonl", '"ann"\n\n7\n', ["line 1", "line 3"]),
        ("a.json", '["ann", 7]', ["entry 1", "entry 2"]),
    ],
)
def test_every_id_is_known_by_its_place(tmp_path, name, text, places):
    (tmp_path / name).write_text(text)
    assert [place for place, _ in read_placed_ids(tmp_path / name)] == places


def test_a_file_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(DataError, match="UTF-8"):
        read_ids(path)


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.json"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(DataError, match=r"should be a regular .* file\. \(got a pipe\)"):
        read_ids(tmp_path / name)


def test_a_name_that_no_file_can_have_is_a_clear_error(tmp_path):
    for name in ("a\0b", "x" * 300):
        with pytest.raises(DataError, match="cannot be read"):
            read_ids(tmp_path / name)
