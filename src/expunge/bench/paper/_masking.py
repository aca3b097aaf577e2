"""fig:masking: which coordinates AND moves, and how far, with both aggregations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from expunge._arrays import Array
from expunge.bench._results import Result
from expunge.bench.plots._style import (
    BLACK,
    BLUE,
    GREEN,
    PINK,
    QUIET,
    VERMILLION,
    Drawn,
    add_note,
    styled,
)
from expunge.report import new_figure
from expunge.update import Aggregate, And, MinAbs, Signals, WeightedSum

LINEAR = WeightedSum(alpha=0.8, beta=0.5)
EXAMPLES: tuple[tuple[str, tuple[float, float], tuple[float, float]], ...] = (
    ("a", (1.3, -0.7), (-0.5, 1.1)),
    ("b", (-1.2, 0.8), (-0.7, -1.15)),
    ("c", (1.3, 0.45), (0.5, 1.1)),
)
"""∇U and ∇C of three cases: no coordinate agrees in sign, one does, both do."""
TITLES = ("(a) no coordinate agrees", "(b) θ₁ agrees, θ₂ is masked", "(c) both agree")


def masked_update(u: Sequence[float], c: Sequence[float], aggregate: Aggregate) -> Array:
    """-Δ = m_AND(∇U, ∇C) ⊙ G(∇U, ∇C), equations (11) and (12), with the parts of the library."""
    first, second = (torch.tensor(g, dtype=torch.float64) for g in (u, c))
    step = And().weight(Signals(first, second)) * aggregate.combine(first, second)
    return np.asarray(step.numpy())


@styled
def masking(results: Sequence[Result]) -> Drawn:
    """Three pairs of gradients with their updates, and the plane of one coordinate."""
    figure = new_figure(6.4, 6.3)
    axes = list(figure.subplots(2, 2).flat)

    # Three examples, and all their coordinates in one plane.
    for ax, title, (_, u, c) in zip(axes, TITLES, EXAMPLES, strict=False):
        _draw_case(ax, u, c)
        ax.set_title(title, pad=12)
    _draw_coordinates(axes[3])
    axes[3].set_title("(d) each coordinate: mask and $-\\Delta_i$", pad=12)

    handles, labels = axes[1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)
    add_note(figure, ["−Δ = m ⊙ G(∇U, ∇C). Hatched: masked, since the signs of ∇U and ∇C differ."])
    return [("", figure)]


def _draw_case(ax: Any, u: tuple[float, float], c: tuple[float, float]) -> None:
    draw_plane(ax, -1.6, 1.9)
    first, second = np.array(u), np.array(c)
    shade_feasible(ax, first, second, 4.0)
    draw_arrow(ax, first, BLACK)
    draw_arrow(ax, second, VERMILLION)
    for tip, name, colour in ((first, "∇U", BLACK), (second, "∇C", VERMILLION)):
        away = 10 * tip / np.linalg.norm(tip)
        label_tip(ax, tip, name, colour, (float(away[0]), float(away[1])))
    mask = And().weight(Signals(torch.tensor(u), torch.tensor(c))).tolist()
    _hatch_masked(ax, mask)
    linear, smallest = (masked_update(u, c, part) for part in (LINEAR, MinAbs()))
    label = f"−Δ, linear (α = {LINEAR.alpha}, β = {LINEAR.beta})"
    draw_arrow(ax, linear, BLUE, label, width=2.4)
    draw_arrow(ax, smallest, PINK, "−Δ, smaller of the two (min-abs)", width=2.4)
    if not any(mask):
        ax.text(-0.14, -0.14, "Δ = 0", fontsize=8, va="top", ha="right")


def _hatch_masked(ax: Any, mask: list[float]) -> None:
    """A hatched strip along the axis of each masked coordinate."""
    low, high, half = -1.6, 1.9, 0.09
    style: dict[str, Any] = {
        "facecolor": "none", "edgecolor": "#999999", "hatch": "/////", "lw": 0, "zorder": 0.5,
    }  # fmt: skip
    if not mask[0]:
        ax.fill_between([low, high], -half, half, **style)
    if not mask[1]:
        ax.fill_betweenx([low, high], -half, half, **style)


def _draw_coordinates(ax: Any) -> None:
    """The plane (∂ᵢU, ∂ᵢC): quadrants kept and masked, and the coordinates of the examples."""
    draw_plane(ax, -1.7, 1.9, ("$\\partial_i U$", "$\\partial_i C$"))
    for across, up in (((-1.7, 0.0), (0.0, 1.9)), ((0.0, 1.9), (-1.7, 0.0))):
        ax.fill_between(
            across,
            up[0],
            up[1],
            facecolor="#F0F0F0",
            edgecolor="#999999",
            hatch="/////",
            lw=0,
            zorder=0,
        )
    for x, y, text in ((-0.85, 1.72, "masked"), (0.95, -1.55, "masked"), (-0.85, -1.55, "kept")):
        ax.text(
            x, y, text, ha="center", va="center", color=QUIET, style="italic",
            bbox={"facecolor": "white", "lw": 0, "pad": 1.2},
        )  # fmt: skip
    ax.text(0.95, 1.72, "kept", ha="center", va="center", color=QUIET, style="italic")
    for case, u, c in EXAMPLES:
        values = [masked_update(u, c, part) for part in (MinAbs(), LINEAR)]
        for i in range(2):
            _label_point(ax, u[i], c[i], f"{case}{'₁₂'[i]}", [float(v[i]) for v in values])


def _label_point(ax: Any, x: float, y: float, name: str, updates: list[float]) -> None:
    """A point with its name to the left and -Δᵢ by both aggregations above it."""
    ax.plot(x, y, "o", color=BLACK, ms=3.5, zorder=5)
    small, linear = (f"{value + 0.0:.2f}".replace("-", "−") for value in updates)
    for text, colour, side, offset in (
        (name, BLACK, "right", (-5, 0)),
        (small, PINK, "right", (0, 9)),
        (linear, BLUE, "left", (4, 9)),
    ):
        ax.annotate(
            text, (x, y), xytext=offset, textcoords="offset points", color=colour, fontsize=7.5,
            ha=side, va="center", zorder=6, weight="normal" if text == name else "bold",
            bbox={"facecolor": "white", "alpha": 0.9, "lw": 0, "pad": 0.8},
        )  # fmt: skip


# Vectors in the plane of two parameters, and the cone of feasible steps.


def draw_arrow(
    ax: Any, tip: Array, colour: str, label: str = "", *, dashed: bool = False, width: float = 1.6
) -> None:
    """An arrow from the origin; a zero vector is drawn as a ring."""
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


def label_tip(ax: Any, tip: Array, text: str, colour: str, offset: tuple[float, float]) -> None:
    """A label near the tip of an arrow, ``offset`` in points."""
    ax.annotate(
        text, tuple(tip), xytext=offset, textcoords="offset points", color=colour,
        ha="center", va="center", fontsize=8, zorder=6,
    )  # fmt: skip


def shade_feasible(ax: Any, u: Array, c: Array, size: float) -> None:
    """Shade the steps -Δ with ⟨-Δ, u⟩ ≥ 0 and ⟨-Δ, c⟩ ≥ 0, equation (9)."""
    corners = feasible_corners(u, c, size)
    ax.fill(*corners.T, color=GREEN, alpha=0.10, lw=0, zorder=0, label="feasible −Δ")


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


def draw_plane(ax: Any, low: float, high: float, names: tuple[str, str] = ("θ₁", "θ₂")) -> None:
    """Axes through the origin, without ticks, equal scales."""
    ax.axhline(0, color=QUIET, lw=0.6, zorder=1)
    ax.axvline(0, color=QUIET, lw=0.6, zorder=1)
    ax.set(xlim=(low, high), ylim=(low, high), xticks=[], yticks=[], aspect="equal")
    for side in ("left", "bottom"):
        ax.spines[side].set_visible(False)
    ax.text(high, 0, f" {names[0]}", va="center", ha="left", color=QUIET)
    ax.text(0, high, names[1], va="bottom", ha="center", color=QUIET)
