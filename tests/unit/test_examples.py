"""The examples run, and show what they say."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def load_example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_own_loop_forgets_and_keeps(capsys: pytest.CaptureFixture[str]) -> None:
    example = load_example("own_loop")
    forget, retain = example.run("focus")
    assert forget > 2 * retain
    assert "steps feasible" in capsys.readouterr().out


def test_compose_runs_every_combination(capsys: pytest.CaptureFixture[str]) -> None:
    left = load_example("compose").main()
    assert len(left) == 9
    assert len(capsys.readouterr().out.splitlines()) == 9


def test_a_request_for_a_model_and_data_of_ones_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    load_example("forget_own_model").main(tmp_path)
    said = capsys.readouterr().out
    assert said.splitlines()[0] in ("achieved", "not achieved")
    assert "Accuracy on the forgotten data" in said
    assert (tmp_path / "requests" / "0001" / "report.html").is_file()


def test_three_requests_in_a_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load_example("forget_sequence").main(tmp_path)
    said = capsys.readouterr().out
    assert said.count("records, achieved") == 3
    assert "the records of request 2:" in said


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_a_request_from_the_shell(tmp_path: Path) -> None:
    script = EXAMPLES / "forget_digits.sh"
    tools = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    run = subprocess.run(
        ["bash", str(script), str(tmp_path / "work")],
        env=os.environ | {"PATH": tools},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert run.returncode == 0, run.stderr
    assert "30 of 400 training records" in run.stdout
    assert "Everything checked holds." in run.stdout
    assert (tmp_path / "work" / "requests" / "0001" / "report.html").is_file()


def test_every_example_has_a_test() -> None:
    source = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*examples.py"))
    for path in EXAMPLES.glob("*.py"):
        assert f'load_example("{path.stem}")' in source
    for path in EXAMPLES.glob("*.sh"):
        assert f'"{path.name}"' in source
