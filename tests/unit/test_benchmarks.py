"""What a user with a GPU runs works here, as a dry run."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu.py"
DRY = ["--device", "cpu", "--small", "--steps", "2", "--batch", "8"]


@pytest.fixture(scope="module")
def gpu() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gpu", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_dry_run_prints_a_row_for_everything_that_is_missing(
    gpu: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = dict(gpu.ROWS)
    del rows["FOCUS, compiled"]  # a minute of a compiler
    rows["broken"] = ("focus", {"precision": "fp3"})
    monkeypatch.setattr(gpu, "ROWS", rows)
    gpu.main(DRY)
    lines = capsys.readouterr().out.splitlines()
    assert "torch" in lines[0]
    table = {line.split(" | ")[0].strip("| "): line for line in lines if line.startswith("|")}
    assert table.keys() == {"row", "---", *rows}
    for row in rows.keys() - {"broken"}:
        assert table[row].endswith("| same |"), table[row]
    for row in ("none", "FOCUS", "FOCUS, resumed"):
        assert "0.0e+00" in table[row]  # the CPU against itself
    assert "fp3" in table["broken"]
    assert "dry run" in lines[-1]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [(["--device", "warp"], "cannot be used here"), (["--steps", "1"], "should be 2 or more")],
)
def test_wrong_arguments_are_refused(
    gpu: ModuleType, wrong: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        gpu.main([*DRY, *wrong])
    assert reason in capsys.readouterr().err
