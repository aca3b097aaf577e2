"""The pages whose blocks are checked and run."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CHECKED_ONLY = {
    "docs/reproduction.md": "needs CIFAR-10, SVHN and hours",
    "examples/plugin/README.md": "installs a package; `make package` does that",
}
"""Pages that are not run, and why. Their blocks need no comments."""


def pages() -> list[Path]:
    """The README and every page of the site that is written by hand; lists of changes are not."""
    site = sorted((ROOT / "docs").rglob("*.md"))
    beside = [ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md")]
    return [ROOT / "README.md", *site, *beside, ROOT / "examples" / "plugin" / "README.md"]


def name_of(page: Path) -> str:
    """A page as messages and outputs call it: its path in the repository."""
    return page.resolve().relative_to(ROOT).as_posix()
