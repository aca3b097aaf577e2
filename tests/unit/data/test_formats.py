from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from expunge._errors import DataError, InvalidInput
from expunge.data import DATASETS, absolute_spec, load


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
    built_in = ["digits", "cifar10", "cifar100", "svhn"]
    texts = ["qa", "tofu", "muse", "wmdp"]
    files = ["folder", "npz", "csv", "parquet", "hf", *texts]
    assert list(DATASETS) == [*built_in, *files]
    assert [name for name in DATASETS if not DATASETS[name].flip] == ["digits", "svhn", *texts]
    assert [name for name in DATASETS if DATASETS[name].needs_path] == files
    assert all(DATASETS[name].description for name in DATASETS)


def test_images_are_scaled_as_their_model_was_trained(npz, folder):
    plain, scaled = load(f"npz:{npz}"), load(f"npz:{npz},mean=0.5,std=0.25")
    assert scaled.train.inputs.dtype == torch.float32
    assert torch.equal(scaled.train.inputs, (plain.train.inputs / 255 - 0.5) / 0.25)
    assert scaled.flip == plain.flip
    channels = load(f"folder:{folder},mean=0.1+0.2+0.3,std=0.5").train.inputs[0, :, 0, 0]
    assert channels.tolist() == pytest.approx([-0.2, -0.4, -0.6])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("mean=x", r"`mean` should be a number, or one for each of 1 channels.*got 'x'"),
        ("mean=0.1+0.2", "each of 1 channels"),
        ("std=0", "`std` should be a positive number"),
        ("std=nan", "`std` should be a positive number"),
    ],
)
def test_a_scale_that_cannot_be_meant_is_refused(npz, options, words):
    with pytest.raises(InvalidInput, match=words):
        load(f"npz:{npz},{options}")


def test_only_images_are_scaled(tmp_path):
    np.savez(tmp_path / "v.npz", x=np.zeros((50, 4), np.float32), y=np.arange(50) % 5)
    with pytest.raises(InvalidInput, match=r"are for images\. \(got vectors\)"):
        load(f"npz:{tmp_path / 'v.npz'},mean=0.5")


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


def test_an_unknown_scheme_names_the_known_ones():
    complaint = r"Unknown dataset 'jsonl'\. Known: digits, .*, hf, qa, tofu, muse, wmdp; .*factory"
    with pytest.raises(InvalidInput, match=complaint):
        load("jsonl:people.jsonl")
    with pytest.raises(InvalidInput, match=r"Did you mean 'csv'\? Known: digits"):
        load("cvs:people.csv")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (",lable=y", "Did you mean 'label'"),
        (",kind=pictures", "`kind` should be one of images, vectors, tokens"),
        (",vocabulary=1", "`vocabulary` should be a whole number, at least 2"),
        (",vocabulary=99999999999", "a whole number, at least 2 and at most 1048576"),
    ],
)
def test_options_of_a_format_are_checked(npz, options, complaint):
    with pytest.raises((DataError, InvalidInput), match=complaint):
        load(f"csv:{npz}{options}" if "lable" in options else f"npz:{npz}{options}")


def test_a_function_gives_data_wherever_a_name_does(tmp_path, monkeypatch):
    (tmp_path / "formats_data.py").write_text(
        "import torch\nfrom torch.utils.data import TensorDataset\n"
        "def load():\n"
        "    make = lambda n: TensorDataset(torch.rand(n, 3), torch.arange(n) % 3)\n"
        "    return make(30), make(12)\n"
    )
    monkeypatch.chdir(tmp_path)
    splits = load("formats_data:load")
    assert (len(splits.train), len(splits.val), len(splits.test)) == (27, 3, 12)
    assert absolute_spec("formats_data:load") == "formats_data:load"


def test_a_spec_made_absolute_keeps_its_options(npz, monkeypatch):
    monkeypatch.chdir(npz.parent)
    assert absolute_spec("npz:mine.npz,kind=images") == f"npz:{npz},kind=images"
    assert absolute_spec("mine.npz") == f"npz:{npz}"
    assert absolute_spec("hf:imdb,text=text") == "hf:imdb,text=text"
    assert absolute_spec("random:0.1") == "random:0.1"
    assert absolute_spec("ids:mine.txt") == f"ids:{npz.parent / 'mine.txt'}"


def test_arrays_of_two_axes_are_vectors_or_token_ids(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.arange(60).reshape(20, 3), y=np.arange(20) % 2)
    vectors, tokens = load(str(path)), load(f"{path},kind=tokens")
    assert (vectors.train.kind, vectors.in_channels) == ("vectors", 3)
    assert tokens.train.kind == "tokens"
    np.savez(path, x=np.full((20, 3), 1 << 20), y=np.arange(20) % 2)
    with pytest.raises(DataError, match=r"token ids in 0\.\.1048575\. \(got 1048576\)"):
        load(f"{path},kind=tokens")
    np.savez(path, x=np.ones((20, 3)), y=np.arange(20) / 7)
    numbers = load(f"{path},task=regression")
    assert numbers.train.is_regression
    np.savez(path, x=np.full((20, 3), np.nan), y=np.arange(20) % 2)
    with pytest.raises(DataError, match="should be finite"):
        load(str(path))
