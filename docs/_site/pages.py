"""The pages whose blocks are checked and run."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CHECKED_ONLY = {
    "docs/data.md": "needs tables, images and models of the reader's",
    "docs/requests.md": "needs a model and data of the reader's; the tutorial runs a request",
    "docs/reproduction.md": "needs CIFAR-10, SVHN and hours",
    "examples/plugin/README.md": "installs a package; `make package` does that",
}
"""Pages that are not run, and why. Their blocks need no comments."""


def pages() -> list[Path]:
    """The README and every page of the site that is written by hand."""
    site = sorted((ROOT / "docs").rglob("*.md"))
    return [ROOT / "README.md", *site, ROOT / "examples" / "plugin" / "README.md"]


def name_of(page: Path) -> str:
    """A page as messages and outputs call it: its path in the repository."""
    return page.resolve().relative_to(ROOT).as_posix()
