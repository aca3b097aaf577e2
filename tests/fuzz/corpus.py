"""The corpus: files of lines ``CASE => OUTCOME``, one file per kind of input."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).with_name("corpus")
KINDS = ("ids", "files", "tables", "weights", "toml", "api", "cli")
"""Each is a file of the corpus and a function of ``runner``."""
SEED = 13
OTHERS = 4
"""Cases that run with the other tests besides the former faults; ``make fuzz`` runs all."""


@dataclass(frozen=True)
class Case:
    """One bad (or just unusual) input, and what should come of it.

    ``expected`` is ``ok``, or ``ok: TEXT`` if the result should show it, or ``refused: TEXT``: an
    error that the package raises on purpose, whose message contains it. A line that begins with
    ``!`` was once a fault; those always run.
    """

    kind: str
    line: int
    text: str
    expected: str
    fixed: bool

    def __str__(self) -> str:
        return f"{self.kind}-{self.line}"


def load_corpus() -> list[Case]:
    """All cases, in the order of their files."""
    return [case for kind in KINDS for case in _read(kind)]


def sample(cases: list[Case]) -> list[Case]:
    """The cases that were faults, and a few others drawn with a fixed seed."""
    drawn = random.Random(SEED).sample([case for case in cases if not case.fixed], OTHERS)
    return [case for case in cases if case.fixed or case in drawn]


def _read(kind: str) -> list[Case]:
    cases = []
    lines = (FOLDER / f"{kind}.txt").read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        text, arrow, expected = line.partition(" => ")
        if not arrow or not expected.strip().startswith(("ok", "refused")):
            raise ValueError(f"{kind}.txt, line {number}: CASE => OUTCOME is expected.")
        case = text.removeprefix("!").strip()
        cases.append(Case(kind, number, case, expected.strip(), text.startswith("!")))
    return cases
