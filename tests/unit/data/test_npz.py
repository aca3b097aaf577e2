from __future__ import annotations

import numpy as np
import pytest

from expunge._errors import DataError
from expunge.data import _npz as npz
from expunge.data import load
from expunge.data._npz import load_npz

RNG = np.random.default_rng(0)
X = RNG.integers(0, 256, (10, 3, 6, 5), np.uint8)
Y = np.arange(10) % 2


def save(tmp_path, **arrays):
    np.savez(tmp_path / "data.npz", **arrays)
    return tmp_path / "data.npz"


def parts(x=X, y=Y, **more):
    return {"x_train": x, "y_train": y, "x_test": x[:4], "y_test": y[:4]} | more


def test_train_and_test_are_read(tmp_path):
    train, test, _ = load_npz(save(tmp_path, **parts()))
    assert (len(train), len(test)) == (10, 4)
    assert np.array_equal(train.images.numpy(), X)
    assert train.labels.tolist() == Y.tolist()
    assert train.classes == ("0", "1")


def test_channels_may_come_last_or_not_at_all(tmp_path):
    last, *_ = load_npz(save(tmp_path, **parts(X.transpose(0, 2, 3, 1))))
    assert np.array_equal(last.images.numpy(), X)
    grey, *_ = load_npz(save(tmp_path, **parts(X[:, 0])))
    assert np.array_equal(grey.images.numpy(), X[:, :1])


def test_fractions_become_bytes(tmp_path):
    train, *_ = load_npz(save(tmp_path, **parts((X / 255).astype(np.float32))))
    assert np.array_equal(train.images.numpy(), X)


def test_whole_numbers_of_any_width_become_bytes(tmp_path):
    train, *_ = load_npz(save(tmp_path, **parts(X.astype(np.int64))))
    assert np.array_equal(train.images.numpy(), X)


def test_of_one_part_a_fifth_of_every_class_is_test(tmp_path):
    path = save(tmp_path, x=X, y=Y, ids=np.arange(100, 110))
    assert load_npz(path)[1:] == (None, None)
    splits = load(str(path), val_fraction=0.0)
    train, test = splits.train, splits.test
    assert (len(train), len(test)) == (8, 2)
    assert sorted(test.labels.tolist()) == [0, 1]
    assert sorted(train.names + test.names) == [str(i) for i in range(100, 110)]


def test_classes_and_ids_are_names(tmp_path):
    path = save(tmp_path, **parts(classes=np.array(["no", "yes"]), ids=np.arange(10)))
    train, test, _ = load_npz(path)
    assert train.classes == test.classes == ("no", "yes")
    assert train.names[3] == "3"
    assert test.names is None


def test_a_validation_part_is_read_if_there_is_one(tmp_path):
    assert load_npz(save(tmp_path, **parts()))[2] is None
    val = load_npz(save(tmp_path, **parts(x_val=X[:3], y_val=np.array([0, 1, 2]))))[2]
    assert val.labels.tolist() == [0, 1, 2]
    assert load_npz(tmp_path / "data.npz")[0].classes == val.classes == ("0", "1", "2")


def test_missing_keys_are_listed_beside_those_found(tmp_path):
    with pytest.raises(DataError, match=r"missing: x, y; found: images, labels"):
        load_npz(save(tmp_path, images=X, labels=Y))
    with pytest.raises(DataError, match="missing: y_test"):
        load_npz(save(tmp_path, x_train=X, y_train=Y, x_test=X))


@pytest.mark.parametrize(
    ("arrays", "complaint"),
    [
        (parts(X * 1.0), r"in \[0, 1\]"),
        (parts(np.full((10, 4, 4), np.nan)), r"in \[0, 1\]"),
        (parts(X.astype(np.int16) * 2), r"in \[0, 255\]"),
        (parts(X > 3), "should hold numbers"),
        (parts(X[:, :2]), "1 or 3 channels"),
        (parts(X[:, 0, 0, 0]), "NHW, NHWC or NCHW"),
        (parts(y=Y * 0.5), "one whole number per example"),
        (parts(y=np.eye(10, dtype=int)), "one whole number per example"),
        (parts(y=Y - 1), "got -1 at index 0"),
        (parts(y=Y + 10**9), "Renumber them"),
        (parts(y=Y[:5]), "one for every image"),
        (parts(classes=np.array(["only"])), "got 1 at index 1"),
        (parts(ids=np.arange(3)), "one name for each of 10 images"),
        (parts(x=np.array([None, {}])), "without Python objects"),
    ],
)
def test_arrays_that_are_no_dataset_are_refused(tmp_path, arrays, complaint):
    with pytest.raises(DataError, match=complaint):
        load_npz(save(tmp_path, **arrays))


@pytest.mark.parametrize("other", [X[:4, :, :5], X[:4, :1], np.zeros((4, 7), np.float32)])
def test_parts_of_unlike_inputs_are_refused(tmp_path, other):
    path = save(tmp_path, **parts(x_test=other))
    with pytest.raises(DataError, match=r"The test part of .*like those of train. \(got "):
        load("npz", path)


def test_damaged_files_are_named(tmp_path):
    path = save(tmp_path, **parts())
    content = path.read_bytes()
    for damaged in (b"", b"text", content[:500], content.replace(b"NUMPY", b"NUMPX")):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"data\.npz"):
            load_npz(path)
    with path.open("wb") as file:
        np.save(file, X)
    with pytest.raises(DataError, match=r"data\.npz"):
        load_npz(path)
    with pytest.raises(DataError, match="There is no file"):
        load_npz(tmp_path / "nowhere.npz")


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x=np.zeros((2000, 8, 8), np.uint8), y=np.arange(2000) % 2)
    assert len(load_npz(path)[0]) == 2000
    monkeypatch.setattr(npz, "ALWAYS_FINE", 1 << 10)
    monkeypatch.setattr(npz, "MAX_RATIO", 10)
    with pytest.raises(DataError, match=r"unpack to 10 times its own size.* numpy.savez, which"):
        load_npz(path)
