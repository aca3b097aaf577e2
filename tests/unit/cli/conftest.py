from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from expunge.cli import main

TRAIN = ("train", "--limit", "60", "--width", "0.1", "--epochs", "2", "--batch-size", "16")


class Ending(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


Expunge = Callable[..., Ending]


@pytest.fixture
def expunge(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Expunge:
    """The command line, in this process: exactly what the installed script calls."""
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setenv("NO_COLOR", "1")

    def call(*arguments: object) -> Ending:
        monkeypatch.setattr(sys, "argv", ["expunge", *map(str, arguments)])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as ending:
            code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
        return Ending(code, *capsys.readouterr())

    return call


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An initial model on a few digits."""
    path = tmp_path_factory.mktemp("cli") / "initial.safetensors"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["expunge", *TRAIN, "-o", str(path)])
        with pytest.raises(SystemExit) as ending:
            main()
    assert ending.value.code == 0
    return path


@pytest.fixture(scope="session")
def ideal(trained: Path) -> Path:
    """Its ideal model for random:0.2."""
    path = trained.with_name("ideal.safetensors")
    arguments = ["retrain", str(trained), "--forget", "random:0.2", "-o", str(path)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["expunge", *arguments])
        with pytest.raises(SystemExit) as ending:
            main()
    assert ending.value.code == 0
    return path
