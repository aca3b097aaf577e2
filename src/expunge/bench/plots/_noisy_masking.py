"""fig:maskingSalUn: a batch whose signs agree by accident, and how PROB notices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from expunge.bench._records import Record
from expunge.bench.plots._masking import (
    LINEAR,
    draw_arrow,
    draw_plane,
    label_tip,
    shade_feasible,
)
from expunge.bench.plots._style import BLACK, BLUE, VERMILLION, Drawn, add_note, styled
from expunge.plotting import Array, new_figure
from expunge.update import And, Prob
from expunge.update._addons import Addon, Signals
from expunge.update._agreement import accord

SIDE = 1.95


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
        return Signals(u, c, accord(u, c, s_u**2, s_c**2, 1e-12))

    def agreement(self) -> Array:
        """f of both coordinates, equation (18)."""
        signed = self.signals().accord
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
def noisy_masking(records: Sequence[Record]) -> Drawn:
    """The truth and a batch; what AND makes of the batch; what PROB does."""
    case = NoisyExample()
    f = case.agreement()
    figure = new_figure(7.4, 3.35)
    axes = figure.subplots(1, 3)
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
