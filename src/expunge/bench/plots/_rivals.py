"""All methods of a task in one picture: |rUA| against TA lost, as large as they are costly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from expunge.bench._records import Record
from expunge.bench._runs import Arm, TaskRuns, group_records
from expunge.bench.plots._style import (
    BLUE,
    GREEN,
    VERMILLION,
    Drawn,
    MissingRecords,
    add_note,
    styled,
)
from expunge.plotting import QUIET, draw_grid, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEAST = 8
"""Fewer arms than this are compared better by a table."""
FAR = 15.0
"""Points of TA lost beyond which an arm is listed and not drawn."""


KINDS = {"method alone": BLUE, "with FOCUS": VERMILLION, "with another add-on or rule": GREEN}
"""What the colours tell apart."""


class Place(NamedTuple):
    """Where an arm ends, mean over seeds; ``seconds`` of processor time."""

    lost: float
    distance: float
    seconds: float


@styled
def rivals(records: Sequence[Record]) -> Drawn:
    """|rUA| against TA lost of every arm at the epoch of the tables; the area is its cost."""
    drawn: Drawn = []
    for runs in group_records(records):
        places = {arm: place for arm in runs.main_arms if (place := place_of(runs, arm))}
        if len(places) >= LEAST:
            drawn.append((runs.file_name, _figure(runs, places)))
    if not drawn:
        raise MissingRecords(f"there should be at least {LEAST} methods on one task.")
    return drawn


def kind_of(arm: Arm) -> str:
    """One of :data:`KINDS`."""
    alone, focus, other = KINDS
    if arm.aggregate or arm.addon not in ("none", "", "focus"):
        return other
    return focus if arm.addon == "focus" else alone


def place_of(runs: TaskRuns, arm: Arm) -> Place | None:
    """The end of an arm, at the epoch that tables show or the last one it has."""
    rows = []
    for record in runs.main_arms[arm]:
        start, epoch = record.value("ta", 0), runs.epoch
        epoch = epoch if record.value("ta", epoch) is not None else record.final.get("epoch", 0)
        ta, left = record.value("ta", epoch), record.value("abs_rua", epoch)
        cost = record.value("processor_seconds", epoch)
        if start is not None and ta is not None and left is not None:
            rows.append((start - ta, left, cost or 0.0))
    return Place(*(float(v) for v in np.mean(rows, axis=0))) if rows else None


def _figure(runs: TaskRuns, places: dict[Arm, Place]) -> Figure:
    figure = new_figure(7.0, 4.8)
    ax = figure.subplots()
    near = {arm: place for arm, place in places.items() if place.lost <= FAR}
    largest = max((place.seconds for place in near.values()), default=0.0) or 1.0
    sizes = {arm: 12 + 240 * place.seconds / largest for arm, place in near.items()}
    for arm, place in near.items():
        ax.scatter(
            place.lost, place.distance, s=sizes[arm], alpha=0.6, color=KINDS[kind_of(arm)],
            lw=0.6, edgecolor="white", zorder=3,
        )  # fmt: skip
    _write_labels(ax, near, sizes)
    for kind in (kind for kind in KINDS if kind in map(kind_of, near)):
        ax.plot([], [], "o", color=KINDS[kind], ms=6, alpha=0.6, label=kind)
    figure.legend(loc="outside upper center", ncols=len(KINDS), frameon=False)
    for models, marker, name in ((runs.initial, "*", "initial"), (runs.ideal, "D", "ideal")):
        _draw_reference(ax, runs, models, marker, name)
    ax.axhline(0.0, color="black", lw=0.8, zorder=2)
    ax.set_xlabel("TA lost against the initial model (points)")
    ax.set_ylabel("|rUA| (points)")
    draw_grid(ax, 0.4)
    far = [f"{arm.label} ({place.lost:.0f})" for arm, place in places.items() if arm not in near]
    add_note(
        figure,
        [
            f"{runs.task.title}, epoch {runs.epoch}; the area of a point is its processor time, "
            f"the largest {largest:.2g} s",
            f"More than {FAR:g} points of TA lost: {', '.join(far)}" if far else "",
        ],
    )
    return figure


def _draw_reference(
    ax: Any, runs: TaskRuns, models: Sequence[Record], marker: str, name: str
) -> None:
    starts = [v for record in runs.initial if (v := record.value("ta")) is not None]
    ends = [
        (ta, left)
        for record in models
        if (ta := record.value("ta")) is not None and (left := record.value("abs_rua")) is not None
    ]
    if starts and ends:
        ta, left = np.mean(ends, axis=0)
        place = (float(np.mean(starts)) - ta, left)
        ax.plot(*place, marker, color=QUIET, ms=7, zorder=4)
        ax.annotate(name, place, (5, -9), textcoords="offset points", fontsize=6.5, color=QUIET)


def _write_labels(ax: Any, places: dict[Arm, Place], sizes: dict[Arm, float]) -> None:
    """Labels beside their points, moved up where they would lie on another one's."""
    taken: list[tuple[float, float]] = []
    width = max((p.lost for p in places.values()), default=1.0) or 1.0
    height = max((p.distance for p in places.values()), default=1.0) or 1.0
    for arm, place in sorted(places.items(), key=lambda item: item[1].distance):
        x, y = place.lost / width, place.distance / height
        to_left = x > 0.75
        middle = x - 0.1 if to_left else x + 0.1
        while any(abs(y - b) < 0.032 and abs(middle - a) < 0.2 for a, b in taken):
            y += 0.008
        taken.append((middle, y))
        shift = 230.0 * (y - place.distance / height)
        moved = not math.isclose(shift, 0.0, abs_tol=0.1)
        line: dict[str, Any] | None = None
        if moved:
            end = (1 if to_left else 0, 0.5)
            line = {"arrowstyle": "-", "color": QUIET, "lw": 0.4, "relpos": end}
        away = 2.5 + math.sqrt(sizes[arm]) / 2
        ax.annotate(
            arm.label, (place.lost, place.distance), (-away if to_left else away, shift - 2),
            textcoords="offset points", fontsize=6.5, arrowprops=line, zorder=5,
            ha="right" if to_left else "left",
        )  # fmt: skip
