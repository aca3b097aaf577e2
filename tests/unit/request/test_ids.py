from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from torch import nn

from expunge._errors import DataError, InvalidInput
from expunge.data import Examples
from expunge.ledger._id_key import IdKey
from expunge.request._ids import resolve_ids
from expunge.request._run import forget
from tests.unit.request.worlds import job_of


def write(folder, name, text):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ids.txt", "7\n1/3.png\n 200 # asked on Monday\n"),
        ("ids.csv", "7\n1/3.png\n200\n"),
        ("ids.csv", "id,why\n7,asked\n1/3.png,asked\n200,\n"),
        ("ids.csv", "why,filename\nasked,7\n,1/3.png\n,200\n"),
        ("ids.tsv", "file\twhy\n7\t\n1/3.png\tx\n200\ty\n"),
        ("ids.json", '[7, "1/3.png", "200"]'),
    ],
)
def test_indices_and_names_are_read_from_every_kind_of_file(tmp_path, named, name, text):
    found = resolve_ids(job_of(tmp_path, ids=write(tmp_path, name, text)), named)
    assert found.indices == (3, 7, 200)
    assert found.ids == ("7", "1/3.png", "200")
    assert found.by_id == {"7": (7,), "1/3.png": (3,), "200": (200,)}
    assert found.repeated == 0


def test_the_id_column_of_the_data_comes_before_an_index_that_is_there_as_well(tmp_path, named):
    listed = write(tmp_path, "ids.csv", "index,person\n0,1/3.png\n1,7\n")
    job = job_of(tmp_path, ids=listed, data="csv:people.csv,label=y,id=person")
    assert resolve_ids(job, named).ids == ("1/3.png", "7")
    assert resolve_ids(job_of(tmp_path, ids=listed), named).ids == ("0", "1")
    card = SimpleNamespace(data=SimpleNamespace(spec=job.data))
    by_card = replace(named, card=card)  # the weights say what they were trained on
    assert resolve_ids(job_of(tmp_path, ids=listed, data=""), by_card).ids == ("1/3.png", "7")


def test_a_stray_quote_makes_up_no_id(tmp_path, named):
    with pytest.raises(DataError, match="line 2: this is not valid CSV"):
        resolve_ids(job_of(tmp_path, ids=write(tmp_path, "ids.csv", 'id\n"3\n17\n')), named)


def test_a_line_without_an_id_is_refused(tmp_path, named):
    path = write(tmp_path, "ids.csv", "filename,why\n1/3.png,asked\n,asked too\n")
    with pytest.raises(DataError, match="line 3: there should be an id in the column 'filename'"):
        resolve_ids(job_of(tmp_path, ids=path), named)


def test_ids_can_be_given_in_python(tmp_path, bare):
    assert resolve_ids(job_of(tmp_path), bare, [5, "2"]).indices == (2, 5)


def test_an_id_listed_twice_counts_once_and_is_reported(tmp_path, named):
    found = resolve_ids(job_of(tmp_path), named, [5, "1/6.png", "5", 8])
    assert found.indices == (5, 6, 8)
    assert found.ids == ("5", "1/6.png", "8")
    assert found.repeated == 1


def test_one_record_asked_for_by_two_ids_is_forgotten_once(tmp_path, named):
    assert resolve_ids(job_of(tmp_path), named, [5, "1/5.png"]).indices == (5,)


def test_the_digest_depends_on_what_is_asked_not_on_its_order(tmp_path, named):
    found = [resolve_ids(job_of(tmp_path), named, ids) for ids in ([1, 2], [2, 1], [1, 3])]
    one, two, other = (records.hashed(IdKey(bytes(32), tmp_path)).digest for records in found)
    assert one == two != other


def test_unknown_ids_are_all_counted_and_twenty_are_listed(tmp_path, bare):
    wrong = [f"x{index}yz" for index in range(25)]
    with pytest.raises(InvalidInput) as caught:
        resolve_ids(job_of(tmp_path), bare, ["3", *wrong])
    message = str(caught.value)
    assert "indices in 0..239: these records have no names" in message
    assert "25 of 26 have no training record" in message
    assert "(entry 21) and 5 more" in message
    assert "(entry 22)" not in message
    assert "Nothing was changed" in message
    assert "--skip-untrained" in message
    assert "`expunge.Examples(inputs, labels, classes, names)`), or give `records`." in message


