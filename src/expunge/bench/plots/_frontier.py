"""Ours: what forgetting costs. Is FOCUS more than a faster clock?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from expunge.bench._records import Record
from expunge.bench.plots._curve_series import Array, level_of
from expunge.bench.plots._curves import METHODS_SHOWN
from expunge.bench.plots._frontier_points import points_of, shared, staircase, sweep_of
from expunge.bench.plots._groups import Group, Lacking, groups_of
from expunge.bench.plots._style import QUIET, Drawn, Look, add_note, look_of, styled
from expunge.bench.runs._settings import arm_label
from expunge.plotting._curves import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@styled
def frontier(records: Sequence[Record]) -> Drawn:
    """|rUA| against TA lost, base method and FOCUS, over a sweep of settings and epochs."""
    drawn: Drawn = []
    for group in groups_of(records):
        for method in METHODS_SHOWN:
            base, focus = shared(*(sweep_of(group, method, addon) for addon in ("none", "focus")))
            if len(base) < 2:
                continue
            clouds = {"none": points_of(base), "focus": points_of(focus)}
            if all(len(points) for points in clouds.values()):
                name = arm_label(method, "none").lower()
                figure = _figure(group, method, clouds, len(base))
                drawn.append((f"{name}-{group.name}", figure))
    if not drawn:
        raise Lacking(
            "there should be runs of a method alone and with FOCUS at two settings, the same for "
            "both, of lr, alpha or epochs."
        )
    return drawn


def _figure(group: Group, method: str, clouds: dict[str, Array], settings: int) -> Figure:
    figure = new_figure(4.6, 3.9)
    ax = figure.subplots()
    stairs = {addon: staircase(points) for addon, points in clouds.items()}
    right, top = _bounds(clouds, stairs, group)
    for addon, points in clouds.items():
        look = look_of(method, addon)
        _draw_cloud(ax, points, stairs[addon], look, arm_label(method, addon), (right, top))
    _draw_references(ax, group)
    low = min(0.0, *(float(points[:, 0].min()) for points in clouds.values()))
    ax.set(xlim=(low - 0.04 * (right - low), right), ylim=(-0.03 * top, top))
    ax.set_xlabel("TA lost against the initial model (points)")
    ax.set_ylabel("|rUA| (points)")
    ax.grid(alpha=0.25, linewidth=0.4)
    figure.legend(loc="outside upper center", ncols=2, frameon=False)
    beyond = sum(int(np.sum((p[:, 0] > right) | (p[:, 1] > top))) for p in clouds.values())
    add_note(
        figure,
        [
            group.title,
            f"{settings} settings, each alone and with FOCUS; a point is an evaluated epoch, "
            "mean over seeds",
            f"{beyond} points lie outside" if beyond else "",
        ],
    )
    return figure


def _bounds(
    clouds: dict[str, Array], stairs: dict[str, Array], group: Group
) -> tuple[float, float]:
    """Limits that show both frontiers and nine points in ten."""
    everything = np.concatenate(list(clouds.values()))
    corners = np.concatenate(list(stairs.values()))
    start = level_of(group.initial, "abs_rua") or 0.0
    right = max(float(np.quantile(everything[:, 0], 0.9)), float(corners[:, 0].max()), 0.1)
    top = max(float(np.quantile(everything[:, 1], 0.9)), float(corners[:, 1].max()), start, 0.1)
    return 1.12 * right, 1.15 * top


def _draw_cloud(
    ax: Any, points: Array, stairs: Array, look: Look, label: str, corner: tuple[float, float]
) -> None:
    face = look.colour if look.filled else "none"
    ax.scatter(
        *points.T, s=13, marker=look.marker, facecolor=face, edgecolor=look.colour, alpha=0.3,
        lw=0.7, zorder=2,
    )  # fmt: skip
    x = np.concatenate([stairs[:1, 0], stairs[:, 0], [corner[0]]])
    y = np.concatenate([[corner[1]], stairs[:, 1], stairs[-1:, 1]])
    style = look.line()
    ax.plot(x, y, drawstyle="steps-post", color=look.colour, linestyle=look.dash, lw=1.6, zorder=3)
    ax.plot(*stairs.T, **(style | {"linestyle": "", "markersize": 5}), zorder=4)
    ax.plot([], [], **style, label=f"{label}: frontier")


def _draw_references(ax: Any, group: Group) -> None:
    start, ideal = (
        (level_of(part, "ta"), level_of(part, "abs_rua")) for part in (group.initial, group.ideal)
    )
    if start[0] is None:
        return
    ax.plot(0, start[1], "*", color="black", ms=9, label="initial model", zorder=5, linestyle="")
    if ideal[0] is not None:
        ax.plot(
            start[0] - ideal[0], 0, marker="$\\odot$", color=QUIET, ms=8, label="ideal model",
            zorder=5, linestyle="", clip_on=False,
        )  # fmt: skip
