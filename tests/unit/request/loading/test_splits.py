from __future__ import annotations

import types
from functools import partial

import numpy as np
import pytest
import torch
from PIL import Image

from expunge._errors import DataError, InvalidInput
from expunge.data import load
from expunge.engine import Recipe
from expunge.evaluation import train_initial
from expunge.request.loading._splits import gather_data, load_data
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
    assert torch.bincount(data.val.labels).tolist() == [2, 2, 2, 2]
    whole = torch.cat((data.val.images, data.test.images)).flatten(1)
    assert len(whole.unique(dim=0)) == 40


def test_a_val_split_of_the_data_is_kept(tmp_path, npz):
    arrays = dict(np.load(npz))
    np.savez(npz, **arrays, x_val=arrays["x_test"][:12], y_val=arrays["y_test"][:12])
    data = load_data(job_of(tmp_path, data=f"npz:{npz}"))
    assert (len(data.train), len(data.val), len(data.test)) == (80, 12, 40)


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
        data = gather_data(form, job)
        assert (len(data.train), len(data.val) + len(data.test)) == (40, 20)


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


ROWS = {"x": [float(k) for k in range(40)], "label": ["no", "yes"] * 20}


def _csv(path):
    lines = [f"{x},{label}" for x, label in zip(*ROWS.values(), strict=True)]
    path.write_text("\n".join(["x,label", *lines]))
    return f"csv:{path}"


def _parquet(path):
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table(ROWS), path)
    return f"parquet:{path}"


def _npz(path):
    x, y = images(40, 1)
    np.savez(path.with_suffix(".npz"), x=x, y=y)
    return f"npz:{path}.npz"


def _folder(path):
    for label in ("ant", "bee"):
        (path / label).mkdir(parents=True)
        for number in range(4):
            Image.new("L", (4, 4), 9 * number).save(path / label / f"{number}.png")
    return f"folder:{path}"


def _hf(path, *, names=None):
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_dict(ROWS)
    saved = rows if names is None else datasets.DatasetDict(dict.fromkeys(names, rows))
    saved.save_to_disk(path)
    return f"hf:{path}"


@pytest.mark.parametrize(
    ("write", "remedy"),
    [
        (_csv, "add a column `split`"),
        (_parquet, "add a column `split`"),
        (_npz, "save arrays x_train, y_train, x_test and y_test"),
        (_folder, "put the images into train/CLASS and test/CLASS"),
        (_hf, "save a DatasetDict with train and test"),
        (partial(_hf, names=["train"]), "save a DatasetDict with train and test"),
        (partial(_hf, names=["train", "validation"]), "save a DatasetDict with train and test"),
    ],
)
def test_unseen_data_are_never_drawn_from_training_records(tmp_path, write, remedy):
    """A model of unknown origin was trained on all that the files do not call unseen."""
    spec = write(tmp_path / "mine")
    with pytest.raises(DataError, match=f"does not say which .* never saw.*{remedy}"):
        load_data(job_of(tmp_path, data=spec))
    with pytest.raises(DataError, match=remedy):
        load(spec, val_from="test")
    splits = load(spec)  # for a model that is trained on what is left
    assert min(len(part) for part in splits.by_name().values())


def test_a_model_of_expunge_is_judged_on_what_its_training_left_out(tmp_path):
    spec = _csv(tmp_path / "mine.csv")
    artifact = train_initial(spec, tmp_path / "m.safetensors", recipe=Recipe(epochs=1, lr=0.01))
    data = load_data(job_of(tmp_path), artifact.card)
    assert data.train.fingerprint() == artifact.card.data.fingerprint
    assert [len(part) for part in data.by_name().values()] == [29, 3, 8]


def test_no_data_is_an_error(tmp_path):
    with pytest.raises(InvalidInput, match="`data` should be given"):
        load_data(job_of(tmp_path))


def test_a_test_split_too_small_to_share_is_an_error(tmp_path):
    with pytest.raises(DataError, match="too small to take val"):
        gather_data((floats(8, 1), floats(1, 2)), job_of(tmp_path))
    with pytest.raises(DataError, match="one example per class"):
        gather_data((floats(8, 1), floats(4, 2)), job_of(tmp_path))
