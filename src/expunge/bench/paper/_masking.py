"""The paper's first figures, which need no results: what AND and PROB mask (fig:masking,
fig:maskingSalUn), and the probability of agreement by which PROB decides (fig:heatmap).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from expunge import update
from expunge._arrays import Array
from expunge.bench._results import BenchResult
from expunge.bench.plots._style import (
    BLACK,
    BLUE,
    GREEN,
    PINK,
    QUIET,
    VERMILLION,
    Drawn,
    add_note,
)
from expunge.report import new_figure

LINEAR = update.WeightedSum(alpha=0.8, beta=0.5)
EXAMPLES: tuple[tuple[str, tuple[float, float], tuple[float, float]], ...] = (
    ("(a) no coordinate agrees", (1.3, -0.7), (-0.5, 1.1)),
    ("(b) θ₁ agrees, θ₂ is masked", (-1.2, 0.8), (-0.7, -1.15)),
    ("(c) both agree", (1.3, 0.45), (0.5, 1.1)),
)
"""∇U and ∇C of three cases: no coordinate agrees in sign, one does, both do."""
SIDE = 1.95
"""Half the side of the plane of two parameters."""
HEATMAP_LEVEL = 0.45
"""The p of PROB in the heat map."""
HATCHED: dict[str, Any] = {"edgecolor": "#999999", "hatch": "/////", "lw": 0}
"""How masked areas are drawn."""


# fig:masking: which coordinates AND moves, and how far, with both aggregations.


def masked_update(u: Sequence[float], c: Sequence[float], aggregate: update.Aggregate) -> Array:
    """-Δ = m_AND(∇U, ∇C) ⊙ G(∇U, ∇C), equations (11) and (12), with the parts of the library."""
    first, second = (torch.tensor(g, dtype=torch.float64) for g in (u, c))
    step = update.And().weight(update.Signals(first, second)) * aggregate.combine(first, second)
    return np.asarray(step.numpy())


def masking(results: Sequence[BenchResult]) -> Drawn:
    """Three pairs of gradients, with their updates by both aggregations."""
    figure = new_figure(7.4, 3.2)
    axes = figure.subplots(1, 3)
    for ax, (title, u, c) in zip(axes, EXAMPLES, strict=True):
        _draw_case(ax, u, c)
        ax.set_title(title, pad=12)
    handles, labels = axes[1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)
    add_note(figure, ["−Δ = m ⊙ G(∇U, ∇C). Hatched: masked, since the signs of ∇U and ∇C differ."])
    return [("", figure)]


def _draw_case(ax: Any, u: tuple[float, float], c: tuple[float, float]) -> None:
    draw_plane(ax)
    first, second = np.array(u), np.array(c)
    shade_feasible(ax, first, second)
    draw_arrow(ax, first, BLACK)
    draw_arrow(ax, second, VERMILLION)
    for tip, name, colour in ((first, "∇U", BLACK), (second, "∇C", VERMILLION)):
        away = 10 * tip / np.linalg.norm(tip)
        label_tip(ax, tip, name, colour, (float(away[0]), float(away[1])))
    mask = update.And().weight(update.Signals(torch.tensor(u), torch.tensor(c))).tolist()
    _hatch_masked(ax, mask)
    linear, smallest = (masked_update(u, c, part) for part in (LINEAR, update.MinAbs()))
    label = f"−Δ, linear (α = {LINEAR.alpha}, β = {LINEAR.beta})"
    draw_arrow(ax, linear, BLUE, label, width=2.4)
    draw_arrow(ax, smallest, PINK, "−Δ, smaller of the two (min-abs)", width=2.4)
    if not any(mask):
        ax.text(-0.14, -0.14, "Δ = 0", fontsize=8, va="top", ha="right")


def _hatch_masked(ax: Any, mask: list[float]) -> None:
    """A hatched strip along the axis of each masked coordinate."""
    for fill, weight in zip((ax.fill_between, ax.fill_betweenx), mask, strict=True):
        if not weight:
            fill([-SIDE, SIDE], -0.09, 0.09, facecolor="none", zorder=0.5, **HATCHED)


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


def shade_feasible(ax: Any, u: Array, c: Array) -> None:
    """Shade the steps -Δ with ⟨-Δ, u⟩ ≥ 0 and ⟨-Δ, c⟩ ≥ 0, equation (9)."""
    line = np.linspace(-SIDE, SIDE, 201)
    steps = np.stack(np.meshgrid(line, line), axis=-1)
    least = np.minimum(steps @ u, steps @ c)
    ax.contourf(line, line, least, levels=[0.0, 1e3], colors=[GREEN], alpha=0.1, zorder=0)
    ax.fill([], [], color=GREEN, alpha=0.1, lw=0, label="feasible −Δ")


def draw_plane(ax: Any) -> None:
    """Axes through the origin, without ticks, equal scales."""
    ax.axhline(0, color=QUIET, lw=0.6, zorder=1)
    ax.axvline(0, color=QUIET, lw=0.6, zorder=1)
    ax.set(xlim=(-SIDE, SIDE), ylim=(-SIDE, SIDE), xticks=[], yticks=[], aspect="equal")
    for side in ("left", "bottom"):
        ax.spines[side].set_visible(False)
    ax.text(SIDE, 0, " θ₁", va="center", ha="left", color=QUIET)
    ax.text(0, SIDE, "θ₂", va="bottom", ha="center", color=QUIET)


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

    def signals(self) -> update.Signals:
        """What an add-on sees of the batch."""
        u, c, s_u, s_c = (
            torch.tensor(v, dtype=torch.float64)
            for v in (self.batch_u, self.batch_c, self.sigma_u, self.sigma_c)
        )
        return update.Signals(u, c, update.signed_agreement(u, c, s_u**2, s_c**2, 1e-12))

    def agreement(self) -> Array:
        """f of both coordinates, equation (18)."""
        signed = self.signals().signed_agreement
        assert signed is not None
        return np.asarray((0.5 + 0.5 * signed).numpy())

    def update(self, addon: update.Addon) -> Array:
        """-Δ of an add-on with the linear aggregation."""
        signals = self.signals()
        step = addon.weight(signals) * LINEAR.combine(signals.objective, signals.constraint)
        return np.asarray(step.numpy())

    def changes(self, step: Array) -> tuple[float, float]:
        """⟨-Δ, g_U⟩ and ⟨-Δ, g_C⟩ with the true gradients: feasible where both are ≥ 0."""
        return float(step @ np.array(self.true_u)), float(step @ np.array(self.true_c))


def noisy_masking(results: Sequence[BenchResult]) -> Drawn:
    """The truth and a batch; what AND makes of the batch; what PROB does."""
    case = NoisyExample()
    f = case.agreement()
    figure = new_figure(7.4, 3.35)
    axes = figure.subplots(1, 3)

    # Gradients and feasible steps in all panels; the noise in the first, a step in the others.
    for ax in axes:
        draw_plane(ax)
        shade_feasible(ax, np.array(case.true_u), np.array(case.true_c))
        _draw_gradients(ax, case, faint=ax is not axes[0])
    _draw_noise(axes[0], case)
    axes[0].set_title("(a) true and batch gradients", pad=12)
    _draw_step(axes[1], case, update.And(), "(b) AND keeps θ₁ and θ₂")
    _draw_step(axes[2], case, update.Prob(p=case.p), f"(c) PROB, p = {case.p}, masks θ₂")
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


def _draw_step(ax: Any, case: NoisyExample, addon: update.Addon, title: str) -> None:
    step = case.update(addon)
    draw_arrow(ax, step, BLUE, f"−Δ (α = {LINEAR.alpha}, β = {LINEAR.beta})", width=2.6)
    change = case.changes(step)[1]
    verdict = "feasible" if min(case.changes(step)) >= 0 else "not feasible"
    ax.set_title(f"{title}\n{verdict}: ⟨−Δ, $g_C$⟩ = {change:+.2f}".replace("-", "−"), pad=12)
    _hatch_masked(ax, step.tolist())


# fig:heatmap: the probability of agreement, equation (18).


def probability(phi_u: Array, phi_c: Array) -> Array:
    """f at (φ_U, φ_C) in (0, 1)², by the library's own ``signed_agreement``."""
    u, c = (torch.special.ndtri(torch.from_numpy(phi)) for phi in (phi_u, phi_c))
    one = torch.ones_like(u)
    return np.asarray((0.5 + 0.5 * update.signed_agreement(u, c, one, one, 1e-300)).numpy())


def heatmap(results: Sequence[BenchResult]) -> Drawn:
    """The heat map with lines of equal probability; hatched where PROB masks."""
    centres = (np.arange(200) + 0.5) / 200  # of cells over the unit interval
    x, y = np.meshgrid(centres, centres)
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
    ax.clabel(lines, fmt="%.1f", fontsize=6.5)

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