def test_skipping_is_not_suggested_where_no_id_has_a_record(tmp_path, named):
    with pytest.raises(InvalidInput, match=r"2 of 2 .* Nothing was changed\. Correct the list\.$"):
        resolve_ids(job_of(tmp_path), named, ["nobody", "no one"])


@pytest.mark.parametrize("header", ["person_id", "user-id", "customerId", "E-Mail", "User Name"])
def test_a_header_that_names_ids_is_not_an_id(tmp_path, named, header):
    path = write(tmp_path, "ids.csv", f"{header}\n7\n1/3.png\n")
    assert resolve_ids(job_of(tmp_path, ids=path), named).ids == ("7", "1/3.png")


@pytest.mark.parametrize("first", ["david", "person"])
def test_another_word_may_be_a_person_and_is_refused_with_a_hint(tmp_path, named, first):
    path = write(tmp_path, "ids.csv", f"{first}\n7\n1/3.png\n")
    with pytest.raises(
        InvalidInput, match=r"Line 1 looks like a header: .* name it `id`"
    ) as caught:
        resolve_ids(job_of(tmp_path, ids=path), named)
    assert first not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [("ids.csv", "999\n7\n"), ("ids.csv", "7\ndavid\n"), ("ids.txt", "person_id\n7\n")],
)
def test_what_cannot_be_a_header_is_not_called_one(tmp_path, named, name, text):
    with pytest.raises(InvalidInput, match="1 of 2 have no training record") as caught:
        resolve_ids(job_of(tmp_path, ids=write(tmp_path, name, text)), named)
    assert "header" not in str(caught.value)


def test_a_word_that_is_all_there_is_was_asked_for(tmp_path, named):
    path = write(tmp_path, "ids.csv", "person_id\nperson_id\n")
    with pytest.raises(InvalidInput, match="1 of 1 have no training record"):
        resolve_ids(job_of(tmp_path, ids=path), named)


def test_a_record_with_the_name_of_a_header_is_a_record(tmp_path, named):
    names = ("person_id", *named.train.names[1:])
    train = Examples(named.train.inputs, named.train.labels, named.train.classes, names)
    path = write(tmp_path, "ids.csv", "person_id\n1/3.png\n")
    assert resolve_ids(job_of(tmp_path, ids=path), replace(named, train=train)).indices == (0, 3)


@pytest.mark.parametrize("entry", ["240", "-1", "1.5", "07"])
def test_what_is_no_index_is_unknown(tmp_path, bare, entry):
    with pytest.raises(InvalidInput, match=r"1 of 1 have no training record: '.…' \(entry 1\)"):
        resolve_ids(job_of(tmp_path), bare, [entry])


@pytest.mark.parametrize("records", [False, True])
def test_no_message_tells_an_id(tmp_path, named, records):
    """Logs are read by people who may not know who asked to be forgotten."""
    table = write(
        tmp_path,
        "records.csv",
        "name,person\n"
        + "".join(f"1/{index}.png,{'berta' if index else 'carl'}\n" for index in range(240)),
    )
    path = write(tmp_path, "ids.txt", "# asked\n1/1.png\nanna@example.org\nb\n2/4.png\n")
    given = {"records": table, "id_column": "person"} if records else {}
    with pytest.raises(InvalidInput) as caught:
        resolve_ids(job_of(tmp_path, ids=path, **given), named)
    message = str(caught.value)
    assert "'ann…' (line 3), '…' (line 4)" in message
    assert not any(entry in message for entry in ("anna", "'b'", "2/4.png", "1/1.png"))


def test_an_id_of_val_or_test_is_said_to_be_so(tmp_path, named):
    with pytest.raises(InvalidInput, match="Of these, 2 are in val or test only"):
        resolve_ids(job_of(tmp_path), named, ["1/1.png", "2/4.png", "3/1.png", "nobody"])


