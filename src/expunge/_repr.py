"""What a result shows of itself: a line at a prompt; a table and a small plot in a notebook."""

from __future__ import annotations

import base64
import io
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

GREY = "#808080"
"""Of axes and letters in a plot: readable on a light and on a dark page."""


@dataclass(frozen=True)
class ReprParts:
    """A line, a table with more detail, and quantities to plot over epochs."""

    line: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    curves: Mapping[str, Sequence[float]] = field(default_factory=dict)
    title: str = ""
    """Stands above the table instead of the line, where the line would repeat the table."""

    def html(self) -> str:
        """The line, the table and the plot, with nothing to fetch."""
        lines = [*([("th", self.heads)] if self.heads else []), *(("td", row) for row in self.rows)]
        cells = ("".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in line) for tag, line in lines)
        table = f"<table><tr>{'</tr><tr>'.join(cells)}</tr></table>" if self.rows else ""
        long = any(len(values) > 1 for values in self.curves.values())
        return f"<p>{escape(self.title or self.line)}</p>{table}{self._image() if long else ''}"

    def _image(self) -> str:
        from matplotlib.figure import Figure

        figure, file = Figure(figsize=(4.5, 2.2), layout="constrained"), io.BytesIO()
        draw_curves(self.curves, figure.subplots())
        figure.savefig(file, format="svg", transparent=True)
        source = base64.b64encode(file.getvalue()).decode()
        names = escape(", ".join(self.curves))
        return f'<img alt="{names} over epochs" src="data:image/svg+xml;base64,{source}"/>'


class ReadableRepr:
    """Shows its :class:`ReprParts`."""

    @abstractmethod
    def _repr_parts(self) -> ReprParts:
        """What is shown."""

    def __repr__(self) -> str:
        return self._repr_parts().line

    def _repr_html_(self) -> str:
        return self._repr_parts().html()


def draw_curves(curves: Mapping[str, Sequence[float]], ax: Any = None) -> Any:
    """Draw quantities over epochs into ``ax``, or into a new figure of pyplot; the axes."""
    if ax is None:
        from matplotlib import pyplot

        ax = pyplot.subplots(figsize=(6, 3), layout="constrained")[1]
    for name, values in curves.items():
        if not all(map(math.isnan, values)):
            ax.plot(range(1, len(values) + 1), values, marker=".", label=name)
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set_xlabel("epoch", color=GREY)
    ax.tick_params(color=GREY, labelcolor=GREY)
    for side in ax.spines.values():
        side.set_color(GREY)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, labelcolor=GREY)
    return ax
