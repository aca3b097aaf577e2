"""Which column is what, and which rows are for what."""

from __future__ import annotations

import pytest
import torch

from expunge._errors import DataError, InvalidInput
from expunge.data import load
from expunge.data._table import Table, assign_roles, divide_rows

COLUMNS = {
    "Id": ["a", "b", "c", "d", "e", "f"],
    "x": [1, 2, 3, 4, 5, 6],
    "words": ["so", "it", "goes", "on", "and", "on"],
    "part": ["train", "train", "train", "dev", "test", "Testing"],
    "label": ["no", "yes", "no", "yes", "no", "yes"],
}
TABLE = Table("t.csv", COLUMNS, lines=range(2, 8))


def rows(table: Table = TABLE, **options: str):
    return divide_rows(table, assign_roles(table, options))


def test_label_and_id_are_found_by_their_names_and_the_rest_are_inputs():
    roles = assign_roles(TABLE, {})
    assert (roles.label, roles.id, roles.split, roles.kind) == ("label", "Id", None, "vectors")
    assert roles.inputs == ("x", "words", "part")


def test_options_name_columns_in_any_case():
    roles = assign_roles(TABLE, {"label": "X", "id": "words", "split": "PART", "ignore": "id"})
    assert (roles.label, roles.id, roles.split) == ("x", "words", "part")
    assert roles.inputs == ("label",)


def test_several_columns_are_joined_by_a_plus():
    assert assign_roles(TABLE, {"ignore": "words+part"}).inputs == ("x",)
    assert assign_roles(TABLE, {"text": "words+part"}).inputs == ("words", "part")


def test_the_split_column_decides_and_has_its_usual_spellings():
    train, test, val = rows(split="part")
    assert [part.inputs.tolist() for part in (train, val, test)] == [[0, 1, 2], [3], [4, 5]]
    assert train.classes == ("no", "yes")
    assert train.names == ("a", "b", "c")
    assert train.labels.tolist() == [0, 1, 0]


def test_without_a_split_column_a_fixed_fifth_of_every_class_is_for_test(tmp_path):
    table = Table("t.csv", {"x": list(range(50)), "y": ["a"] * 40 + ["b"] * 10})
    assert rows(table)[1:] == (None, None)
    lines = [f"{x},{y}" for x, y in zip(*table.columns.values(), strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["x,y", *lines]))
    splits = load(str(tmp_path / "t.csv"), val_fraction=0.0)
    assert torch.bincount(splits.test.labels).tolist() == [8, 2]
    assert torch.cat((splits.train.inputs, splits.test.inputs)).sort(0).values.tolist() == [
        [x] for x in range(50)
    ]
    assert load(str(tmp_path / "t.csv"), seed=1).test.fingerprint() == splits.test.fingerprint()


def test_a_regression_has_numbers_for_labels_and_no_classes():
    table = Table("t.csv", {"x": list(range(50)), "y": [f"{k / 4}" for k in range(50)]})
    train, _, _ = rows(table, task="regression")
    assert train.is_regression
    assert torch.equal(train.labels, train.inputs.float() / 4)


def test_classes_that_are_numbers_are_in_the_order_of_numbers():
    table = Table("t.csv", {"x": [0] * 6, "y": ["10", "9", "2.5", "10", "9", "2.5"]})
    assert rows(table)[0].classes == ("2.5", "9", "10")


def test_a_subset_of_rows_keeps_its_table():
    train = rows(split="part")[0]
    part = train.subset([2, 0])
    assert (part.table, part.names, part.inputs.tolist()) == (train.table, ("c", "a"), [2, 0])


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"label": "income"}, r"`label` should be a column of t\.csv: Id, x, .* \(got 'income'\)"),
        ({"ignore": "x+y"}, r"`ignore` should be a column of t\.csv.*\(got 'y'\)"),
        ({"text": "words", "image": "x"}, r"give text or image, not both"),
        ({"tokens": "x+words"}, r"`tokens` should be one column\. \(got 2\)"),
        ({"text": "words", "label": "words"}, r"leave out the column to predict\. \(got 'words'"),
        ({"text": "words+label"}, r"`text` should leave out the column to predict\. \(got 'label'"),
        ({"image": "LABEL"}, r"`image` should leave out the column to predict"),
        ({"label": "id"}, r"`label` should be a column of its own\. \(got 'Id'"),
        ({"label": "part", "split": "part"}, r"`label` should be a column of its own"),
    ],
)
def test_options_that_do_not_fit_the_table_are_wrong_usage(options, complaint):
    with pytest.raises(InvalidInput, match=complaint):
        assign_roles(TABLE, options)


def test_a_table_without_a_label_says_how_to_name_one():
    with pytest.raises(InvalidInput, match=r"label, labels, .* \(got a, b\) .*: label=b\."):
        assign_roles(Table("t.csv", {"a": [1], "b": [2]}), {})
    with pytest.raises(InvalidInput, match=r"label=b\."):
        assign_roles(Table("t.csv", {"id": [0], "b": [2], "split": ["train"]}), {})


@pytest.mark.parametrize(
    ("change", "options", "complaint"),
    [
        ({"part": ["train"] * 5 + ["later"]}, {"split": "part"}, r"\(got 'later' on line 7\)"),
        ({"part": ["train"] * 6}, {"split": "part"}, r"some rows should be for test"),
        ({"label": ["no", ""] * 3}, {}, r"a label in every row\. \(got '' on line 3\)"),
        ({"Id": ["a", None, *"cdef"]}, {}, r"name every row\. \(got '' on line 3\)"),
        (
            {"label": ["a", "a", "a", "a", "b", "c"]},
            {"split": "part"},
            r"occur in train\. \(got 'b' on",
        ),
        ({"label": ["1", "x"] * 3}, {"task": "regression"}, r"finite numbers\. \(got 'x' on"),
        ({"label": ["1", "inf"] * 3}, {"task": "regression"}, r"finite numbers\. \(got 'inf'"),
    ],
)
def test_rows_that_cannot_be_read_are_named_by_their_lines(change, options, complaint):
    with pytest.raises(DataError, match=complaint):
        rows(Table("t.csv", COLUMNS | change, lines=range(2, 8)), **options)


def test_too_many_classes_look_like_numbers():
    table = Table("t.csv", {"x": [0] * 1001, "y": [str(k / 7) for k in range(1001)]})
    with pytest.raises(DataError, match=r"at most 1000 classes.*task=regression"):
        rows(table)


def test_a_column_whose_values_are_all_different_holds_no_classes():
    columns = {"x": [0] * 40, "review": [f"{k} of 5 stars" for k in range(40)]}
    with pytest.raises(
        DataError, match=r"each of several rows\. \(got 40 different values in 40 ro"
    ):
        rows(Table("t.parquet", columns), label="review")


def test_no_rows_are_an_error():
    with pytest.raises(DataError, match="should hold rows"):
        rows(Table("t.csv", {"x": [], "y": []}))
