"""fig:masking: which coordinates move, and how far, by both aggregations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from expunge.bench._records import Record
from expunge.bench.plots._arrows import draw_arrow, name_tip, plane, shade_feasible
from expunge.bench.plots._curve_series import Array
from expunge.bench.plots._style import BLACK, BLUE, PINK, QUIET, VERMILLION, Drawn, add_note, styled
from expunge.plotting._curves import new_figure
from expunge.update import And, Linear, MinAbs
from expunge.update._addons import Signals
from expunge.update._aggregate import Aggregate

LINEAR = Linear(alpha=0.8, beta=0.5)
EXAMPLES: tuple[tuple[str, tuple[float, float], tuple[float, float]], ...] = (
    ("a", (1.3, -0.7), (-0.5, 1.1)),
    ("b", (-1.2, 0.8), (-0.7, -1.15)),
    ("c", (1.3, 0.45), (0.5, 1.1)),
)
"""∇U and ∇C of three cases: no coordinate agrees in sign, one does, both do."""
TITLES = ("(a) no coordinate agrees", "(b) θ₁ agrees, θ₂ is masked", "(c) both agree")


def masked_update(u: Sequence[float], c: Sequence[float], aggregate: Aggregate) -> Array:
    """-Δ = m_AND(∇U, ∇C) ⊙ G(∇U, ∇C), equations (11) and (12), by the library's own parts."""
    first, second = (torch.tensor(g, dtype=torch.float64) for g in (u, c))
    step = And().weight(Signals(first, second)) * aggregate.combine(first, second)
    return np.asarray(step.numpy())


@styled
def masking(records: Sequence[Record]) -> Drawn:
    """Three pairs of gradients with their updates, and the plane of one coordinate."""
    figure = new_figure(6.4, 6.3)
    axes = list(figure.subplots(2, 2).flat)
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
    plane(ax, -1.6, 1.9)
    first, second = np.array(u), np.array(c)
    shade_feasible(ax, first, second, 4.0)
    draw_arrow(ax, first, BLACK)
    draw_arrow(ax, second, VERMILLION)
    for tip, name, colour in ((first, "∇U", BLACK), (second, "∇C", VERMILLION)):
        away = 10 * tip / np.linalg.norm(tip)
        name_tip(ax, tip, name, colour, (float(away[0]), float(away[1])))
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
    plane(ax, -1.7, 1.9, ("$\\partial_i U$", "$\\partial_i C$"))
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
            _name_point(ax, u[i], c[i], f"{case}{'₁₂'[i]}", [float(v[i]) for v in values])


def _name_point(ax: Any, x: float, y: float, name: str, updates: list[float]) -> None:
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
