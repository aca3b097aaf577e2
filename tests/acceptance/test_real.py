"""Long runs, by hand: `make acceptance`. CIFAR-10 is looked for where EXPUNGE_CIFAR10 points."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from expunge.cli._main import build_app
from expunge.data import load

pytestmark = pytest.mark.slow


def expunge(*words: str | Path) -> None:
    result = CliRunner().invoke(build_app(), [str(word) for word in words])
    assert result.exit_code == 0, result.output


@pytest.fixture
def cifar10() -> str:
    folder = os.environ.get("EXPUNGE_CIFAR10")
    if folder is None:
        pytest.skip("set EXPUNGE_CIFAR10 to a folder with CIFAR-10's official files")
    return f"cifar10:{folder}"


def test_cifar10_has_its_official_sizes(cifar10: str) -> None:
    data = load(cifar10)
    assert (len(data.train), len(data.val), len(data.test)) == (45_000, 5_000, 10_000)
    assert data.test.labels.bincount().tolist() == [1_000] * 10


def test_the_chain_on_cifar10(cifar10: str, tmp_path: Path) -> None:
    initial, ideal, done = (tmp_path / f"{name}.safetensors" for name in "abc")
    expunge("train", "--data", cifar10, "--model", "vgg16", "--width", "0.125", "--epochs", "4",
            "--schedule", "one-cycle", "-o", initial)  # fmt: skip
    expunge("retrain", initial, "--forget", "random:0.1", "-o", ideal)
    expunge("unlearn", initial, "--forget", "random:0.1", "--epochs", "2", "--ideal", ideal,
            "-o", done)  # fmt: skip
    expunge("audit", done, "--initial", initial, "--ideal", ideal, "-o", tmp_path / "audit")
    scores = json.loads((tmp_path / "audit" / "report.json").read_text())["scores"]
    assert scores["initial"]["ta"] > 50
    assert scores["ideal"]["rua"] == 0
    assert scores["unlearned"]["ta"] > scores["initial"]["ta"] - 5


def test_ulira_with_16_shadows_on_digits_takes_minutes(tmp_path: Path) -> None:
    initial, ideal, done = (tmp_path / f"{name}.safetensors" for name in "abc")
    recipe = ("--epochs", "40", "--batch-size", "32", "--lr", "0.05", "--schedule", "one-cycle")
    expunge("train", "--limit", "600", "--width", "0.5", *recipe, "-o", initial)
    expunge("retrain", initial, "--forget", "random:0.3", "-o", ideal)
    expunge("unlearn", initial, "--forget", "random:0.3", "--batch-size", "32", "--lr", "1e-3",
            "--ideal", ideal, "-o", done)  # fmt: skip
    start = time.monotonic()
    expunge("audit", done, "--initial", initial, "--ideal", ideal, "--shadows", "16",
            "--store", tmp_path / "store", "-o", tmp_path / "audit")  # fmt: skip
    assert time.monotonic() - start < 600
    found = json.loads((tmp_path / "audit" / "report.json").read_text())["ulira"]["online"]
    assert found["proven"]
    assert found["initial"]["auc_low"] > 0.5
