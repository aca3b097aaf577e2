"""The frame of a page: styles, scripts and data in one file that loads nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import ChainableUndefined, Environment, PackageLoader
from markupsafe import Markup

from expunge._durations import format_duration
from expunge._files import write_text
from expunge.report import _library as library
from expunge.report import _words as words
from expunge.report._embed import embed, plain
from expunge.report._facts import facts

STYLES = (
    "look.css",
    "controls.css",
    "cards.css",
    "tables.css",
    "charts.css",
    "narrow.css",
    "print.css",
)
SCRIPTS = ("start.js", "theme.js", "chart.js", "band.js", "table.js", "copy.js")
"""What every page has; ``start.js`` comes first."""


def render(template: str, data: Any, scripts: Sequence[str], **values: Any) -> str:
    """A page of ``template``; the scripts find ``data`` in it, and nothing else can run."""
    code = Markup(_code((*SCRIPTS, *scripts)))
    chart = Markup(library.library())
    values |= {
        "data": embed(data),
        "style": Markup("\n".join(library.part("css", name) for name in STYLES)),
        "library": chart,
        "script": code,
        "policy": _policy([chart, code]),
        "notice": library.NOTICE,
    }
    return _environment().get_template(template).render(plain_values(values))


def write_page(path: str | Path, html: str) -> None:
    """Write a page atomically."""
    write_text(path, html)


def plain_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """What the template sees: markup as it is, all else in the types of JSON."""
    return {k: v if isinstance(v, Markup) else plain(v) for k, v in values.items()}


def _policy(scripts: Sequence[str]) -> str:
    """Scripts run by their hash: one that came in with the data could not, even if unescaped."""
    sums = (hashlib.sha256(text.encode()).digest() for text in scripts)
    known = " ".join(f"'sha256-{base64.b64encode(s).decode()}'" for s in sums)
    return (
        f"default-src 'none'; script-src {known}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _code(names: Sequence[str]) -> str:
    parts = "\n".join(library.part("js", name) for name in names)
    return f'(() => {{\n"use strict";\n{parts}\n}})();\n'


@cache
def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader("expunge.report"),
        autoescape=True,
        undefined=ChainableUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "number": words.number,
        "share": words.share,
        "duration": format_duration,
        "moment": words.moment,
        "label": words.label,
        "prose": words.prose,
        "facts": facts,
    }
    return found
