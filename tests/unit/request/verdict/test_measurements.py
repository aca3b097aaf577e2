"""Nothing of the forgotten records is in what a request writes."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from expunge import _tensors as tensors
from expunge.data import load
from expunge.evaluation import predict
from expunge.request._job import Job
from expunge.request._run import forget
from expunge.request.loading._load import load_model_and_data
from tests.unit.request.jobs import IDS, FinishedRequest, JobMaker, carry_out_quietly
from tests.unit.request.verdict.reidentification import numbers_of, recovered
from tests.unit.request.worlds import bytes_of, fitted, floats

Array = np.ndarray[Any, Any]
FORGOTTEN = list(range(0, 48, 2))
NAMES = [f"1/{index}.png" for index in FORGOTTEN]
FEW = [3, 17, 44, 71, 102]
HASH = re.compile("[0-9a-f]{64}")
_URI = re.compile(rb"data:image/png;base64,([A-Za-z0-9+/=]+)")
_LIST = re.compile(rb"\[[-+0-9eE.,\s]+\]")
_NUMBER = re.compile(rb"[-+]?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")


@pytest.fixture(scope="module")
def images() -> list[Array]:
    return [image.numpy() for image in bytes_of(240, 1).images[FORGOTTEN]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a request of named images."""
    folder = tmp_path_factory.mktemp("request")
    train, val, test = bytes_of(240, 1, names=True), bytes_of(60, 2), bytes_of(80, 3)
    forget(
        model=fitted(floats(240, 1)),
        data=(train, val, test),
        ids=NAMES,
        out=folder / "out",
        method="SRL",
        max_epochs=1,
        progress=False,
    )
    return folder


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def arrays_in(path: Path) -> Iterator[Array]:
    """Every image and every array of numbers in a file, whatever its kind."""
    content = path.read_bytes()
    if path.suffix == ".safetensors":
        yield from (tensor.numpy() for tensor in tensors.load(path)[0].values())
    elif path.suffix == ".png":
        yield np.asarray(Image.open(io.BytesIO(content)))
    elif path.suffix == ".csv":
        for row in csv.reader(io.StringIO(content.decode())):
            yield np.array([float(cell) for cell in row if re.fullmatch(r"[-+.0-9eE]+", cell)])
    else:
        for match in _URI.finditer(content):
            yield np.asarray(Image.open(io.BytesIO(base64.b64decode(match[1]))))
        for match in _LIST.finditer(content):
            yield np.array([float(number) for number in _NUMBER.findall(match[0])])


def holds(array: Array, image: Array) -> bool:
    """Whether an array holds the pixels of an image: enlarged, in fractions, flat, or as a row."""
    pixels = image[0].astype(np.float64)
    values = array.astype(np.float64)
    values = values[..., 0] if values.ndim == 3 and values.shape[-1] in (1, 3, 4) else values
    height, width = pixels.shape
    if values.ndim == 2 and not values.shape[0] % height and not values.shape[1] % width:
        steps = values.shape[0] // height, values.shape[1] // width
        if min(steps) and np.array_equal(values[:: steps[0], :: steps[1]], pixels):
            return True
    flat = values.reshape(-1)
    for wanted in (pixels.reshape(-1), pixels.reshape(-1) / 255):
        rest = len(flat) - len(wanted) + 1
        starts = np.flatnonzero(np.abs(flat[: max(0, rest)] - wanted[0]) < 1e-3)
        for k in range(1, len(wanted)):
            if not len(starts):
                break
            starts = starts[np.abs(flat[starts + k] - wanted[k]) < 1e-3]
        if len(starts):
            return True
    return image.tobytes() in array.tobytes()


def found(folder: Path, images: list[Array]) -> set[str]:
    """The files in which a forgotten image is found."""
    return {
        path.name
        for path in files(folder)
        for array in arrays_in(path)
        if array.size >= images[0].size and any(holds(array, image) for image in images)
    }


def test_no_pixel_of_a_forgotten_record_is_in_any_file(folder: Path, images: list[Array]) -> None:
    names = {path.name for path in files(folder)}
    assert {"evidence.json", "report.html", "letter.md"} <= names
    assert {"weights.safetensors", "forgotten.json"} <= names
    assert found(folder, images) == set()
    for path in files(folder):
        content = path.read_bytes()
        assert not any(image.tobytes() in content for image in images), path


def test_no_pixel_of_a_forgotten_digit_is_in_any_file(finished: FinishedRequest) -> None:
    digits = [image.numpy() for image in load("digits", limit=120).train.images[IDS]]
    assert len(files(finished.folder)) > 8
    assert found(finished.folder, digits) == set()


