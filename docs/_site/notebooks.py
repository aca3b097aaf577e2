"""Write tutorials as notebooks, without outputs, beside their pages.

    python docs/_site/notebooks.py

A test fails while a notebook is not what its page says, and ``make docs`` runs the cells of the
notebook in place of the blocks of the page.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from blocks import RUN, Block, commands, read_blocks
from pages import ROOT

TUTORIALS = ("request", "comparing", "own-loop")
NOTE = "*This is [a page of the documentation]({name}); [install](../install.md) expunge first.*"


def notebook_of(page: Path) -> Path | None:
    """The notebook of a page, if it has one."""
    listed = page.parent == ROOT / "docs" / "tutorials" and page.stem in TUTORIALS
    return page.with_suffix(".ipynb") if listed else None


def write_notebook(page: Path) -> str:
    """The text of a notebook (nbformat 4.5): a cell per block that is run, the rest as Markdown."""
    text, end, cells = page.read_text(encoding="utf-8"), 0, []
    for block in read_blocks(page):
        if block.language in RUN and not block.reason:
            assert not block.setup, f"{block.place}: readers of a notebook do not see the setup"
            before = text[end : block.end].rpartition(f"```{block.language}\n")[0]
            cells += [("markdown", before), ("code", _source(block))]
            end = block.end
    cells.append(("markdown", text[end:]))
    rows = []
    for kind, source in cells:
        shown = re.sub(r"<!--.*?-->\n", "", source, flags=re.DOTALL).strip()
        if shown.startswith("# ") and not rows:
            shown = shown.replace("\n", f"\n\n{NOTE.format(name=page.name)}\n", 1)
        if shown:
            row: dict[str, Any] = {"cell_type": kind, "id": f"cell-{len(rows)}", "metadata": {}}
            row |= {"execution_count": None, "outputs": []} if kind == "code" else {}
            rows.append(row | {"source": shown.splitlines(keepends=True)})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    book = {"cells": rows, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def read_code(notebook: Path) -> list[tuple[str, str]]:
    """The cells of code of a notebook in order: ``python`` or ``sh``, and the source."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    return [
        ("sh", re.sub(r"^!", "", source, flags=re.MULTILINE))
        if source.startswith("!")
        else ("python", source)
        for source in sources
    ]


def _source(block: Block) -> str:
    if block.language == "python":
        return block.code
    return "\n".join(f"!{line}" for line in commands(block.code))


if __name__ == "__main__":
    for name in TUTORIALS:
        page = ROOT / "docs" / "tutorials" / f"{name}.md"
        page.with_suffix(".ipynb").write_text(write_notebook(page), encoding="utf-8")
