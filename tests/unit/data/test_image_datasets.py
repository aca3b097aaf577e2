"""CIFAR-10 and CIFAR-100 in their binary version, SVHN, and digits."""

from __future__ import annotations

import io
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from expunge._errors import DataError, InvalidInput
from expunge.data import DATASETS
from expunge.data import _image_datasets as image_datasets
from expunge.data._image_datasets import (
    CIFAR10,
    CIFAR100,
    load_cifar10,
    load_cifar100,
    load_digits,
    load_svhn,
)

RECORDS = 7
"""Images of every batch, instead of ten thousand."""
SMALL = {
    layout.title: replace(
        layout,
        train=dict.fromkeys(layout.train, RECORDS),
        test=dict.fromkeys(layout.test, RECORDS),
    )
    for layout in (CIFAR10, CIFAR100)
}
LOADERS = {"CIFAR-10": load_cifar10, "CIFAR-100": load_cifar100}


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(image_datasets, "CIFAR10", SMALL["CIFAR-10"])
    monkeypatch.setattr(image_datasets, "CIFAR100", SMALL["CIFAR-100"])


def batch_of(layout, name):
    """Label bytes and pixels of a batch."""
    rng = np.random.default_rng(len(name) + ord(name[-5]))
    labels = rng.integers(0, len(layout.classes), (RECORDS, layout.label_bytes), np.uint8)
    return labels, rng.integers(0, 256, (RECORDS, 3072), np.uint8)


def files_of(layout):
    names = [*layout.train, *layout.test]
    return {
        f"{layout.folder}/{name}": np.hstack(batch_of(layout, name)).tobytes() for name in names
    }


def unpack(root, layout):
    (root / layout.folder).mkdir()
    for name, data in files_of(layout).items():
        (root / name).write_bytes(data)
    (root / layout.folder / "batches.meta.txt").write_text("not a batch")
    return root / layout.folder


def pack(root, layout, extra=()):
    path = root / layout.archive
    with tarfile.open(path, "w:gz") as archive:
        for name, data in [*files_of(layout).items(), *extra]:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def assert_read(pair, layout=SMALL["CIFAR-10"]):
    for part, names in zip(pair, (layout.train, layout.test), strict=True):
        batches = [batch_of(layout, name) for name in names]
        labels = np.concatenate([labels[:, -1] for labels, _ in batches])
        assert part.labels.tolist() == labels.tolist(), "the fine labels, not the coarse ones"
        assert part.images.numpy().tobytes() == b"".join(pixels.tobytes() for _, pixels in batches)
        assert (part.classes, part.shape) == (layout.classes, (3, 32, 32))


@pytest.mark.parametrize("title", LOADERS)
@pytest.mark.parametrize("make", [unpack, pack])
def test_cifar_is_read_from_its_files_or_the_folder_around_them(tmp_path, make, title):
    place = make(tmp_path, SMALL[title])
    for root in (place, tmp_path):
        assert_read(LOADERS[title](root), SMALL[title])


def test_the_official_batches_have_these_sizes():
    assert (len(CIFAR10.train), sum(CIFAR10.train.values())) == (5, 50_000)
    assert (CIFAR100.train, CIFAR100.test) == ({"train.bin": 50_000}, {"test.bin": 10_000})


def test_classes_are_in_their_official_order():
    assert CIFAR10.classes[3] == "cat"
    classes = CIFAR100.classes
    assert len(classes) == len(set(classes)) == 100
    assert list(classes) == sorted(classes)
    assert (classes[0], classes[53], classes[99]) == ("apple", "orange", "worm")


@pytest.mark.parametrize(("title", "name"), [("CIFAR-10", "data_batch_3"), ("CIFAR-100", "train")])
def test_a_truncated_batch_is_named(tmp_path, title, name):
    batch = unpack(tmp_path, SMALL[title]) / f"{name}.bin"
    size = len(batch.read_bytes())
    batch.write_bytes(batch.read_bytes()[:-5])
    with pytest.raises(DataError, match=rf"{name}\.bin should be {size} .*got {size - 5}"):
        LOADERS[title](tmp_path)


def test_a_missing_batch_is_named(tmp_path):
    (unpack(tmp_path, SMALL["CIFAR-10"]) / "test_batch.bin").unlink()
    with pytest.raises(DataError, match=r"No such file.*test_batch\.bin"):
        load_cifar10(tmp_path)


def test_a_label_beyond_nine_is_damage(tmp_path):
    batch = unpack(tmp_path, SMALL["CIFAR-10"]) / "data_batch_1.bin"
    batch.write_bytes(b"\x0c" + batch.read_bytes()[1:])
    with pytest.raises(DataError, match="got 12 at index 0"):
        load_cifar10(tmp_path)


def test_an_archive_cut_short_is_damage(tmp_path):
    path = pack(tmp_path, SMALL["CIFAR-10"])
    path.write_bytes(path.read_bytes()[:20000])
    with pytest.raises(DataError, match="Get a fresh copy"):
        load_cifar10(path)


