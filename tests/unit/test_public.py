"""The public surface is documented, and the documents name nothing that is not there."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import expunge

ROOT = Path(__file__).parents[2]


def public_names() -> set[str]:
    return {name for name in expunge.__all__ if not inspect.ismodule(getattr(expunge, name))}


def test_every_public_name_is_in_the_reference() -> None:
    text = (ROOT / "docs" / "reference.md").read_text()
    listed = set(re.findall(r"^\| `(\w+)` \|", text, flags=re.MULTILINE))
    assert listed == public_names()


def test_every_public_name_has_a_docstring() -> None:
    missing = [name for name in public_names() if not inspect.getdoc(getattr(expunge, name))]
    assert missing == []


def test_every_name_of_the_readme_exists() -> None:
    text = (ROOT / "README.md").read_text()
    used = set(re.findall(r"expunge\.([A-Za-z]\w+)", text))
    assert used - public_names() == set()


def test_links_of_the_documents_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