def test_ids_without_a_training_record_can_be_skipped_and_are_counted(tmp_path, named):
    job = job_of(tmp_path, skip_untrained=True)
    found = resolve_ids(job, named, ["1/1.png", "2/4.png", "3/1.png", "nobody"])
    assert (found.indices, found.ids, found.skipped) == ((1,), ("1/1.png",), 3)
    assert found.left_out == {"val": (4,), "test": (1,)}, "they are a requester's all the same"
    with pytest.raises(InvalidInput, match=r"2 of 2 have no .*Correct the list\.$"):
        resolve_ids(job, named, ["2/4.png", "nobody"])


def test_records_that_earlier_requests_left_out_stay_out(tmp_path, named):
    job = job_of(tmp_path, skip_untrained=True)
    found = resolve_ids(job, named, ["1/1.png", "2/4.png"])
    assert found.leaving_out({"val": (2, 4), "test": (9,)}).left_out == {
        "val": (2, 4),
        "test": (9,),
    }


def test_where_names_are_numbers_every_id_is_a_name(tmp_path, bare):
    train = bare.train
    numbers = [str(1000 + index) for index in range(len(train))]
    renamed = Examples(train.inputs, train.labels, train.classes, numbers)
    loaded = replace(bare, train=renamed)
    assert resolve_ids(job_of(tmp_path), loaded, [1003]).indices == (3,)
    with pytest.raises(InvalidInput, match=r"Ids should be names of training records\. \(1 of 1"):
        resolve_ids(job_of(tmp_path), loaded, [3])


def test_a_shared_name_stands_for_all_its_records(tmp_path, bare):
    train = bare.train
    shared = Examples(train.inputs, train.labels, train.classes, ["a", "b"] * 120)
    found = resolve_ids(job_of(tmp_path), replace(bare, train=shared), ["a"])
    assert found.indices == tuple(range(0, 240, 2))


def test_forgetting_everything_is_refused(tmp_path, bare):
    with pytest.raises(InvalidInput, match="got all 240 to forget"):
        resolve_ids(job_of(tmp_path), bare, range(240))


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("ids.txt", b"\xff\xfe\x81", "UTF-8"),
        ("ids.csv", b"\xff\xfe\x81", "UTF-8"),
        ("ids.json", b"[1,", "not valid JSON"),
        ("ids.txt", b"# nothing\n", "is empty"),
        ("none.csv", None, "cannot be read as .*: there is no such file"),
    ],
)
def test_unreadable_files_are_clear_errors(tmp_path, bare, name, content, complaint):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=complaint):
        resolve_ids(job_of(tmp_path, ids=tmp_path / name), bare)


def test_no_ids_at_all_is_an_error(tmp_path, bare):
    with pytest.raises(InvalidInput, match="`ids` should be given"):
        resolve_ids(job_of(tmp_path), bare)
    with pytest.raises(InvalidInput, match=r"one record or more\. \(got none\)"):
        resolve_ids(job_of(tmp_path), bare, [])


def test_control_characters_in_an_id_are_written_out(tmp_path, bare):
    with pytest.raises(InvalidInput, match=r"'\\x1b\[2…'"):
        resolve_ids(job_of(tmp_path), bare, ["\x1b[2Jgone"])


@pytest.mark.parametrize("entry", [1.5, None, True, b"1", [1], (1, 2), object()])
def test_an_id_is_a_string_or_a_whole_number(tmp_path, bare, entry):
    with pytest.raises(InvalidInput, match=rf"\(got {type(entry).__name__} as entry 2\)"):
        resolve_ids(job_of(tmp_path), bare, [1, entry])


@pytest.mark.parametrize("ids", [b"12", bytearray(b"12"), memoryview(b"12"), {1: "ann"}, 12, None])
def test_what_is_no_list_of_ids_is_refused(tmp_path, ids):
    with pytest.raises(InvalidInput, match="a list of ids, or a file of them"):
        forget(model=nn.Linear(1, 1), data=(), ids=ids, out=tmp_path)


def ask(folder, loaded, text, ids, column="person", name="records.csv", **values):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    given = {"records": path, "id_column": column, "allow_unmapped": True}
    return resolve_ids(job_of(folder, **(given | values)), loaded, ids)


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
    assert found.left_out == {"val": (1,), "test": (2,)}
    with pytest.raises(InvalidInput, match=r"Of these, 1 is in val or test only"):
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
