"""Tables from files, and from the datasets library where it is installed."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from PIL import Image

from expunge._errors import DataError, InvalidInput
from expunge.data import load
from tests.unit.data.tables import people, write_csv


@pytest.fixture
def table(tmp_path):
    return write_csv(tmp_path / "people.csv", people())


def test_a_csv_file_becomes_vectors_with_names(table):
    splits = load(f"csv:{table},label=income")
    assert (len(splits.train), len(splits.val), len(splits.test)) == (43, 5, 12)
    assert splits.train.kind == "vectors"
    assert splits.train.classes == ("high", "low")
    assert splits.train.inputs.shape == (43, 6)
    assert splits.in_channels == 6
    assert not splits.flip
    name, values = splits.train.names[0], splits.train.inputs[0].tolist()
    row = next(line.split(",") for line in people() if line.startswith(f"{name},"))
    assert values[:2] == [float(row[1]), pytest.approx(float(row[2]))]


def test_a_file_is_known_by_its_ending(table):
    whole = load(f"csv:{table},label=income")
    assert load(f"{table},label=income").train.fingerprint() == whole.train.fingerprint()


def test_tabs_separate_the_cells_of_a_tsv_file(tmp_path):
    lines = [line.replace(",", "\t") for line in people()]
    path = write_csv(tmp_path / "p.tsv", lines, "id\tage\thours\tjob\tlabel")
    assert load(str(path)).train.inputs.shape[1] == 6


def test_the_limit_is_learnt_from_too(tmp_path):
    lines = [f"{'cook' if k % 2 else k // 8},{'no' if k % 3 else 'yes'}" for k in range(60)]
    path = write_csv(tmp_path / "jobs.csv", lines, "job,label")
    small, large = load(str(path), limit=10), load(str(path))
    assert len(small.train) == 10
    assert small.in_channels < large.in_channels


def test_val_can_come_out_of_test(tmp_path):
    lines = [f"{line},{'test' if k % 5 == 0 else 'train'}" for k, line in enumerate(people())]
    path = write_csv(tmp_path / "parts.csv", lines, "id,age,hours,job,label,split")
    splits = load(str(path), val_from="test")
    assert (len(splits.train), len(splits.val) + len(splits.test)) == (48, 12)
    assert len(splits.val) in (4, 5, 6)


def test_a_regression_is_split_and_held_out_too(tmp_path):
    path = write_csv(tmp_path / "a.csv", [f"{k},{k / 3}" for k in range(50)], "x,y")
    splits = load(f"csv:{path},task=regression")
    assert splits.train.is_regression
    assert [len(part) for part in splits.by_name().values()] == [36, 4, 10]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is empty"),
        ("x,label\n", "should hold rows"),
        (",x,label\n0,1,a\n1,2,b\n", r"column 1 has none\).*index=False"),
        ("label\na\nb\n", "columns besides the label"),
        ("x,label,split\n1,a,train\n2,b,test\n", r"'label' .*'b' on line 3\) Move a row"),
        ("x,label,split\n1,20,train\n2,21,test\n", r"'21' on line 3.* add task=regression"),
        ("x,label,split\n1,a,train\n2,b,later\n", r"'later' on line 3\).*split=COLUMN"),
        (
            "x,label,split\n1,a,train\n2,b,train\n",
            r"for test\. .*Mark those that the model never saw",
        ),
    ],
)
def test_files_without_a_table_are_refused(tmp_path, text, complaint):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises((DataError, InvalidInput), match=complaint):
        load(f"csv:{path},label=label")


def test_an_option_that_does_not_exist_is_wrong_usage_whether_or_not_the_file_does(tmp_path):
    path = write_csv(tmp_path / "t.csv", ["1,a", "2,b"], "x,label")
    for name in (path, tmp_path / "gone.csv"):
        with pytest.raises(InvalidInput, match=r"Unknown option 'lable'\. Did you mean 'label'\?"):
            load(f"csv:{name},lable=label")


def test_classes_are_no_numbers_to_predict(tmp_path):
    path = write_csv(tmp_path / "t.csv", ["1,a", "2,b"], "x,label")
    with pytest.raises(DataError, match=r"got 'a' on line 2\).* leave task=regression out"):
        load(f"csv:{path},task=regression")


def test_a_column_of_image_files_becomes_an_image_set_with_its_splits(tmp_path):
    (tmp_path / "pictures").mkdir()
    lines = []
    for number in range(12):
        colour = (number % 2 * 200, 10, number)
        Image.new("RGB", (6, 5), colour).save(tmp_path / "pictures" / f"{number}.png")
        split = "train" if number < 8 else "val" if number < 10 else "test"
        lines.append(f"pictures/{number}.png,{split},{'bright' if number % 2 else 'dark'}")
    path = write_csv(tmp_path / "pictures.csv", lines, "file,split,label")
    splits = load(f"csv:{path},image=file,id=file")
    assert (len(splits.train), len(splits.val), len(splits.test)) == (8, 2, 2)
    assert (splits.train.shape, splits.in_channels, splits.flip) == ((3, 5, 6), 3, True)
    assert splits.train.images[3, :, 0, 0].tolist() == [200, 10, 3]
    assert splits.train.names[3] == "pictures/3.png"
    assert splits.encoding.rule == [
        {"column": "file", "as": "image", "size": [5, 6], "mode": "RGB"}
    ]
    (tmp_path / "pictures" / "9.png").unlink()
    with pytest.raises(DataError, match=r"no file .*9\.png, which .* 'file' names on line 11"):
        load(f"csv:{path},image=file,id=file")


@pytest.mark.parametrize(("kind", "package"), [("parquet", "pyarrow.parquet"), ("hf", "datasets")])
def test_what_is_not_installed_is_named_with_its_extra(tmp_path, monkeypatch, kind, package):
    monkeypatch.setitem(sys.modules, package, None)
    path = tmp_path / "x.parquet"
    path.write_bytes(b"")
    needed = package.partition(".")[0]
    with pytest.raises(InvalidInput, match=rf"need the package {needed}.*'expunge\[{kind}\]'"):
        load(f"{kind}:{path}")


def columns():
    """The table of people by columns, with their types."""
    rows = [line.split(",") for line in people()]
    names, age, hours, job, income = zip(*rows, strict=True)
    numbers = [int(value) for value in age], [float(value) for value in hours]
    return dict(zip(("id", "age", "hours", "job", "label"), (names, *numbers, job, income)))  # noqa: B905


def test_a_parquet_file_is_the_same_table(tmp_path, table):
    pyarrow = pytest.importorskip("pyarrow", reason="needs the extra parquet")
    from pyarrow import parquet

    path = tmp_path / "people.parquet"
    parquet.write_table(pyarrow.table({k: list(v) for k, v in columns().items()}), path)
    from_csv, from_parquet = load(f"csv:{table},label=income"), load(str(path))
    assert torch.equal(from_csv.train.inputs, from_parquet.train.inputs)
    assert torch.equal(from_csv.train.labels, from_parquet.train.labels)
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(DataError, match="cannot be read as a Parquet file"):
        load(str(path))


@pytest.fixture
def datasets():
    return pytest.importorskip("datasets", reason="needs the extra hf")


def test_a_saved_dataset_has_its_splits_and_class_names(tmp_path, datasets):
    features = datasets.Features(
        text=datasets.Value("string"), label=datasets.ClassLabel(names=["bad", "good"])
    )
    texts = ["fine wine", "sour wine", "fine", "sour"] * 5
    part = datasets.Dataset.from_dict({"text": texts, "label": [1, 0] * 10}, features=features)
    whole = {"train": part, "validation": part.select(range(4)), "test": part.select(range(6))}
    datasets.DatasetDict(whole).save_to_disk(str(tmp_path / "wines"))
    splits = load(f"hf:{tmp_path / 'wines'},text=text,vocabulary=100")
    assert (len(splits.train), len(splits.val), len(splits.test)) == (20, 4, 6)
    assert splits.train.classes == ("bad", "good")
    assert splits.train.inputs.shape == (20, 2)
    assert splits.in_channels == 100


def test_a_saved_dataset_of_images_and_one_without_splits(tmp_path, datasets):
    features = datasets.Features(image=datasets.Image(), label=datasets.ClassLabel(num_classes=2))
    pictures = [Image.new("L", (4, 4), 100 * (k % 2)) for k in range(20)]
    content = {"image": pictures, "label": [0, 1] * 10}
    made = datasets.Dataset.from_dict(content, features=features)
    made.save_to_disk(str(tmp_path / "grey"))
    splits = load(f"hf:{tmp_path / 'grey'},image=image")
    assert (len(splits.train) + len(splits.val), len(splits.test)) == (16, 4)
    assert splits.train.shape == (1, 4, 4)
    assert np.unique(splits.train.images.numpy()).tolist() == [0, 100]


def test_a_dataset_that_is_not_there_says_how_to_save_one(tmp_path, datasets, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(DataError, match=r"cannot load .*save_to_disk\(FOLDER\)"):
        load(f"hf:{tmp_path / 'nowhere'}")
