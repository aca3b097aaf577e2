"""fig:heatmap: the probability of agreement over (φ_U, φ_C), and what PROB masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from expunge.bench._records import Record
from expunge.bench.plots._style import Drawn, add_note, styled
from expunge.plotting import Array, new_figure
from expunge.update import Prob
from expunge.update._addons import Signals
from expunge.update._agreement import accord

LEVEL = 0.45
CELLS = 200


def probability(phi_u: Array, phi_c: Array) -> Array:
    """f at (φ_U, φ_C) in (0, 1)², by the library's :func:`~expunge.update._agreement.accord`."""
    return np.asarray((0.5 + 0.5 * _signals(phi_u, phi_c)[1]).numpy())


def masked(phi_u: Array, phi_c: Array, p: float = LEVEL) -> Array:
    """1 where PROB masks, f ≤ p, else 0."""
    u, sure = _signals(phi_u, phi_c)
    return np.asarray(1.0 - Prob(p=p).weight(Signals(u, u, sure)).numpy())


def centres(cells: int = CELLS) -> tuple[Array, Array]:
    """The centres of a grid of cells over the unit square."""
    line = (np.arange(cells) + 0.5) / cells
    x, y = np.meshgrid(line, line)
    return x, y


@styled
def heatmap(records: Sequence[Record]) -> Drawn:
    """The heat map with lines of equal probability; hatched where PROB masks."""
    x, y = centres()
    f = probability(x, y)
    figure = new_figure(4.3, 3.7)
    ax = figure.subplots()
    image = ax.imshow(
        f, origin="lower", extent=(0, 1, 0, 1), cmap="PuOr_r", vmin=-0.2, vmax=1.2, aspect="equal"
    )
    lines = ax.contour(x, y, f, levels=np.arange(1, 10) / 10, colors="#333333", linewidths=0.5)
    hatched = ax.contourf(x, y, f, levels=[0.0, LEVEL], colors="none", hatches=["////"])
    hatched.set_edgecolor("#222222")
    hatched.set_linewidth(0.0)
    hatched.set_gid("masked")
    ax.contour(x, y, f, levels=[LEVEL], colors="black", linewidths=1.4, linestyles="--")
    _label_lines(ax, lines)
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="$\\phi_U$", ylabel="$\\phi_C$")
    ax.set_xticks(np.arange(0, 1.01, 0.25))
    ax.set_yticks(np.arange(0, 1.01, 0.25))
    bar = figure.colorbar(image, ax=ax, shrink=0.92, ticks=[0, 0.25, 0.5, 0.75, 1])
    bar.set_label("P[$g_U g_C > 0$ | batch]")
    bar.ax.set_ylim(0, 1)
    bar.ax.axhline(LEVEL, color="black", linewidth=1.4, linestyle="--")
    add_note(figure, [f"Hatched: below p = {LEVEL}, masked by PROB. Dashed: p."])
    return [("", figure)]


def _label_lines(ax: Any, lines: Any) -> None:
    """The level of each line of equal probability, where it crosses a diagonal."""
    from matplotlib.patheffects import withStroke

    places = [(0.5, 0.08), (0.5, 0.92)]
    for level in (0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9):
        away = 0.5 * abs(2 * level - 1) ** 0.5
        side = 1 if level > 0.5 else -1
        places += [(0.5 + s * away, 0.5 + side * s * away) for s in (-1, 1)]
    for text in ax.clabel(lines, fmt="%.1f", fontsize=6.5, manual=places):
        text.set_path_effects([withStroke(linewidth=2.0, foreground="white")])


def _signals(phi_u: Array, phi_c: Array) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients over their deviations, and accord, for given φ."""
    u, c = (torch.special.ndtri(torch.from_numpy(np.asarray(phi))) for phi in (phi_u, phi_c))
    one = torch.ones_like(u)
    return u, accord(u, c, one, one, 1e-300)