def test_no_id_of_a_forgotten_record_is_in_any_file_in_clear(folder: Path) -> None:
    for path in files(folder):
        content = path.read_bytes()
        assert [name for name in NAMES if name.encode() in content] == [], path


def test_the_file_of_ids_is_named_in_no_file(finished: FinishedRequest) -> None:
    assert finished.job.ids is not None
    name = finished.job.ids.name.encode()
    assert [path for path in files(finished.job.out) if name in path.read_bytes()] == []


def test_files_with_hashes_of_ids_or_weights_are_for_their_owner_alone(folder: Path) -> None:
    public = {path.name for path in files(folder) if path.stat().st_mode & 0o077}
    assert public <= {"evidence.sha256", "head.json"}


def test_the_decoder_finds_what_it_should(tmp_path: Path, images: list[Array]) -> None:
    pixels = images[0]
    enlarged = Image.fromarray(pixels[0]).resize((60, 60), Image.Resampling.NEAREST)
    enlarged.save(tmp_path / "a.png")
    uri = base64.b64encode((tmp_path / "a.png").read_bytes()).decode()
    (tmp_path / "b.html").write_text(f'<img src="data:image/png;base64,{uri}">')
    (tmp_path / "c.json").write_text(json.dumps((pixels.reshape(-1) / 255).round(4).tolist()))
    (tmp_path / "d.csv").write_text(",".join(map(str, pixels.reshape(-1).tolist())) + "\n")
    tensors.save(tmp_path / "e.safetensors", {"x": torch.from_numpy(np.stack(images))}, {})
    assert found(tmp_path, images) == {"a.png", "b.html", "c.json", "d.csv", "e.safetensors"}


@pytest.fixture(scope="module")
def few(weights: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Job, Path]:
    job = JobMaker(weights, tmp_path_factory.mktemp("few"))(FEW, max_epochs=3)
    folder = carry_out_quietly(job).folder
    assert folder is not None
    return job, folder


def test_without_the_key_no_record_is_found_but_by_chance(
    few: tuple[Job, Path], finished: FinishedRequest
) -> None:
    found, allowed = recovered(few[1], load_model_and_data(few[0]), FEW)
    assert found <= allowed < len(FEW)
    found, allowed = recovered(finished.folder, load_model_and_data(finished.job), IDS)
    assert found <= allowed < len(IDS)


@pytest.mark.parametrize("kind", ["rows", "columns"])
def test_the_attempt_finds_records_whose_numbers_are_written(
    few: tuple[Job, Path], tmp_path: Path, kind: str
) -> None:
    loaded = load_model_and_data(few[0])
    after = loaded.with_weights(few[1] / "weights.safetensors").model
    values = []
    for model in (loaded.model, after):
        said = predict(model, loaded.train), predict(model, loaded.test)
        values.append([round(float(next(iter(numbers_of(*said)))[k]), 4) for k in FEW])
    rows = [{"before": a, "after": b} for a, b in zip(*values, strict=True)]
    content = rows if kind == "rows" else {"before": values[0], "after": values[1]}
    (tmp_path / "examples.json").write_text(json.dumps(content))
    shutil.copy(few[1] / "weights.safetensors", tmp_path)
    found, allowed = recovered(tmp_path, loaded, FEW)
    assert found > allowed


def test_a_hash_stands_beside_no_number(few: tuple[Job, Path], finished: FinishedRequest) -> None:
    for folder in (few[1], finished.folder):
        content = json.loads((folder / "forgotten.json").read_text())
        hashes = {*content["records"], *content["asked"], *content["ids"], *content["left_out"]}
        assert hashes
        assert all(HASH.fullmatch(each) for each in hashes)
        for name in ("records", "asked", "ids", "left_out"):
            assert content[name] == sorted(content[name]), "the order says nothing"
        for path in folder.rglob("*"):
            if path.is_file() and path.name != "forgotten.json":
                text = path.read_bytes()
                assert not any(each.encode() in text for each in hashes), path


def test_few_records_have_no_histogram(few: tuple[Job, Path], finished: FinishedRequest) -> None:
    evidence = json.loads((few[1] / "evidence.json").read_text())
    assert evidence["exposure"] is None
    attacks = [row for row in evidence["checks"] if row["name"].startswith("auc_")]
    ends = [row[name] for row in attacks for name in ("value", "low", "high")]
    assert ends == [round(end, 1) for end in ends]
    many = finished.evidence
    assert many.exposure is not None
    assert sum(many.exposure.before) == len(IDS)
    values = [row.value for row in many.checks if row.is_attack]
    assert values == [round(value, 2) for value in values]
