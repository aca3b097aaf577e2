"""How many cases were tried, clean and bad, and where that is written down."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SECURITY = Path(__file__).parents[2] / "SECURITY.md"
INPUTS, KILLS = "counts of bad input", "counts of interruptions"
"""The tables of counts, by the comments that begin them."""
END = "<!-- end of counts -->\n"


@dataclass(frozen=True)
class Counts:
    """The cases of one kind."""

    kind: str
    tried: int
    bad: int

    def __str__(self) -> str:
        return f"{self.kind}: {self.tried} tried, {self.tried - self.bad} clean, {self.bad} bad"


def write_counts(rows: Sequence[Counts], table: str = INPUTS) -> None:
    """Put a table of counts into SECURITY.md, in place of the one there."""
    begin = f"<!-- {table} -->\n"
    before, _, rest = SECURITY.read_text(encoding="utf-8").partition(begin)
    _, _, after = rest.partition(END)
    lines = ["| what | tried | clean | bad |", "| --- | ---: | ---: | ---: |"]
    total = Counts("all", sum(row.tried for row in rows), sum(row.bad for row in rows))
    lines += [f"| {r.kind} | {r.tried} | {r.tried - r.bad} | {r.bad} |" for r in (*rows, total)]
    text = "\n".join(lines) + "\n"
    SECURITY.write_text(f"{before}{begin}{text}{END}{after}", encoding="utf-8")


def read_counts(table: str = INPUTS) -> dict[str, Counts]:
    """The counts of a table in SECURITY.md, by kind."""
    _, _, text = SECURITY.read_text(encoding="utf-8").partition(f"<!-- {table} -->\n")
    text = text.partition(END)[0]
    found = re.findall(r"^\| ([^|]+?) \| (\d+) \| \d+ \| (\d+) \|$", text, flags=re.MULTILINE)
    return {kind: Counts(kind, int(tried), int(bad)) for kind, tried, bad in found}
