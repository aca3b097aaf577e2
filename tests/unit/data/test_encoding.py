"""Cells become numbers by a rule that training rows alone decide."""

from __future__ import annotations

import zlib

import pytest
import torch

from expunge._errors import DataError
from expunge.data._encoding import encode_splits, hash_words
from expunge.data._table import Table, assign_roles, divide_rows

SPLIT = ["train"] * 6 + ["val", "test"]
LABEL = ["no", "yes"] * 4


def encoded(options=None, **columns):
    """Train, val, test and the encoding of a table with these columns."""
    table = Table("t.csv", columns | {"split": SPLIT, "label": LABEL}, lines=range(2, 10))
    train, test, val = divide_rows(table, assign_roles(table, options or {}))
    assert val is not None
    return encode_splits(train, val, test)


def test_numbers_stay_as_they_are():
    train, val, test, encoding = encoded(age=["20", "30.5", "40", "-1", "1e3", "0", "7", "8"])
    assert train.inputs[:, 0].tolist() == [20, 30.5, 40, -1, 1000, 0]
    assert (val.inputs.item(), test.inputs.item(), encoding.size) == (7, 8, 1)
    assert train.inputs.dtype == torch.float32


def test_categories_have_a_column_each_and_rare_or_unknown_ones_share_the_last():
    train, val, test, encoding = encoded(job=["b", "a", "b", "a", "c", "b", "c", "d"])
    assert train.inputs.tolist() == [
        *[[0, 1, 0], [1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 1, 0]]
    ]
    assert val.inputs.tolist() == test.inputs.tolist() == [[0, 0, 1]]
    assert encoding.size == 3


def test_val_and_test_have_no_say_in_the_encoding():
    one = encoded(job=["a", "b"] * 3 + ["a", "b"], age=[1, 2, 3, 4, 5, 6, 7, 8])
    other = encoded(job=["a", "b"] * 3 + ["z", "z"], age=[1, 2, 3, 4, 5, 6, 700, 800])
    assert one[3] == other[3]
    assert torch.equal(one[0].inputs, other[0].inputs)


def test_numbers_can_be_called_categories():
    train, *_, encoding = encoded({"categories": "zip"}, zip=["01", "02", "01", "02"] * 2)
    assert train.inputs[:2].tolist() == [[1, 0, 0], [0, 1, 0]]
    assert encoding.rule[0]["as"] == "category"


def test_missing_cells_are_refused_with_what_to_do():
    complaint = r"'age' .* no missing values\. \(got '' on line 3\).*ignore=age"
    with pytest.raises(DataError, match=complaint):
        encoded(age=["1", "", "3", "nan", "5", "6", "7", "8"])
    with pytest.raises(DataError, match=r"no missing values\. \(got 'nan' on line 9\)"):
        encoded(age=["1", "2", "3", "4", "5", "6", "7", "nan"])


def test_words_are_hashed_by_the_stated_rule():
    train, val, _, encoding = encoded(
        {"text": "note", "vocabulary": 50},
        note=["Good wine", "bad, BAD wine!", "", "a_b", "x", "ünder", "one two three four", "x"],
    )
    expected = [1 + zlib.crc32(word.encode()) % 49 for word in ("bad", "bad", "wine")]
    assert train.inputs[1].tolist() == expected
    assert train.inputs[0].tolist()[2:] == [0]
    assert train.inputs[2].tolist() == [0, 0, 0]
    assert train.inputs[3, :2].count_nonzero() == 2
    assert val.inputs.shape == (1, 3), "longer texts are cut where the longest of train ends"
    assert (train.kind, train.inputs.dtype, encoding.size) == ("tokens", torch.int64, 50)


def test_words_of_several_columns_are_one_text_of_limited_length():
    options = {"text": "a+b", "length": 3}
    train, *_, encoding = encoded(options, a=["one two"] * 8, b=["three four"] * 8)
    assert train.inputs[0].tolist() == hash_words("one two three")
    assert encoding.rule == [
        {"column": name, "as": "hashed words", "length": 3, "vocabulary": 16384} for name in "ab"
    ]


def test_no_word_is_ever_padding():
    ids = hash_words(" ".join(str(number) for number in range(5000)), 7)
    assert set(ids) == {1, 2, 3, 4, 5, 6}


@pytest.mark.parametrize("cells", [["3 1", "2"] * 4, [[3, 1], [2]] * 4])
def test_token_ids_are_taken_as_they_are(cells):
    train, *_, encoding = encoded({"tokens": "ids"}, ids=cells)
    assert train.inputs[:2].tolist() == [[3, 1], [2, 0]]
    assert encoding.size == 4


def test_a_token_that_train_lacks_needs_a_stated_vocabulary():
    ids = ["1", "2"] * 3 + ["9", "1"]
    with pytest.raises(DataError, match=r"below 3\. \(got '9' on line 8\).*vocabulary=N"):
        encoded({"tokens": "ids"}, ids=ids)
    assert encoded({"tokens": "ids", "vocabulary": 10}, ids=ids)[1].inputs.item() == 9


@pytest.mark.parametrize("cell", ["1 -2", "one", "1.5", [2, -1], 3.5, None, "1048576"])
def test_what_is_no_token_id_is_named(cell):
    with pytest.raises(DataError, match=r"whole numbers below 1048576 .* on line 4\)"):
        encoded({"tokens": "ids"}, ids=["1", "2", cell, "1", "2", "1", "1", "1"])


def test_a_column_that_is_neither_numbers_nor_categories_says_what_it_may_be():
    names = [f"person {k}" for k in range(8)]
    complaint = r"6 different values in 6 training rows, such as 'person 0' on line 2.*ignore=name"
    with pytest.raises(DataError, match=complaint):
        encoded(name=names)


def test_a_word_among_the_numbers_of_test_is_named():
    with pytest.raises(DataError, match=r"'age' .* as in train\. \(got 'old' on line 9\)"):
        encoded(age=["1", "2", "3", "4", "5", "6", "7", "old"])
    with pytest.raises(DataError, match=r"\(got 'inf' on line 9\)"):
        encoded(age=["1", "2", "3", "4", "5", "6", "7", "inf"])


def test_what_is_written_about_an_encoding_names_no_value():
    *_, encoding = encoded(job=["nurse", "cook"] * 4, age=list(range(8)))
    described = encoding.rule
    assert [(row["column"], row["as"], row["width"]) for row in described] == [
        ("job", "category", 3),
        ("age", "number", 1),
    ]
    assert "nurse" not in str(described)
    assert len(described[0]["values_sha256"]) == 64
    *_, other = encoded(job=["nurse", "clerk"] * 4, age=list(range(8)))
    assert other.rule[0]["values_sha256"] != described[0]["values_sha256"]
