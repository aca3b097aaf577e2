from __future__ import annotations

from pathlib import Path

import pytest

from expunge._errors import DataError, InvalidInput
from expunge.request._job import Job, make_job
from expunge.request._job_file import job_template, job_to_toml, load_job

LEAST = 'weights = "w.pt"\nout = "out"\n'


def write(folder: Path, text: str) -> Path:
    path = folder / "job.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_template_is_a_job(tmp_path):
    job = load_job(write(tmp_path, job_template()))
    assert job.weights == tmp_path / "model.safetensors"
    assert job.ids == tmp_path / "request.csv"
    assert job.out == tmp_path / "requests"
    assert (job.data, job.method, job.addon) == ("digits", "refresh", "none")


def test_the_template_names_every_key_with_its_default(tmp_path):
    settings = job_template().rpartition("# [model_options]")[0]  # tables come last
    lines = [line.removeprefix("# ") for line in settings.splitlines()]
    described = {line.split(" = ")[0]: line for line in lines if " = " in line}
    assert set(described) == set(Job.model_fields) - {"model_options", "recipe", "derived"}
    free = [
        n
        for n in described
        if n
        not in (
            "width",
            "moments",
            "p",
            "records",
            "received",
            "legal_basis",
            "id_column",
            "data_limit",
            "training_epochs",
            "id_key",
            "max_epochs",
            "inputs",
            "template",
            "base",
            "alpha",
            "budget",
            "margin_auc",
            "margin_records",
            "margin_test",
            "margin_of_class",
            "alpha",
        )
    ]
    job = load_job(write(tmp_path, "\n".join(described[name] for name in free)))
    given = {"weights", "out", "data", "ids", "model"}
    for name in set(free) - given:
        assert getattr(job, name) == getattr(make_job(weights="w", out="o"), name), name


def test_the_alternatives_in_the_template_are_valid(tmp_path):
    text = job_template().replace('# addon = "none"', 'addon = "FOCUS"\nmethod = "SRL"')
    alternatives = (
        "model",
        "records",
        "id_column",
        "moments",
        "data_limit",
        "training_epochs",
        "id_key",
    )
    for name in (*alternatives, "[model_options]"):
        text = text.replace(f"# {name}", name)
    job = load_job(write(tmp_path, text.replace("[model_options] at", "# at")))
    assert job.training_epochs == 100
    assert (job.id_column, job.moments, job.data_limit) == ("person", "published", 1000)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (LEAST + "epochs = 3\n", r": there is no key 'epochs'"),
        (LEAST + "lr = -1.0\n", r": lr: .*greater than 0\. \(got -1\.0\)"),
        (LEAST + "lr = inf\n", r": lr: .*finite"),
        (LEAST + 'max_epochs = "ten"\n', r": max_epochs: .*integer\. \(got 'ten'\)"),
        (LEAST + "max_epochs = true\n", r": max_epochs: .*integer"),
        (LEAST + "val_fraction = 1.0\n", r": val_fraction: .*less than 1"),
        (LEAST + 'method = "SLR"\n', r": method: Unknown method 'SLR'\. Did you mean 'srl'"),
        (LEAST + 'method = "retrain"\n', r": method: .*use `exact`"),
        (LEAST + 'addon = "FOKUS"\n', r": addon: Unknown add-on 'FOKUS'"),
        (LEAST + 'batchnorm = "off"\n', r": batchnorm: .*'frozen'"),
        (LEAST + 'addon = "none"\nmoments = "adam"\n', r"`moments` does not apply .* none"),
        (LEAST + 'id_column = "person"\n', r"`id_column` is a column of `records`"),
        ('out = "x"\n', r": `weights` should be given"),
        ("weights = \n", r"not valid TOML: .*line 1"),
    ],
)
def test_what_is_no_job_is_refused(tmp_path, text, complaint):
    with pytest.raises(InvalidInput, match=complaint):
        load_job(write(tmp_path, text))


def test_a_job_file_that_is_missing_is_a_clear_error(tmp_path):
    with pytest.raises(
        DataError, match=r"none\.toml cannot be read as .*: there is no such file\.$"
    ):
        load_job(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("data", "placed"),
    [
        ("digits", "digits"),
        ("npz:mine.npz", "npz:{}/mine.npz"),
        ("folder:/data/cats", "folder:/data/cats"),
        ("mine.npz", "{}/mine.npz"),
        ("data/cats", "{}/data/cats"),
        ("shop.data:load", "shop.data:load"),
    ],
)
def test_paths_in_a_job_are_relative_to_its_file(tmp_path, data, placed):
    folder = tmp_path / "deep"
    folder.mkdir()
    job = load_job(write(folder, LEAST + f'data = "{data}"\nids = "../ids.txt"\n'))
    assert job.data == placed.format(folder)
    assert (job.weights, job.out) == (folder / "w.pt", folder / "out")
    assert job.ids is not None
    assert job.ids.resolve() == tmp_path / "ids.txt"


def test_a_job_written_down_reads_as_the_same(tmp_path):
    options = {"width": 0.5, 'a "b"': [1, "é\n"], "deep": {"on": True}}
    job = make_job(
        weights=tmp_path / "w.pt",
        out=tmp_path / "o",
        ids=tmp_path / "x.csv",
        data="shop.data:load",
        model="shop.models:build",
        model_options=options,
        lr=1e-5,
        include_duplicates=True,
    )
    (tmp_path / "job.toml").write_text(job_to_toml(job), encoding="utf-8")
    again = load_job(tmp_path / "job.toml")
    unnamed = job.model_copy(update={"ids": None})
    assert again.model_dump() == unnamed.model_dump(), "the file of ids is not named"
