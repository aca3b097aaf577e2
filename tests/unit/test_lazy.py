"""Attributes of packages that are imported when they are first used."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

import expunge

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


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import expunge; expunge.InvalidInput", {"torch", "numpy", "expunge.update"}),
        ("import expunge; expunge.methods.METHODS.label('scrub')", {"torch", "expunge.update"}),
        ("import expunge; expunge.AdamMoments()", {"torch", "expunge.methods"}),
        ("import expunge; expunge.Focus()", {"expunge.methods", "expunge.data", "sklearn"}),
        ("from expunge import unlearn", {"expunge.request", "sklearn", "scipy", "matplotlib"}),
    ],
)
def test_nothing_is_imported_but_what_the_name_needs(statement: str, absent: set[str]) -> None:
    code = f"{statement}; import sys; print(*{absent!r} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
