from __future__ import annotations

import types

import numpy as np
import pytest
import torch

from expunge._errors import DataError, InvalidInput
from expunge.request.subject._splits import gather_data, load_data
from tests.unit.request.worlds import bytes_of, floats, images, job_of


@pytest.fixture
def npz(tmp_path):
    (x, y), (tx, ty) = images(80, 1), images(40, 2)
    path = tmp_path / "mine.npz"
    np.savez(path, x_train=x, y_train=y, x_test=tx, y_test=ty)
    return path


def test_val_comes_out_of_test_so_that_indices_mean_what_they_mean(tmp_path, npz):
    data = load_data(job_of(tmp_path, data=f"npz:{npz}"))
    assert torch.equal(data.train.images, torch.from_numpy(images(80, 1)[0]))
    assert (len(data.val), len(data.test)) == (8, 32)
    assert data.val_taken_from == "test"
    assert torch.bincount(data.val.labels).tolist() == [2, 2, 2, 2]
    whole = torch.cat((data.val.images, data.test.images)).flatten(1)
    assert len(whole.unique(dim=0)) == 40


def test_val_can_come_out_of_train(tmp_path, npz):
    data = load_data(job_of(tmp_path, data=f"npz:{npz}", val_from="train"))
    assert (len(data.train), len(data.val), len(data.test)) == (72, 8, 40)
    assert torch.bincount(data.val.labels).tolist() == [2, 2, 2, 2]


def test_a_val_split_of_the_data_is_kept(tmp_path, npz):
    arrays = dict(np.load(npz))
    np.savez(npz, **arrays, x_val=arrays["x_test"][:12], y_val=arrays["y_test"][:12])
    data = load_data(job_of(tmp_path, data=f"npz:{npz}"))
    assert (len(data.train), len(data.val), len(data.test)) == (80, 12, 40)
    assert data.val_taken_from == ""


def test_the_same_seed_holds_out_the_same(tmp_path, npz):
    one, two, other = (
        load_data(job_of(tmp_path, data=f"npz:{npz}", data_seed=seed)).val.fingerprint()
        for seed in (0, 0, 1)
    )
    assert one == two != other


def test_a_large_val_leaves_half_of_test(tmp_path, npz):
    data = load_data(job_of(tmp_path, data=f"npz:{npz}", val_fraction=0.9))
    assert (len(data.val), len(data.test)) == (20, 20)


def test_a_limit_thins_out_the_training_records(tmp_path):
    given = (floats(80, 1), floats(40, 2))
    assert len(gather_data(given, job_of(tmp_path, data_limit=16)).train) == 16


def test_every_form_of_splits_is_understood(tmp_path):
    train, val, test = floats(40, 1), floats(12, 2), floats(20, 3)
    job = job_of(tmp_path)
    forms = [
        (train, val, test),
        [train, val, test],
        {"train": train, "val": val, "test": test},
        types.SimpleNamespace(train=train, val=val, test=test),
    ]
    for form in forms:
        data = gather_data(form, job)
        assert [len(part) for part in (data.train, data.val, data.test)] == [40, 12, 20]
    for form in [(train, test), {"train": train, "test": test}, (train, None, test)]:
        assert gather_data(form, job).val_taken_from == "test"


@pytest.mark.parametrize("form", [None, 3, (1,), {"train": floats(4, 0)}])
def test_other_forms_are_refused(tmp_path, form):
    with pytest.raises(InvalidInput, match=r"should return \(train, test\), \(train, val, test\)"):
        gather_data(form, job_of(tmp_path))


def test_classes_should_be_the_same_everywhere(tmp_path):
    other = bytes_of(8, 0)
    other.classes = ("cat", "bee", "ant", "dog")
    with pytest.raises(DataError, match="same classes"):
        gather_data((bytes_of(8, 1), other), job_of(tmp_path))


def test_a_factory_in_the_current_directory_gives_the_data(tmp_path, monkeypatch):
    (tmp_path / "inputs_data.py").write_text(
        "import torch\nfrom torch.utils.data import TensorDataset\n"
        "def load():\n"
        "    make = lambda n: TensorDataset(torch.rand(n, 3), torch.arange(n) % 3)\n"
        "    torch.manual_seed(0)\n"
        "    return make(30), make(12)\n"
    )
    monkeypatch.chdir(tmp_path)
    data = load_data(job_of(tmp_path, data="inputs_data:load"))
    assert (len(data.train), len(data.val), len(data.test)) == (30, 3, 9)


def test_no_data_is_an_error(tmp_path):
    with pytest.raises(InvalidInput, match="`data` should be given"):
        load_data(job_of(tmp_path))


def test_a_test_split_too_small_to_share_is_an_error(tmp_path):
    with pytest.raises(DataError, match="too small to take val"):
        gather_data((floats(8, 1), floats(1, 2)), job_of(tmp_path))
    with pytest.raises(DataError, match="one example per class"):
        gather_data((floats(8, 1), floats(4, 2)), job_of(tmp_path))
