from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from expunge._errors import DataError, InvalidInput
from expunge.data import DATASETS, load


@pytest.fixture
def npz(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, x=np.zeros((50, 4, 4), np.uint8), y=np.arange(50) % 5)
    return path


@pytest.fixture
def folder(tmp_path):
    for name in ("ant", "bee"):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        for number in range(5):
            Image.new("RGB", (4, 4)).save(tmp_path / "pictures" / name / f"{number}.png")
    return tmp_path / "pictures"


def test_every_format_says_what_it_is():
    assert list(DATASETS) == ["digits", "cifar10", "cifar100", "svhn", "folder", "npz"]
    assert [DATASETS[name].flip for name in DATASETS] == [False, True, False, True, True]
    assert [DATASETS[name].needs_path for name in DATASETS] == [False, False, False, True, True]
    assert all(DATASETS[name].description for name in DATASETS)


def test_a_tenth_of_the_training_images_is_held_out(npz):
    splits = load(f"npz:{npz}")
    assert (len(splits.train), len(splits.val), len(splits.test)) == (36, 4, 10)
    assert (splits.name, splits.flip) == ("npz", True)


def test_the_seed_decides_the_split_and_nothing_else_does():
    first, again, other = load("digits", seed=1), load("digits", seed=1), load("digits", seed=2)
    assert first.train.fingerprint() == again.train.fingerprint()
    assert first.val.fingerprint() != other.val.fingerprint()
    assert first.test.fingerprint() == other.test.fingerprint()


def test_the_limit_is_taken_from_what_is_left_evenly():
    full, small = load("digits"), load("digits", limit=25)
    assert small.train.labels.bincount().sort().values.tolist() == [2] * 5 + [3] * 5
    assert small.val.fingerprint() == full.val.fingerprint()


def test_the_path_may_stand_in_the_name_or_beside_it_or_alone(npz, folder):
    prints = {
        load(*spec).train.fingerprint() for spec in [(f"npz:{npz}",), ("npz", npz), (str(npz),)]
    }
    assert len(prints) == 1
    assert load(str(folder)).name == load(f"folder:{folder}").name == "folder"


def test_a_validation_part_of_its_own_is_used(tmp_path):
    x, y = np.zeros((6, 4, 4), np.uint8), np.arange(6) % 2
    np.savez(tmp_path / "a.npz", x_train=x, y_train=y, x_test=x, y_test=y, x_val=x[:2], y_val=y[:2])
    splits = load(str(tmp_path / "a.npz"))
    assert (len(splits.train), len(splits.val), len(splits.test)) == (6, 2, 6)


def test_a_file_without_test_images_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros((1, 4, 4), np.uint8), y=np.array([0]))
    with pytest.raises(DataError, match="test part"):
        load(str(tmp_path / "a.npz"))


def test_unknown_names_get_the_nearest_suggestion():
    with pytest.raises(InvalidInput, match="Did you mean 'cifar10'"):
        load("cifar-10")


def test_a_path_is_given_once_where_one_is_needed(tmp_path):
    with pytest.raises(InvalidInput, match="should come with a path"):
        load("folder")
    with pytest.raises(InvalidInput, match="given once"):
        load(f"folder:{tmp_path}", tmp_path)
    with pytest.raises(InvalidInput, match="takes no path"):
        load("digits", tmp_path)
    with pytest.raises(DataError, match="There is no file or folder"):
        load(f"cifar10:{tmp_path / 'nowhere'}")


@pytest.mark.parametrize("spec", ["./nowhere", "nowhere.npz"])
def test_what_looks_like_a_path_is_told_to_be_missing(spec):
    with pytest.raises(DataError, match=f"There is no file or folder {spec.removeprefix('./')}"):
        load(spec)
