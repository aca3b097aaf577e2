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


def test_every_public_package_is_in_the_reference_with_its_names() -> None:
    text = (ROOT / "docs" / "reference.md").read_text()
    rows = re.findall(r"^\| `expunge\.(\w+)` \|.*\| ([^|]*) \|$", text, flags=re.MULTILINE)
    listed = {package: re.findall(r"`(\w+)`", names) for package, names in rows}
    assert listed == {
        package: sorted(getattr(expunge, package).__all__, key=str.lower)
        for package in set(expunge.__all__) - public_names()
    }


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


def test_every_name_of_the_readme_exists() -> None:
    text = (ROOT / "README.md").read_text()
    used = set(re.findall(r"expunge\.([A-Za-z]\w+)", text))
    assert used - public_names() == set()


def test_links_of_the_documents_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
