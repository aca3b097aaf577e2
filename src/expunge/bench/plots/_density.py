"""fig:distrprob: how f is distributed over the parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from expunge.bench._records import Record
from expunge.bench.plots._curve_series import Array
from expunge.bench.plots._density_values import (
    UNCERTAIN,
    Distribution,
    distributions_of,
    kernel_density,
    zones,
)
from expunge.bench.plots._groups import Lacking, groups_of
from expunge.bench.plots._style import BLUE, GREEN, ORANGE, PINK, QUIET, Drawn, add_note, styled
from expunge.plotting._curves import new_figure
from expunge.update import PublishedMoments

EPOCH_LINES = ((BLUE, "-"), (ORANGE, "--"), (GREEN, "-."), (PINK, (0, (1, 1))))


@styled
def agreement(records: Sequence[Record]) -> Drawn:
    """Histogram and density of f: one method over the epochs, the other runs beside it."""
    drawn: Drawn = []
    for group in groups_of(records):
        found = distributions_of(group)
        if not found:
            continue
        first, others = found[0], found[1:4]
        figure = new_figure(7.2 if others else 4.6, 3.3)
        ratios = [1.7, 1] if others else [1]
        grid = figure.add_gridspec(max(len(others), 1), len(ratios), width_ratios=ratios)
        _draw_epochs(figure.add_subplot(grid[:, 0]), first)
        for row, other in enumerate(others):
            ax = figure.add_subplot(grid[row, 1])
            _draw_small(ax, other, last=row == len(others) - 1)
        seeds = f"mean over {first.seeds} seeds" if first.seeds > 1 else "1 seed"
        note = f"{group.title}; all parameters, one pair of batches an epoch; {seeds}"
        limits = f"below {UNCERTAIN[0]}, between, and above {UNCERTAIN[1]}"
        when = f"shares of f {limits} at epoch {next(iter(first.shares))}"
        add_note(figure, [note, "; ".join(filter(None, [when, _bound(found[:4])]))])
        drawn.append((group.name, figure))
    if not drawn:
        raise Lacking("there should be runs with FOCUS that kept a histogram of f. (got none)")
    return drawn


def _bound(shown: Sequence[Distribution]) -> str:
    """What the published recursion rules out: |ĝ/√v| < 1/√ρ after the first step."""
    if all(own.moments != "published" for own in shown):
        return ""
    reach = 0.5 * math.erf(1 / math.sqrt(2 * PublishedMoments().rho)) ** 2
    return f"published moments keep f between {0.5 - reach:.3f} and {0.5 + reach:.3f}"


def _draw_epochs(ax: Any, own: Distribution) -> None:
    epochs = _spread(list(own.shares), len(EPOCH_LINES))
    at = np.linspace(0, 1, 501)
    _draw_bars(ax, own.shares[epochs[0]], label=f"epoch {epochs[0]}, bins")
    for epoch, (colour, dash) in zip(epochs, EPOCH_LINES, strict=False):
        density = kernel_density(own.shares[epoch], at)
        ax.plot(at, density, color=colour, linestyle=dash, lw=1.4, label=f"epoch {epoch}")
    ax.set_ylim(0, 1.3 * ax.get_ylim()[1])
    for (x, word), share in zip(
        ((0.2, "disagree"), (0.5, "uncertain"), (0.8, "agree")),
        zones(own.shares[epochs[0]]),
        strict=True,
    ):
        text = f"{word}\n{100 * share:.0f} %"
        ax.text(x, 0.99, text, transform=ax.get_xaxis_transform(), ha="center", va="top")
    _frame(ax, own.label)
    ax.legend(loc="upper right", bbox_to_anchor=(1.0, 0.84), frameon=False, fontsize=7)
    ax.set_xlabel("$f_i$ = P[$g_{U,i}\\, g_{C,i} > 0$ | batch]")
    ax.set_ylabel("density")


def _draw_small(ax: Any, own: Distribution, *, last: bool) -> None:
    epoch = next(iter(own.shares))
    at = np.linspace(0, 1, 501)
    _draw_bars(ax, own.shares[epoch])
    ax.plot(at, kernel_density(own.shares[epoch], at), color=BLUE, lw=1.2)
    ax.set_ylim(0, 1.35 * ax.get_ylim()[1])
    for x, share in zip((0.2, 0.5, 0.8), zones(own.shares[epoch]), strict=True):
        ax.text(
            x, 0.97, f"{100 * share:.0f} %", transform=ax.get_xaxis_transform(), ha="center",
            va="top", fontsize=7,
        )  # fmt: skip
    _frame(ax, f"{own.label}, epoch {epoch}")
    ax.set_yticks([])
    if last:
        ax.set_xlabel("$f_i$", labelpad=2)
    else:
        ax.set_xticklabels([])


def _draw_bars(ax: Any, shares: Array, label: str = "") -> None:
    width = 1 / len(shares)
    ax.bar(
        np.arange(len(shares)) * width, shares / (np.sum(shares) * width), width, align="edge",
        color="#C9DCE9", edgecolor="white", lw=0.3, label=label or None,
    )  # fmt: skip


def _frame(ax: Any, title: str) -> None:
    ax.axvline(0.5, ymax=0.76, color="black", lw=1.0, linestyle=":")
    for edge in UNCERTAIN:
        ax.axvline(edge, color=QUIET, lw=0.5, alpha=0.5)
    ax.set_title(title, fontsize=8)
    ax.set_xlim(0, 1)
    ax.set_xticks([0, 0.2, 0.4, 0.5, 0.6, 0.8, 1])
    ax.set_xticklabels(["0", "0.2", "0.4", "½", "0.6", "0.8", "1"])


def _spread(values: list[int], count: int) -> list[int]:
    """At most ``count`` of the values, from first to last."""
    if len(values) <= count:
        return values
    return [values[round(k * (len(values) - 1) / (count - 1))] for k in range(count)]
