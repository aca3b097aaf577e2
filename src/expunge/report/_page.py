"""One self-contained HTML file: styles, scripts, the charting library and the data."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import ChainableUndefined, Environment, PackageLoader
from markupsafe import Markup

from expunge._durations import format_duration
from expunge._strict_json import to_json_types
from expunge.report import _formatting as formatting

STYLES = (
    "base.css",
    "controls.css",
    "cards.css",
    "tables.css",
    "charts.css",
    "phone.css",
    "print.css",
)
SCRIPTS = ("common.js", "theme.js", "chart.js", "intervals.js", "table.js", "copy.js")
"""The scripts of every page; ``common.js`` comes first."""

CHART_LIBRARY = "Apache ECharts"
CHART_LIBRARY_VERSION = "6.1.0"
CHART_LIBRARY_FILE = "echarts.common.min.js"
CHART_LIBRARY_SHA256 = "61f13280aba3161f77fc801bf5f9c786f55f10432153a0683fc5cc0700b013d5"
NOTICE = (
    f"Charts by {CHART_LIBRARY} {CHART_LIBRARY_VERSION}, © The Apache Software Foundation, Apache "
    "License 2.0."
)
"""Required by the library's licence; ``vendor/README.md`` has all licences."""

ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}
"""In JSON these characters occur in strings only, where an escape means the same."""


def render(template: str, data: Any, scripts: Sequence[str], **values: Any) -> str:
    """Render a page from ``template``; its scripts read ``data``, and no other script can run."""
    scripts_text = "\n".join(_read("js", name) for name in (*SCRIPTS, *scripts))
    code = Markup(f'(() => {{\n"use strict";\n{scripts_text}\n}})();\n')
    library = Markup(_read("vendor", CHART_LIBRARY_FILE))
    page = {
        "data": embed(data),
        "style": Markup("\n".join(_read("css", name) for name in STYLES)),
        "library": library,
        "script": code,
        "policy": _policy([library, code]),
        "notice": NOTICE,
        **{name: to_json_types(value) for name, value in values.items()},
    }
    return templates().get_template(template).render(page)


def embed(value: Any) -> Markup:
    """``value`` as JSON for a ``<script type="application/json">`` that holds no markup.

    >>> embed({"id": "</script>"})
    Markup('{"id":"\\\\u003c/script\\\\u003e"}')
    """
    text = json.dumps(
        to_json_types(value), ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )
    # Lone surrogates, as in file names that are not UTF-8, cannot be written to a file.
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return Markup(text.translate(ESCAPES))


@cache
def _read(*path: str) -> str:
    """A file of this package as text."""
    return files("expunge.report").joinpath(*path).read_text(encoding="utf-8")


def _policy(scripts: Sequence[str]) -> str:
    """Allow scripts by hash: one that came in with the data could not run, even if unescaped."""
    digests = (hashlib.sha256(text.encode()).digest() for text in scripts)
    allowed = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


@cache
def templates() -> Environment:
    """The templates of this package, with the filters that they use."""
    environment = Environment(
        loader=PackageLoader("expunge.report"),
        autoescape=True,
        undefined=ChainableUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": formatting.number,
        "duration": format_duration,
        "datetime": formatting.date_and_time,
        "label": formatting.label,
        "prose": formatting.prose,
        "facts": formatting.facts,
    }
    return environment
