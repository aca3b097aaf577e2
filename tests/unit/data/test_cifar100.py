"""CIFAR-100 in both of its official forms."""

from __future__ import annotations

import io
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest

from expunge._errors import DataError
from expunge.data import DATASETS, ImageSet
from expunge.data import _cifar100 as cifar100
from expunge.data._cifar100 import CLASSES, load_cifar100

SIZES = {"train": 9, "test": 4}


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar100, "TRAIN_RECORDS", SIZES["train"])
    monkeypatch.setattr(cifar100, "TEST_RECORDS", SIZES["test"])


def records(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pixels, coarse and fine labels."""
    random = np.random.default_rng(len(name))
    pixels = random.integers(0, 256, (SIZES[name], 3072), np.uint8)
    return pixels, random.integers(0, 20, SIZES[name]), random.integers(0, 100, SIZES[name])


def binary(name: str) -> bytes:
    pixels, coarse, fine = records(name)
    return np.column_stack([coarse.astype(np.uint8), fine.astype(np.uint8), pixels]).tobytes()


def python(name: str) -> bytes:
    pixels, coarse, fine = records(name)
    content = {
        b"data": pixels,
        b"coarse_labels": coarse.tolist(),
        b"fine_labels": fine.tolist(),
        b"filenames": [f"{name}_{k}.png" for k in range(SIZES[name])],
    }
    return pickle.dumps(content, protocol=2)


FORMS = {
    "binary": (binary, ".bin", "cifar-100-binary", "fine_label_names.txt"),
    "python": (python, "", "cifar-100-python", "meta"),
}


def unpack(root: Path, form: str) -> Path:
    write, suffix, folder, other = FORMS[form]
    (root / folder).mkdir()
    for name in SIZES:
        (root / folder / f"{name}{suffix}").write_bytes(write(name))
    (root / folder / other).write_text("not a batch")
    return root / folder


def pack(root: Path, form: str) -> Path:
    write, suffix, folder, _ = FORMS[form]
    path = root / f"{folder}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in SIZES:
            info = tarfile.TarInfo(f"{folder}/{name}{suffix}")
            info.size = len(write(name))
            archive.addfile(info, io.BytesIO(write(name)))
    return path


def assert_read(part: ImageSet, name: str) -> None:
    pixels, _, fine = records(name)
    assert part.labels.tolist() == fine.tolist(), "the fine labels, not the coarse ones"
    assert part.images.numpy().tobytes() == pixels.tobytes()
    assert (part.num_classes, part.shape) == (100, (3, 32, 32))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("make", [unpack, pack])
def test_both_forms_are_read_packed_and_unpacked(tmp_path: Path, make, form: str) -> None:
    place = make(tmp_path, form)
    for root in (place, tmp_path):
        for part, name in zip(load_cifar100(root), SIZES, strict=True):
            assert_read(part, name)


def test_classes_are_in_their_official_order() -> None:
    assert len(CLASSES) == len(set(CLASSES)) == 100
    assert list(CLASSES) == sorted(CLASSES)
    assert (CLASSES[0], CLASSES[53], CLASSES[99]) == ("apple", "orange", "worm")


def test_a_file_of_another_length_is_damage(tmp_path: Path) -> None:
    file = unpack(tmp_path, "binary") / "train.bin"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(DataError, match=rf"train\.bin should be {9 * 3074} bytes"):
        load_cifar100(tmp_path)


def test_cifar_10_is_not_taken_for_it(tmp_path: Path) -> None:
    (tmp_path / "cifar-10-batches-bin").mkdir()
    with pytest.raises(DataError, match=r"There is no CIFAR-100 in .*cifar-100-binary"):
        load_cifar100(tmp_path)


def test_it_is_a_data_set_by_name() -> None:
    assert DATASETS["CIFAR100"].flip
