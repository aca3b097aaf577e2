"""How many cases were tried, clean and bad, and where that is written down."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SECURITY = Path(__file__).parents[2] / "SECURITY.md"
BEGIN, END = "<!-- counts of `make fuzz` -->\n", "<!-- end of counts -->\n"


@dataclass(frozen=True)
class Counts:
    """The cases of one kind."""

    kind: str
    tried: int
    bad: int

    def __str__(self) -> str:
        return f"{self.kind}: {self.tried} tried, {self.tried - self.bad} clean, {self.bad} bad"


def write_counts(rows: Sequence[Counts]) -> None:
    """Put the table of counts into SECURITY.md, in place of the one there."""
    before, _, rest = SECURITY.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    lines = ["| input | tried | clean | bad |", "| --- | ---: | ---: | ---: |"]
    total = Counts("all", sum(row.tried for row in rows), sum(row.bad for row in rows))
    lines += [f"| {r.kind} | {r.tried} | {r.tried - r.bad} | {r.bad} |" for r in (*rows, total)]
    table = "\n".join(lines) + "\n"
    SECURITY.write_text(f"{before}{BEGIN}{table}{END}{after}", encoding="utf-8")


def read_counts() -> dict[str, Counts]:
    """The counts in SECURITY.md, by kind."""
    text = SECURITY.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    found = re.findall(r"^\| ([^|]+?) \| (\d+) \| \d+ \| (\d+) \|$", text, flags=re.MULTILINE)
    return {kind: Counts(kind, int(tried), int(bad)) for kind, tried, bad in found}
