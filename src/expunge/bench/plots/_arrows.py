"""Vectors in the plane of two parameters, and the cone of feasible steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from expunge.bench.plots._curve_series import Array
from expunge.bench.plots._style import QUIET


def draw_arrow(
    ax: Any, tip: Array, colour: str, label: str = "", *, dashed: bool = False, width: float = 1.6
) -> None:
    """An arrow from the origin; a vector of zeros is a ring there."""
    if not np.any(tip):
        ax.plot(0, 0, "o", ms=7, mfc="none", mec=colour, mew=width, label=label, zorder=5)
        return
    style = "--" if dashed else "-"
    ax.annotate(
        "", xy=tuple(tip), xytext=(0, 0), zorder=4,
        arrowprops={
            "arrowstyle": "-|>", "color": colour, "lw": width, "linestyle": style,
            "shrinkA": 0, "shrinkB": 0, "mutation_scale": 9,
        },
    )  # fmt: skip
    if label:
        ax.plot([], [], color=colour, lw=width, linestyle=style, label=label)


def name_tip(ax: Any, tip: Array, text: str, colour: str, offset: tuple[float, float]) -> None:
    """A name beside the tip of an arrow, ``offset`` in points."""
    ax.annotate(
        text, tuple(tip), xytext=offset, textcoords="offset points", color=colour,
        ha="center", va="center", fontsize=8, zorder=6,
    )  # fmt: skip


def shade_feasible(ax: Any, u: Array, c: Array, size: float) -> None:
    """Shade the steps -Δ with ⟨-Δ, u⟩ ≥ 0 and ⟨-Δ, c⟩ ≥ 0, equation (9)."""
    corners = feasible_corners(u, c, size)
    ax.fill(*corners.T, color="#009E73", alpha=0.10, lw=0, zorder=0, label="feasible −Δ")


def feasible_corners(u: Array, c: Array, size: float) -> Array:
    """The polygon of feasible steps within the square of half side ``size``, [corners, 2]."""
    square = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]], dtype=np.float64) * size
    for normal in (u, c):
        square = _cut(square, normal)
    return square


def _cut(polygon: Array, normal: Array) -> Array:
    """The part of a polygon with ⟨x, normal⟩ ≥ 0."""
    kept: list[Array] = []
    side = polygon @ normal
    for k in range(len(polygon)):
        here, there = polygon[k - 1], polygon[k]
        if side[k - 1] * side[k] < 0:
            kept.append(here + (there - here) * side[k - 1] / (side[k - 1] - side[k]))
        if side[k] >= 0:
            kept.append(there)
    return np.array(kept).reshape(-1, 2)


def plane(ax: Any, low: float, high: float, names: tuple[str, str] = ("θ₁", "θ₂")) -> None:
    """Axes through the origin, without ticks, equal scales."""
    ax.axhline(0, color=QUIET, lw=0.6, zorder=1)
    ax.axvline(0, color=QUIET, lw=0.6, zorder=1)
    ax.set(xlim=(low, high), ylim=(low, high), xticks=[], yticks=[], aspect="equal")
    for side in ("left", "bottom"):
        ax.spines[side].set_visible(False)
    ax.text(high, 0, f" {names[0]}", va="center", ha="left", color=QUIET)
    ax.text(0, high, names[1], va="bottom", ha="center", color=QUIET)
