"""Hooks of the site: generated pages, the repository's files, links to them, outputs of blocks."""

from __future__ import annotations

import json
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from blocks import read_blocks
from choosing import choosing_tables
from commands import command_page
from execute import digest, kept_output, runnable
from notebooks import notebook_of
from pages import ROOT
from parts import part_pages, title
from python_names import python_pages

REPOSITORY = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "LICENSE",
    "Dockerfile",
    "examples/**/*",
    "results/**/*",
)
"""What of the repository is part of the site, at the same path."""
GENERATED = {"choosing": choosing_tables}
"""What replaces a comment ``<!-- generated: NAME -->`` in a page."""
SHOWS_OUTPUT = "tutorials/"
"""Pages whose blocks are followed by what they printed."""


def on_config(config: Any) -> Any:
    """Put the generated pages into the navigation, below Reference."""
    parts = [{title(path.removesuffix(".md")): f"reference/{path}"} for path in part_pages()]
    names = sorted(python_pages())
    python = [
        {"expunge" if name == "index.md" else f"expunge.{name[:-3]}": f"reference/python/{name}"}
        for name in ["index.md", *(name for name in names if name != "index.md")]
    ]
    for section in config.nav:
        if "Reference" in section:
            section["Reference"] += [*parts, {"Python": python}]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages, the repository's files and the pictures that tutorials drew."""
    generated = {"commands.md": command_page()} | part_pages()
    generated |= {f"python/{name}": text for name, text in python_pages().items()}
    for name, text in generated.items():
        files.append(File.generated(config, f"reference/{name}", content=text))
    for path in repository_files():
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    for page in sorted((ROOT / "docs" / SHOWS_OUTPUT).glob("*.md")):
        for picture in sorted(kept_output(page).glob("*.*g")):
            path = f"{SHOWS_OUTPUT}{page.stem}/{picture.name}"
            files.append(File.generated(config, path, abs_src_path=str(picture)))
    return files


def repository_files() -> list[str]:
    """The paths of the repository's files that are part of the site."""
    found = [path for pattern in REPOSITORY for path in sorted(ROOT.glob(pattern))]
    left_out = {"__pycache__", "store"}
    kept = [path for path in found if path.is_file() and not left_out & {*path.parts}]
    kept = [path for path in kept if path.suffix != ".xz"]  # the trained models of a benchmark
    return [path.relative_to(ROOT).as_posix() for path in kept if "egg-info" not in str(path)]


def on_page_markdown(markdown: str, page: Any, **rest: Any) -> str:
    """Fill in tables and outputs, and lead links out of ``docs`` to where their files are."""
    source = page.file.src_uri
    if source.startswith(SHOWS_OUTPUT):
        markdown = with_outputs(ROOT / "docs" / source, markdown)
        if notebook := notebook_of(ROOT / "docs" / source):
            link = f"\n\nThe same [as a notebook]({notebook.name}).\n"
            markdown = markdown.replace("\n", link, 1)
    for name, make in GENERATED.items():
        markdown = markdown.replace(f"<!-- generated: {name} -->", make())
    markdown = re.sub(r"<!--\s*(?:setup|not run):.*?-->\s*\n", "", markdown, flags=re.DOTALL)
    return relinked(markdown, source)


def relinked(markdown: str, source: str) -> str:
    """Links from ``docs`` into the repository, as they are in the site, where docs/ is the root."""
    inside = not (ROOT / "docs" / source).is_file()  # a file of the repository, or a generated page

    def relink(match: re.Match[str]) -> str:
        target = match[2]
        if inside and not source.startswith("reference/"):
            moved = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
            if not moved.startswith("docs/"):
                return match[0]
            site = moved.removeprefix("docs/")
        else:
            moved = posixpath.normpath(posixpath.join("docs", posixpath.dirname(source), target))
            if moved.startswith("docs/"):
                return match[0]
            site = moved
        start = posixpath.dirname(source) or "."
        return f"{match[1]}{posixpath.relpath(site, start)}{match[3]}"

    return re.sub(r"(\]\()([^)#:\s]+)((?:#[^)]*)?\))", relink, markdown)


def with_outputs(page: Path, markdown: str) -> str:
    """The page with what every block printed and drew below it."""
    if not runnable(page):
        return markdown
    kept = kept_output(page) / "output.json"
    if not kept.is_file() or (output := json.loads(kept.read_text()))["digest"] != digest(page):
        raise PluginError(f"{page.name} has not been run: python docs/_site/execute.py {page}")
    rows = {row["line"]: row for row in output["blocks"]}
    front = page.read_text(encoding="utf-8").count("\n") - markdown.count("\n")
    pieces, end = [], 0
    for block in read_blocks(page, markdown):
        pieces.append(markdown[end : block.end])
        end = block.end
        row = rows.get(block.line + max(front, 0))
        if row is None:
            continue
        if row["text"].strip():
            pieces.append(
                f'\n\n```text {{ .output title="Output" }}\n{row["text"].rstrip()}\n```\n'
            )
        if row["html"]:
            pieces.append(f'\n\n<div class="shown">{row["html"]}</div>\n')
        pieces += [
            f"\n\n![Drawn by the block above]({page.stem}/{name})\n" for name in row["images"]
        ]
    return "".join([*pieces, markdown[end:]])
