"""Findings as cells of tables: numbers with sign and unit, and what each format escapes."""

from __future__ import annotations

from collections.abc import Sequence

from expunge.bench.claims._base import Finding

DECIMALS = {"share": 3, "%": 1, "|cos|": 3}
MAGNITUDES = ("|cos|", "× epochs", "points off")
"""Units of what has no sign."""
TEX = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "%_&#$"},
    "|": r"\textbar{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "×": r"$\times$",
    "→": r"$\to$",
    "⟨": r"$\langle$",
    "⟩": r"$\rangle$",
}


def cells_of(finding: Finding) -> list[str]:
    """Group, status, effect with sign and unit, interval, n."""
    decimals = DECIMALS.get(finding.unit, 2)
    sign = "" if finding.unit in MAGNITUDES else "+"

    def shown(number: float) -> str:
        return f"{round(number, decimals) + 0.0:{sign}.{decimals}f}"  # + 0.0 makes -0.0 zero

    effect = "" if finding.effect is None else f"{shown(finding.effect)} {finding.unit}"
    ends = finding.interval
    interval = "" if ends is None else f"[{shown(ends[0])}, {shown(ends[1])}]"
    return [finding.group, finding.status, effect, interval, str(finding.n)]


def markdown_line(cells: Sequence[str]) -> str:
    """A line of a Markdown table."""
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def tex(text: str) -> str:
    """Text with what LaTeX would take for its own escaped."""
    return "".join(TEX.get(sign, sign) for sign in text)


def tex_line(cells: Sequence[str]) -> str:
    """A line of a LaTeX table."""
    return " & ".join(tex(cell) for cell in cells) + r" \\"
