"""Figures for print, of audits, requests and benchmarks: palette, creation, saving, legends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from expunge._files import atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette, which colour-blind readers can distinguish.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches; matplotlib is loaded here, when there is something to draw."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Figure, path: Path, formats: Sequence[str] = ("png", "pdf")) -> None:
    """Write a figure in each format, next to each other: the same figure gives the same bytes.

    PDF embeds its fonts as type 42, which publishers ask for; no dates are written.
    """
    import matplotlib as mpl

    undated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}
    settings: Any = {"pdf.fonttype": 42, "svg.hashsalt": "expunge"}
    for kind in formats:
        with atomic(path.with_suffix(f".{kind}")) as scratch, mpl.rc_context(settings):
            figure.savefig(scratch, format=kind, dpi=160, metadata=undated.get(kind))


def hide_frame(ax: Any) -> None:
    """Leave the axes without their upper and right border."""
    ax.spines[["top", "right"]].set_visible(False)


def legend_beside(ax: Any, fontsize: float = 8) -> None:
    """A legend to the right of the axes, where it covers no data."""
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=fontsize)
