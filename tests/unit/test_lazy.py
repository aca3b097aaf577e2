"""Attributes of packages that are imported when they are first used."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import expunge
from expunge._lazy import deferred, find_source, read_docstring

PACKAGES = [
    name
    for _, name, is_package in pkgutil.walk_packages(expunge.__path__, "expunge.")
    if is_package and hasattr(importlib.import_module(name), "__all__")
]


@pytest.mark.parametrize("package", ["expunge", *PACKAGES])
def test_every_listed_name_is_there_and_shown_by_dir(package: str) -> None:
    module = importlib.import_module(package)
    assert module.__all__
    if package == "expunge.integrations":
        pytest.importorskip("transformers")
    for name in module.__all__:
        assert getattr(module, name) is getattr(module, name)
        assert name in dir(module)
    assert len(set(module.__all__)) == len(module.__all__)


def test_an_unlisted_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'expunge' has no attribute 'unlern'"):
        _ = expunge.unlern
    with pytest.raises(ImportError, match="cannot import name 'Fokus'"):
        from expunge.update import Fokus  # noqa: F401


NEEDS_NO_TORCH = [
    ("import expunge; expunge.InvalidInput", {"torch", "numpy", "expunge.update"}),
    ("expunge.methods.METHODS.label('scrub')", {"torch", "expunge.update"}),
]
FROM_LIGHT_TO_HEAVY = [
    ("import expunge; expunge.AdamMoments()", {"torch", "expunge.methods"}),
    ("expunge.Focus()", {"expunge.methods", "expunge.data", "sklearn"}),
    ("from expunge import unlearn", {"expunge.request", "sklearn", "scipy", "matplotlib"}),
    ("import expunge.track", {"mlflow", "tensorboard", "wandb"}),
    ("import expunge.dispatch, expunge.dispatch._ray", {"ray"}),
    ("from expunge.bench.plots import write_figures", {"matplotlib"}),
]


@pytest.mark.parametrize("steps", [NEEDS_NO_TORCH, FROM_LIGHT_TO_HEAVY], ids=["light", "heavy"])
def test_nothing_is_imported_but_what_the_name_needs(steps: list[tuple[str, set[str]]]) -> None:
    # In one process, one after the other: to import torch takes most of the time.
    checks = [
        f"{code}; print({code!r}, sorted({absent!r} & sys.modules.keys()))"
        for code, absent in steps
    ]
    code = "\n".join(["import sys", *checks, "print('torch' in sys.modules)"])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = [f"{code} []" for code, _ in steps]
    assert done.stdout.splitlines() == [*found, str(steps is FROM_LIGHT_TO_HEAVY)]


def test_docstrings_are_read_from_the_source() -> None:
    assert read_docstring("expunge._errors:InvalidInput") == inspect.getdoc(expunge.InvalidInput)
    assert read_docstring("expunge._plugins:GROUPS").startswith("The groups of entry points")
    assert find_source("expunge._errors") == Path(sys.modules["expunge._errors"].__file__ or "")
    assert find_source("expunge._nowhere") is None


def test_objects_are_found_by_their_path() -> None:
    assert deferred("math:sqrt")(9.0) == 3.0
