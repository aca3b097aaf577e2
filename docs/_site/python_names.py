"""The reference pages of the Python packages: every public name, rendered by mkdocstrings."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import expunge
from docstrings import in_table, to_markdown
from expunge._lazy import listed_exports

INTRODUCTION = """\
# Python

Everything that `import expunge` offers. Names are imported when they are first used. What is not in
this reference is private and may change.
"""


def python_pages() -> dict[str, str]:
    """Every page by its path below ``reference/python/``."""
    packages = [name for name in expunge.__all__ if inspect.ismodule(getattr(expunge, name))]
    pages = {"index.md": index_page(packages)}
    for package in sorted(packages):
        pages[f"{package}.md"] = package_page(f"expunge.{package}")
    return pages


def index_page(packages: list[str]) -> str:
    """The names of ``expunge`` itself by package, the errors in full, and the packages."""
    own: dict[str, list[str]] = {}
    for name in expunge.__all__:
        if name not in packages:
            own.setdefault(home(name), []).append(name)
    lines = [INTRODUCTION]
    errors = own.pop("expunge", [])
    for package, names in sorted(own.items()):
        lines += ["", f"## From {package} {{ #from-{package.replace('.', '-')} }}", ""]
        lines += ["| name | what it is |", "| --- | --- |"]
        lines += [
            f"| [`{name}`][{package}.{name}] | {in_table(first_line(getattr(expunge, name)))} |"
            for name in sorted(names, key=str.lower)
        ]
    lines += ["", "## Errors", ""]
    lines += [directive(f"expunge.{name}", 3) for name in sorted(errors, key=str.lower)]
    lines += ["", "## Packages", "", "| package | what it is |", "| --- | --- |"]
    for package in sorted(packages):
        text = in_table(first_line(importlib.import_module(f"expunge.{package}")))
        lines.append(f"| [`expunge.{package}`]({package}.md) | {text} |")
    return "\n".join(lines) + "\n"


def package_page(package: str) -> str:
    """Every name that a package exports."""
    module = importlib.import_module(package)
    text = inspect.getdoc(module) or ""
    lines = [f"# {package}", "", text, ""]
    names = sorted(module.__all__, key=str.lower)
    lines += [directive(f"{package}.{name}", 2) for name in names]
    return "\n".join(lines) + "\n"


def home(name: str) -> str:
    """The public package that a name of ``expunge`` comes from, and is documented with."""
    package = listed_exports("expunge")[0][name][0]
    return "expunge" if package.startswith("expunge._") else package


def first_line(value: Any) -> str:
    """The first paragraph of a docstring, as Markdown."""
    return to_markdown((inspect.getdoc(value) or "").split("\n\n")[0])


def directive(path: str, level: int) -> str:
    """What mkdocstrings turns into the documentation of a name."""
    return f"::: {path}\n    options:\n      heading_level: {level}\n"