def test_other_members_of_the_archive_are_not_read(tmp_path):
    bait = ("elsewhere/data_batch_1.bin", b"short")
    assert_read(load_cifar10(pack(tmp_path, SMALL["CIFAR-10"], [bait])))


def test_a_folder_without_cifar_says_what_it_should_hold(tmp_path):
    with pytest.raises(DataError, match=r"cifar-10-batches-bin.*cifar-10-binary\.tar\.gz"):
        load_cifar10(tmp_path)


def test_cifar_10_is_not_taken_for_cifar_100(tmp_path):
    unpack(tmp_path, SMALL["CIFAR-10"])
    with pytest.raises(DataError, match=r"There is no CIFAR-100 in .*cifar-100-binary"):
        load_cifar100(tmp_path)


def test_cifar_100_is_a_data_set_by_name():
    assert DATASETS["CIFAR100"].flip


def test_without_a_root_the_cache_is_searched(tmp_path, monkeypatch):
    monkeypatch.setenv("EXPUNGE_CACHE", str(tmp_path))
    pack(tmp_path, SMALL["CIFAR-10"])
    assert_read(load_cifar10())


def test_without_a_copy_the_archive_is_fetched(tmp_path, monkeypatch):
    asked = []

    def fetch(url, path, md5):
        asked.append((url, md5))
        return pack(path.parent, SMALL["CIFAR-10"])

    monkeypatch.setenv("EXPUNGE_CACHE", str(tmp_path))
    monkeypatch.setattr(image_datasets, "fetch", fetch)
    assert_read(load_cifar10())
    url = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
    assert asked == [(url, "c32a1d4ab5d03f1284b67883e8d87530")]


def write_mat(root, name, labels, **changes):
    pixels = np.random.default_rng(0).integers(0, 256, (32, 32, 3, len(labels)), np.uint8)
    content = {"X": pixels, "y": np.array(labels, np.uint8)[:, None]} | changes
    savemat(root / f"{name}_32x32.mat", {key: v for key, v in content.items() if v is not None})
    return pixels


def test_the_official_files_are_read_with_ten_as_zero(tmp_path):
    pixels = write_mat(tmp_path, "train", [1, 10, 9, 5])
    write_mat(tmp_path, "test", [10, 2])
    train, test = load_svhn(tmp_path)
    assert train.labels.tolist() == [1, 0, 9, 5]
    assert test.labels.tolist() == [0, 2]
    assert train.shape == (3, 32, 32)
    assert np.array_equal(train.images[2].numpy(), pixels[..., 2].transpose(2, 0, 1))


def test_missing_file_is_named(tmp_path):
    write_mat(tmp_path, "train", [1])
    with pytest.raises(DataError, match=r"no test_32x32\.mat"):
        load_svhn(tmp_path)


@pytest.mark.parametrize("keep", [0, 20, 140, 3000])
def test_a_corrupt_file_is_named(tmp_path, keep):
    write_mat(tmp_path, "train", [1, 2])
    path = tmp_path / "train_32x32.mat"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataError, match=r"train_32x32\.mat"):
        load_svhn(tmp_path)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"y": None}, "KeyError.*'y'"),
        ({"X": np.zeros((32, 32, 3, 2))}, "got float64"),
        ({"X": np.zeros((2, 32, 32, 3), np.uint8)}, r"got uint8 of shape \(2, 32, 32, 3\)"),
        ({"y": np.array([[1], [11]])}, r"in 1\.\.10\. \(got 11 at index 1\)"),
        ({"y": np.array([[1], [0]])}, r"in 1\.\.10\. \(got 0 at index 1\)"),
        ({"y": np.array([[1]])}, "one for every image"),
    ],
)
def test_a_file_of_another_kind_is_refused(tmp_path, changes, complaint):
    write_mat(tmp_path, "train", [1, 2], **changes)
    with pytest.raises(DataError, match=complaint):
        load_svhn(tmp_path)


def test_without_a_root_both_files_are_fetched(tmp_path, monkeypatch):
    asked = []

    def fetch(url, path, md5):
        asked.append((url, md5))
        write_mat(path.parent, path.name.split("_")[0], [3])
        return path

    monkeypatch.setenv("EXPUNGE_CACHE", str(tmp_path))
    monkeypatch.setattr(image_datasets, "fetch", fetch)
    train, test = load_svhn()
    assert (len(train), len(test)) == (1, 1)
    site = "http://ufldl.stanford.edu/housenumbers/"
    assert asked == [
        (site + "train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373"),
        (site + "test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3"),
    ]


def test_grey_levels_span_a_byte():
    train, _ = load_digits()
    assert (int(train.images.min()), int(train.images.max())) == (0, 255)
    assert train.shape == (1, 8, 8)


def test_the_split_is_fixed_and_stratified():
    (train, test), (again, _) = load_digits(), load_digits()
    assert len(train) + len(test) == 1797
    assert train.fingerprint() == again.fingerprint()
    total = train.labels.bincount() + test.labels.bincount()
    assert ((test.labels.bincount() - total * 0.25).abs() <= 0.5).all()


def test_a_path_makes_no_sense():
    with pytest.raises(InvalidInput, match="takes no path"):
        load_digits(Path("here"))
