"""Mistakes in training; ``test_unlearn.py`` trains."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.unit.cli.conftest import TRAIN, Expunge


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--epochs", "0"), "`epochs` should be a whole number, at least 1"),
        (("--width", "0"), "`width` should be positive"),
        (("--model", "small-cmm"), "Did you mean 'small-cnn'?"),
        (("--data", "folder"), "should come with a path"),
        (("--limit", "0"), "Invalid value for '--limit'"),
        (("--schedule", "cosine"), "'cosine' is not one of"),
        (("-o", "out.onnx"), "should end in .safetensors, .pt, .pth, .bin, .ckpt. (got out.onnx)"),
        (("-o", "out"), "should end in .safetensors"),
    ],
)
def test_training_mistakes(
    arguments: tuple[str, str], text: str, expunge: Expunge, tmp_path: Path
) -> None:
    ending = expunge(*TRAIN, "-o", tmp_path / "out.safetensors", *arguments)
    assert ending.code == 2
    assert text in ending.err
    assert "Traceback" not in ending.err


@pytest.mark.parametrize("name", ["out.safetensors", "out.pt"])
def test_weights_are_for_their_owner_alone(name: str, expunge: Expunge, tmp_path: Path) -> None:
    out = tmp_path / name
    assert expunge(*TRAIN, "--epochs", "1", "-o", out).code == 0
    assert out.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("option", "lines"), [((), 0), (("-v",), 2), (("-v", "-q"), 0)])
def test_there_is_a_line_per_epoch_if_asked_for(
    option: tuple[str, ...],
    lines: int,
    expunge: Expunge,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logger = logging.getLogger("expunge")
    monkeypatch.setattr(logger, "handlers", [])
    try:
        ending = expunge(*TRAIN, "--epochs", "2", "-o", tmp_path / "out.safetensors", *option)
    finally:
        logger.setLevel(logging.NOTSET)
    *epochs, last = ending.err.splitlines()
    assert [line.split(":")[0] for line in epochs] == ["initial  epoch 1/2", "initial  epoch 2/2"][
        :lines
    ]
    assert last.startswith("Wrote ")


def test_a_place_that_cannot_be_written_fails(expunge: Expunge, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ending = expunge(*TRAIN, "-o", tmp_path / "file" / "out.safetensors")
    assert ending.code == 2
    assert "Cannot write in" in ending.err
