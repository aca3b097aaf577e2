"""What is read from the HTML of a page without a browser."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any


class Reader(HTMLParser):
    """Tags with their attributes, and the text of scripts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] == "script" and len(self.scripts):
            self.scripts[-1] += data
        else:
            self.text += data


def embedded(html: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert found
    return json.loads(found[1])
