from __future__ import annotations

import pytest

from expunge._errors import DataError, InvalidInput
from expunge.request._ids import resolve_ids
from tests.unit.request.worlds import job_of


def ask(folder, subject, text, ids, column="person", name="records.csv", **values):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    given = {"records": path, "id_column": column, "allow_unmapped": True}
    return resolve_ids(job_of(folder, **(given | values)), subject, ids)


def test_a_table_that_maps_only_a_part_is_refused_unless_that_is_allowed(tmp_path, bare):
    """Whoever is missing in the table would be told that nothing of theirs is there."""
    lines = [
        f"{index},{'' if index == 3 else 'ann' if index < 9 else 'bob'}" for index in range(239)
    ]
    text = "\n".join(["index,person", *lines])
    with pytest.raises(
        InvalidInput, match=r"each of the 240 .*'person'\. \(2 have none\).*unmapped"
    ):
        ask(tmp_path, bare, text, ["ann"], allow_unmapped=False)
    assert ask(tmp_path, bare, text, ["ann"]).unmapped == 2
    whole = text.replace("3,\n", "3,bob\n") + "\n239,bob\n"
    assert ask(tmp_path, bare, whole, ["ann"], allow_unmapped=False).unmapped == 0


@pytest.mark.parametrize("key", ["index", "Index", " INDEX "])
def test_a_person_stands_for_all_of_their_records(tmp_path, bare, key):
    text = f"{key},person\n5,ann\n3,bob\n9,ann\n7,\n5,ann\n"
    found = ask(tmp_path, bare, text, ["ann"])
    assert found.indices == (5, 9)
    assert found.by_id == {"ann": (5, 9)}


@pytest.mark.parametrize("key", ["name", "file", "filename"])
def test_records_can_be_known_by_name(tmp_path, named, key):
    text = f"person,{key}\nann,1/5.png\nbob,1/3.png\nann,1/9.png\n"
    assert ask(tmp_path, named, text, ["ann", "bob"]).indices == (3, 5, 9)


def test_tabs_and_quoted_line_breaks_are_understood(tmp_path, named):
    assert ask(tmp_path, named, "file\tperson\n1/5.png\tann, b\n", ["ann, b"], name="r.tsv").indices
    text = 'index,note,person\n4,"two\nlines",ann\n'
    assert ask(tmp_path, named, text, ["ann"]).indices == (4,)


def test_ids_that_are_numbers_are_values_of_the_column_not_indices(tmp_path, bare):
    assert ask(tmp_path, bare, "index,person\n5,17\n17,18\n", [17]).indices == (5,)


def test_records_in_val_and_test_are_found_and_not_forgotten(tmp_path, named):
    text = "name,person\n1/5.png,ann\n2/1.png,ann\n3/2.png,ann\n2/2.png,bob\n"
    found = ask(tmp_path, named, text, ["ann"])
    assert found.indices == (5,)
    assert found.unseen == {"val": (1,), "test": (2,)}
    with pytest.raises(InvalidInput, match=r"Of these, 1 are in val or test only"):
        ask(tmp_path, named, text, ["ann", "bob"])


def test_a_person_who_is_not_there_is_refused(tmp_path, bare):
    with pytest.raises(
        InvalidInput, match=r"values of the column 'person' of .*: 'e…' \(entry 2\)"
    ):
        ask(tmp_path, bare, "index,person\n5,ann\n", ["ann", "eve"])


def test_ids_are_read_from_the_column_of_that_name(tmp_path, bare):
    (tmp_path / "r.csv").write_text("index,person\n5,ann\n6,bob\n")
    (tmp_path / "ids.csv").write_text("person,asked\nbob,Monday\n")
    given = {"records": tmp_path / "r.csv", "id_column": "person", "ids": tmp_path / "ids.csv"}
    job = job_of(tmp_path, **given, allow_unmapped=True)
    assert resolve_ids(job, bare).indices == (6,)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("person,age\nann,3\n", r"should have a column index, name, file or filename.*'person'"),
        (
            "index,person\n5,ann\n240,bob\nx,bob\n",
            r"\(2 do not: '2…' on line 3, '…' on line 4\)",
        ),
        ("index,person\n-1,ann\n", r"index in 0\.\.239.*'-…' on line 2"),
        ("index,person\n,ann\n", r"'…' on line 2"),
        ("index,person\n5\n", r"line 2: every line should have 2 cells.*\(got 1\)"),
        ('index,person\n5,"ann\n6,bob\n', "line 2: this is not valid CSV"),
        ("index,person,Person\n5,ann,bob\n", r"line 1: every column .*'person' 2 times"),
        ("", "is empty"),
    ],
)
def test_a_table_that_does_not_match_the_data_is_refused(tmp_path, bare, text, complaint):
    with pytest.raises(DataError, match=complaint):
        ask(tmp_path, bare, text, ["ann"])


def test_a_name_that_no_record_has_is_refused(tmp_path, named):
    with pytest.raises(DataError, match=r"a known name .*'1/9…' on line 2"):
        ask(tmp_path, named, "name,person\n1/999.png,ann\n", ["ann"])


def test_names_for_records_without_names_are_refused(tmp_path, bare):
    with pytest.raises(
        InvalidInput, match=r"have no names\. Give their indices in a column 'index'"
    ):
        ask(tmp_path, bare, "file,person\na.png,ann\n", ["ann"])


@pytest.mark.parametrize("column", ["who", None])
def test_the_id_column_should_be_there(tmp_path, bare, column):
    with pytest.raises(
        InvalidInput, match=r"`id_column` should be a column of .*: 'person', 'age'"
    ):
        ask(tmp_path, bare, "index,person,age\n5,ann,3\n", ["ann"], column=column)


def test_an_unreadable_table_is_a_clear_error(tmp_path, bare):
    (tmp_path / "r.csv").write_bytes(b"\xff\xfe")
    job = job_of(tmp_path, records=tmp_path / "r.csv", id_column="person")
    with pytest.raises(DataError, match="cannot be read"):
        resolve_ids(job, bare, ["ann"])
