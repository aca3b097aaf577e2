"""The charting library that is shipped with the package; ``vendor/README.md`` has its licences."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

NAME = "Apache ECharts"
VERSION = "6.1.0"
FILE = "echarts.common.min.js"
SHA256 = "61f13280aba3161f77fc801bf5f9c786f55f10432153a0683fc5cc0700b013d5"
NOTICE = f"Charts by {NAME} {VERSION}, © The Apache Software Foundation, Apache License 2.0."


@cache
def library() -> str:
    """The library's code."""
    return part("vendor", FILE)


def part(*path: str) -> str:
    """A file of this package as text."""
    return files("expunge.report").joinpath(*path).read_text(encoding="utf-8")
