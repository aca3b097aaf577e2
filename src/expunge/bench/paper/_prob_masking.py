"""What PROB masks: on a noisy batch (fig:maskingSalUn) and over all (φ_U, φ_C) (fig:heatmap)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from expunge._arrays import Array
from expunge.bench._results import Result
from expunge.bench.paper._masking import (
    LINEAR,
    draw_arrow,
    draw_plane,
    label_tip,
    shade_feasible,
)
from expunge.bench.plots._style import BLACK, BLUE, VERMILLION, Drawn, add_note, styled
from expunge.report import new_figure
from expunge.update import Addon, And, Prob, Signals, signed_agreement

SIDE = 1.95
"""Half the side of the plane of two parameters."""
HEATMAP_LEVEL = 0.45
"""The p of PROB in the heat map."""
CELLS = 200


# fig:maskingSalUn: a batch whose signs agree by accident, and how PROB notices.


@dataclass(frozen=True)
class NoisyExample:
    """True gradients, batch gradients and standard deviations of the noise, in two coordinates."""

    true_u: tuple[float, float] = (0.55, 1.25)
    true_c: tuple[float, float] = (0.60, -0.85)
    batch_u: tuple[float, float] = (0.65, 1.10)
    batch_c: tuple[float, float] = (0.75, 0.12)
    sigma_u: tuple[float, float] = (0.16, 0.22)
    sigma_c: tuple[float, float] = (0.18, 0.55)
    p: float = 0.75

    def signals(self) -> Signals:
        """What an add-on sees of the batch."""
        u, c, s_u, s_c = (
            torch.tensor(v, dtype=torch.float64)
            for v in (self.batch_u, self.batch_c, self.sigma_u, self.sigma_c)
        )
        return Signals(u, c, signed_agreement(u, c, s_u**2, s_c**2, 1e-12))

    def agreement(self) -> Array:
        """f of both coordinates, equation (18)."""
        signed = self.signals().signed_agreement
        assert signed is not None
        return np.asarray((0.5 + 0.5 * signed).numpy())

    def update(self, addon: Addon) -> Array:
        """-Δ of an add-on with the linear aggregation."""
        signals = self.signals()
        step = addon.weight(signals) * LINEAR.combine(signals.objective, signals.constraint)
        return np.asarray(step.numpy())

    def changes(self, step: Array) -> tuple[float, float]:
        """⟨-Δ, g_U⟩ and ⟨-Δ, g_C⟩ with the true gradients: feasible where both are ≥ 0."""
        return float(step @ np.array(self.true_u)), float(step @ np.array(self.true_c))


@styled
def noisy_masking(results: Sequence[Result]) -> Drawn:
    """The truth and a batch; what AND makes of the batch; what PROB does."""
    case = NoisyExample()
    f = case.agreement()
    figure = new_figure(7.4, 3.35)
    axes = figure.subplots(1, 3)

    # Gradients and feasible steps in all panels; the noise in the first, a step in the others.
    for ax in axes:
        draw_plane(ax, -SIDE, SIDE)
        shade_feasible(ax, np.array(case.true_u), np.array(case.true_c), 4.0)
        _draw_gradients(ax, case, faint=ax is not axes[0])
    _draw_noise(axes[0], case)
    axes[0].set_title("(a) true and batch gradients", pad=12)
    _draw_step(axes[1], case, And(), "(b) AND keeps θ₁ and θ₂")
    _draw_step(axes[2], case, Prob(p=case.p), f"(c) PROB, p = {case.p}, masks θ₂")
    for ax in axes[1:]:
        text = f"$f_1$ = {f[0]:.2f}\n$f_2$ = {f[1]:.2f}"
        ax.text(0.05, 0.95, text, transform=ax.transAxes, va="top")

    # One legend for all panels, each label once.
    handles, labels = axes[0].get_legend_handles_labels()
    more = axes[1].get_legend_handles_labels()
    chosen = dict(zip([*labels, *more[1]], [*handles, *more[0]], strict=True))
    figure.legend(
        chosen.values(), chosen.keys(), loc="outside upper center", ncols=6, frameon=False
    )
    add_note(
        figure,
        [
            "Green: steps that are feasible for the true gradients. Ellipses: 1 and 2 standard "
            "deviations of the noise. "
            f"A mask stricter than AND needs p > ½; here p = {case.p}.",
        ],
    )
    return [("", figure)]


def _draw_gradients(ax: Any, case: NoisyExample, *, faint: bool) -> None:
    pairs = (
        (case.true_u, case.batch_u, BLACK, "U", (12.0, 8.0), (14.0, 2.0)),
        (case.true_c, case.batch_c, VERMILLION, "C", (4.0, -11.0), (4.0, 11.0)),
    )
    width = 0.8 if faint else 1.5
    for true, batch, colour, name, off, batch_off in pairs:
        draw_arrow(ax, np.array(true), colour, f"true $g_{name}$", width=width)
        draw_arrow(ax, np.array(batch), colour, f"batch $ĝ_{name}$", dashed=True, width=width)
        if not faint:
            label_tip(ax, np.array(true), f"$g_{name}$", colour, off)
            label_tip(ax, np.array(batch), f"$ĝ_{name}$", colour, batch_off)


def _draw_noise(ax: Any, case: NoisyExample) -> None:
    from matplotlib.patches import Ellipse

    for centre, sigma, colour in (
        (case.true_u, case.sigma_u, BLACK),
        (case.true_c, case.sigma_c, VERMILLION),
    ):
        for times in (1, 2):
            ax.add_patch(
                Ellipse(
                    centre, 2 * times * sigma[0], 2 * times * sigma[1], facecolor=colour,
                    edgecolor=colour, alpha=0.16 / times, lw=0.8, zorder=2,
                )
            )  # fmt: skip


def _draw_step(ax: Any, case: NoisyExample, addon: Addon, title: str) -> None:
    step = case.update(addon)
    draw_arrow(ax, step, BLUE, f"−Δ (α = {LINEAR.alpha}, β = {LINEAR.beta})", width=2.6)
    change = case.changes(step)[1]
    verdict = "feasible" if min(case.changes(step)) >= 0 else "not feasible"
    ax.set_title(f"{title}\n{verdict}: ⟨−Δ, $g_C$⟩ = {change:+.2f}".replace("-", "−"), pad=12)
    if not step[1]:
        ax.fill_betweenx(
            [-SIDE, SIDE], -0.08, 0.08, facecolor="none", edgecolor="#999999", hatch="/////",
            lw=0, zorder=0.5,
        )  # fmt: skip


# fig:heatmap: the probability of agreement, equation (18).


def probability(phi_u: Array, phi_c: Array) -> Array:
    """f at (φ_U, φ_C) in (0, 1)², by :func:`~expunge.update._kernel.signed_agreement`."""
    return np.asarray((0.5 + 0.5 * _accord_at(phi_u, phi_c)[1]).numpy())


def prob_masked(phi_u: Array, phi_c: Array, p: float = HEATMAP_LEVEL) -> Array:
    """1 where PROB masks, f ≤ p, else 0."""
    u, signed = _accord_at(phi_u, phi_c)
    return np.asarray(1.0 - Prob(p=p).weight(Signals(u, u, signed)).numpy())


def cell_centres(cells: int = CELLS) -> tuple[Array, Array]:
    """The centres of a grid of cells over the unit square."""
    line = (np.arange(cells) + 0.5) / cells
    x, y = np.meshgrid(line, line)
    return x, y


@styled
def heatmap(results: Sequence[Result]) -> Drawn:
    """The heat map with lines of equal probability; hatched where PROB masks."""
    x, y = cell_centres()
    f = probability(x, y)
    figure = new_figure(4.3, 3.7)
    ax = figure.subplots()

    # The heat map, lines of equal probability, and hatching where PROB masks.
    image = ax.imshow(
        f, origin="lower", extent=(0, 1, 0, 1), cmap="PuOr_r", vmin=-0.2, vmax=1.2, aspect="equal"
    )
    lines = ax.contour(x, y, f, levels=np.arange(1, 10) / 10, colors="#333333", linewidths=0.5)
    hatched = ax.contourf(x, y, f, levels=[0.0, HEATMAP_LEVEL], colors="none", hatches=["////"])
    hatched.set_edgecolor("#222222")
    hatched.set_linewidth(0.0)
    hatched.set_gid("masked")
    ax.contour(x, y, f, levels=[HEATMAP_LEVEL], colors="black", linewidths=1.4, linestyles="--")
    _label_lines(ax, lines)

    # Axes and colour bar.
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="$\\phi_U$", ylabel="$\\phi_C$")
    ax.set_xticks(np.arange(0, 1.01, 0.25))
    ax.set_yticks(np.arange(0, 1.01, 0.25))
    bar = figure.colorbar(image, ax=ax, shrink=0.92, ticks=[0, 0.25, 0.5, 0.75, 1])
    bar.set_label("P[$g_U g_C > 0$ | batch]")
    bar.ax.set_ylim(0, 1)
    bar.ax.axhline(HEATMAP_LEVEL, color="black", linewidth=1.4, linestyle="--")
    add_note(figure, [f"Hatched: below p = {HEATMAP_LEVEL}, masked by PROB. Dashed: p."])
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


def _accord_at(phi_u: Array, phi_c: Array) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients over their deviations, and signed_agreement, for given φ."""
    u, c = (torch.special.ndtri(torch.from_numpy(np.asarray(phi))) for phi in (phi_u, phi_c))
    one = torch.ones_like(u)
    return u, signed_agreement(u, c, one, one, 1e-300)
