"""What is known of a metric: definition, formula, direction, unit, citation, use."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

from expunge._repr import ReadableRepr, ReprParts

Direction = Literal["ideal", "higher", "lower", "zero", "none"]

DIRECTIONS: dict[Direction, str] = {
    "ideal": "closer to the ideal model's is better",
    "higher": "higher is better",
    "lower": "lower is better",
    "zero": "closer to zero is better",
    "none": "neither way is better",
}
"""Every direction in words."""
SHARE = "0 to 1"
CHANCE = "0 to 1, 0.5 is chance"


@dataclass(frozen=True)
class Metric:
    """A metric's name, definition, direction and unit.

    ``use`` continues "Use it"; ``citation`` says where the metric comes from.
    ``version`` is that of the definition: records state it, so that numbers by different
    definitions are never taken for the same.
    """

    label: str
    definition: str
    direction: Direction
    unit: str = "%"
    decimals: int = 2
    formula: str = ""
    citation: str = ""
    version: int = 1
    use: str = ""

    @property
    def description(self) -> str:
        """What it is, when to use it and where it comes from, a paragraph each.

        ``expunge list metrics`` reads them.
        """
        parts = [
            f"{self.definition}{f': {self.formula}' if self.formula else ''}",
            self.unit,
            DIRECTIONS[self.direction],
            *([f"definition {self.version}"] if self.formula else []),
        ]
        use = [f"Use it {self.use}."] if self.use else []
        reference = [f"Reference: {self.citation}."] if self.citation else []
        return "\n\n".join(["; ".join(parts), *use, *reference])


def score_rows(columns: Sequence[Mapping[str, float]], metrics: Any) -> list[list[str]]:
    """A row per metric that a column has: its label, a value per column, and its definition."""
    rows = []
    for name in metrics:
        metric: Metric = metrics[name]
        values = [column.get(name) for column in columns]
        if any(value is not None for value in values):
            shown = ["" if value is None else f"{value:.{metric.decimals}f}" for value in values]
            rows.append([metric.label, *shown, f"{metric.definition} ({metric.unit})"])
    return rows


@dataclass(frozen=True, repr=False)
class NamedScores(ReadableRepr):
    """Scores, each under the name of one of the ``metrics``; their fields come with subclasses."""

    metrics: ClassVar[Any]

    def as_dict(self) -> dict[str, float]:
        """The scores that exist, by name; gaps as ``gap_ra``."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        kept = {k: v for k, v in values.items() if isinstance(v, float) and not math.isnan(v)}
        return kept | {f"gap_{name}": value for name, value in values["gaps"].items()}

    def _repr_parts(self) -> ReprParts:
        """All in the table, and no gaps in the line."""
        kind, rows = type(self).__name__, score_rows([self.as_dict()], self.metrics)
        facts = [f"{label} {value}" for label, value, _ in rows if not label.endswith(" gap")]
        return ReprParts(f"{kind}({', '.join(facts)})", (), rows, title=kind)
