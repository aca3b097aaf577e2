"""The code blocks of a Markdown page, and what comments say about running them.

A fenced block marked ``python`` or ``sh`` is run, block after block, in one folder and one Python
namespace per page. A comment directly above a block changes that; readers do not see it::

    <!-- setup: Python that the next block needs, and that its readers have already -->
    <!-- not run: why; the block is then only checked, its commands against the command line -->

All other blocks (``text``, ``toml``, ``yaml``, ``json``) are shown, not run.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

RUN = ("python", "sh")
"""The languages of blocks that are run."""
SHOWN = ("text", "toml", "yaml", "json", "dockerfile", "pycon")
"""The languages of blocks that are not."""

_FENCE = re.compile(
    r"(?P<above>(?:^[ ]*<!--(?:(?!-->).)*-->[ ]*\n+)*)"
    r"^(?P<indent>[ ]*)(?P<fence>```+)(?P<language>[\w-]*)[^\n]*\n"
    r"(?P<body>.*?)^(?P=indent)(?P=fence)[ ]*$",
    flags=re.MULTILINE | re.DOTALL,
)
_COMMENT = re.compile(r"<!--\s*(setup|not run):\s*(.*?)-->", flags=re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    page: Path
    line: int
    """Of its first line of code."""
    language: str
    code: str
    setup: str = ""
    """Python to run first."""
    reason: str = ""
    """Why it is not run; empty where it is."""
    end: int = 0
    """Where the block ends in the text of the page."""

    @property
    def place(self) -> str:
        """What messages call it."""
        return f"{self.page.name}, line {self.line}"


def read_blocks(page: Path, text: str | None = None) -> list[Block]:
    """The blocks of a page, in order; ``text`` where it is not the file's own."""
    text = page.read_text(encoding="utf-8") if text is None else text
    blocks = []
    for match in _FENCE.finditer(text):
        notes = {kind: body.strip() for kind, body in _COMMENT.findall(match["above"])}
        blocks.append(
            Block(
                page,
                text.count("\n", 0, match.start("body")) + 1,
                match["language"],
                textwrap.dedent(match["body"]),
                setup=notes.get("setup", ""),
                reason=" ".join(notes.get("not run", "").split()),
                end=match.end(),
            )
        )
    return blocks


def commands(code: str) -> list[str]:
    """The commands of a ``sh`` block: one per line, lines joined at a backslash, no comments.

    >>> commands("make test\\n\\nexpunge list \\\\\\n    addons  # all of them\\n")
    ['make test', 'expunge list addons']
    """
    joined = re.sub(r"\\\n\s*", "", code)
    lines = (re.sub(r"(^|\s)#.*$", "", line).strip() for line in joined.splitlines())
    return [line for line in lines if line]
