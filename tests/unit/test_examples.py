"""The examples run, and show what they say."""

from __future__ import annotations

import importlib.util
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


def test_every_example_has_a_test() -> None:
    source = Path(__file__).read_text()
    for path in EXAMPLES.glob("*.py"):
        assert f'load_example("{path.stem}")' in source
