from __future__ import annotations

import numpy as np
import pytest
from scipy.io import savemat

from expunge._errors import DataError
from expunge.data import _svhn as svhn
from expunge.data._svhn import load_svhn


def write(root, name, labels, **changes):
    pixels = np.random.default_rng(0).integers(0, 256, (32, 32, 3, len(labels)), np.uint8)
    content = {"X": pixels, "y": np.array(labels, np.uint8)[:, None]} | changes
    savemat(root / f"{name}_32x32.mat", {key: v for key, v in content.items() if v is not None})
    return pixels


def test_the_official_files_are_read_with_ten_as_zero(tmp_path):
    pixels = write(tmp_path, "train", [1, 10, 9, 5])
    write(tmp_path, "test", [10, 2])
    train, test = load_svhn(tmp_path)
    assert train.labels.tolist() == [1, 0, 9, 5]
    assert test.labels.tolist() == [0, 2]
    assert train.shape == (3, 32, 32)
    assert np.array_equal(train.images[2].numpy(), pixels[..., 2].transpose(2, 0, 1))


def test_missing_file_is_named(tmp_path):
    write(tmp_path, "train", [1])
    with pytest.raises(DataError, match=r"no test_32x32\.mat"):
        load_svhn(tmp_path)


@pytest.mark.parametrize("keep", [0, 20, 140, 3000])
def test_a_corrupt_file_is_named(tmp_path, keep):
    write(tmp_path, "train", [1, 2])
    path = tmp_path / "train_32x32.mat"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataError, match=r"train_32x32\.mat"):
        load_svhn(tmp_path)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"y": None}, "missing: y"),
        ({"X": np.zeros((32, 32, 3, 2))}, "got float64"),
        ({"X": np.zeros((2, 32, 32, 3), np.uint8)}, r"got uint8 of shape \(2, 32, 32, 3\)"),
        ({"y": np.array([[1], [11]])}, r"in 1\.\.10\. \(got 11 at index 1\)"),
        ({"y": np.array([[1], [0]])}, r"in 1\.\.10\. \(got 0 at index 1\)"),
        ({"y": np.array([[1]])}, "one for every image"),
    ],
)
def test_a_file_of_another_kind_is_refused(tmp_path, changes, complaint):
    write(tmp_path, "train", [1, 2], **changes)
    with pytest.raises(DataError, match=complaint):
        load_svhn(tmp_path)


def test_without_a_root_both_files_are_fetched(tmp_path, monkeypatch):
    asked = []

    def fetch(url, path, md5):
        asked.append((url, md5))
        write(path.parent, path.name.split("_")[0], [3])
        return path

    monkeypatch.setenv("EXPUNGE_CACHE", str(tmp_path))
    monkeypatch.setattr(svhn, "fetch", fetch)
    train, test = load_svhn()
    assert (len(train), len(test)) == (1, 1)
    site = "http://ufldl.stanford.edu/housenumbers/"
    assert asked == [
        (site + "train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373"),
        (site + "test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3"),
    ]
