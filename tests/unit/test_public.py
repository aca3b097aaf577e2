"""The public surface is documented, and the documents name nothing that is not there."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import expunge

ROOT = Path(__file__).parents[2]
GENERATED = [ROOT / "docs" / "reference", ROOT / "docs" / "reference" / "python"]
"""Pages there are made when the site is built, which fails if one is missing."""


def public_names() -> set[str]:
    return {name for name in expunge.__all__ if not inspect.ismodule(getattr(expunge, name))}


def test_every_public_name_has_a_docstring() -> None:
    packages = set(expunge.__all__) - public_names() - {"integrations"}
    for module in (expunge, *(getattr(expunge, package) for package in packages)):
        offered = {name: getattr(module, name) for name in module.__all__}
        missing = [
            name
            for name, value in offered.items()
            if module is expunge or inspect.isclass(value) or inspect.isfunction(value)
            if not inspect.getdoc(value)
        ]
        assert missing == [], f"in {module.__name__}"


def test_the_top_level_fits_a_screen() -> None:
    assert dir(expunge) == sorted(expunge.__all__)
    assert len(dir(expunge)) <= 60


def test_every_name_of_the_readme_exists() -> None:
    text = (ROOT / "README.md").read_text()
    used = set(re.findall(r"expunge\.([A-Za-z]\w+)", text))
    assert used - set(expunge.__all__) == set()


def test_links_of_the_documents_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)[^)]*\)", page.read_text()):
            where = page.parent / target
            if where.parent.resolve() not in GENERATED:
                assert where.exists(), f"{page.name} links to {target}"
