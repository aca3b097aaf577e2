"""Docstrings as Markdown: for the pages of parts, and for mkdocstrings, as a Griffe extension."""

from __future__ import annotations

import inspect
import re
from typing import Any

import griffe

LEADS = ("Reference", "Deviation")
"""Words that begin a paragraph with a role of its own."""


def to_markdown(text: str) -> str:
    """The text of a docstring, with what is not Markdown made so.

    >>> print(to_markdown("See :func:`~a.b`.\\n\\nReference: none.\\n\\n>>> 1 + 1\\n2"))
    See `b`.
    <BLANKLINE>
    **Reference:** none.
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    """
    text = re.sub(r":\w+:`~(?:\w+\.)*(\w+)`", r"`\1`", text)
    text = re.sub(r":\w+:`([^`]+)`", r"`\1`", text)
    text = re.sub(r"::$", ":", text, flags=re.MULTILINE)
    text = re.sub(rf"^({'|'.join(LEADS)}): ", r"**\1:** ", text, flags=re.MULTILINE)
    return "\n\n".join(_fenced(part) for part in text.split("\n\n"))


def paragraphs(part: Any) -> list[str]:
    """The paragraphs of the docstring of a class or object, before its sections."""
    kind = part if inspect.isroutine(part) or isinstance(part, type) else type(part)
    text = inspect.getdoc(kind) or ""
    return re.split(r"\n\n(?=Args:|Returns:|Attributes:)", text)[0].split("\n\n")


def in_table(text: str) -> str:
    """A text that may stand in a cell of a table."""
    return " ".join(text.replace("``", "`").split()).replace("|", r"\|")


def _fenced(paragraph: str) -> str:
    """A paragraph of the prompt as a block; any other as it is."""
    first = paragraph.lstrip()
    if not first.startswith(">>> "):
        return paragraph
    indent = paragraph[: len(paragraph) - len(first)]
    return f"{indent}```pycon\n{paragraph.rstrip()}\n{indent}```"


class MarkdownDocstrings(griffe.Extension):
    """Make Markdown of every docstring before mkdocstrings reads it."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite the docstring of an object, if it has one."""
        if obj.docstring is not None:
            obj.docstring.value = to_markdown(obj.docstring.value)
