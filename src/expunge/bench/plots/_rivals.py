"""All methods of a task in one picture: |rUA| against TA lost, as large as they are costly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from expunge.bench._records import Record
from expunge.bench._runs import Arm, TaskRuns, group_records
from expunge.bench.plots._style import Drawn, MissingRecords, add_note, line_style, styled
from expunge.plotting import QUIET, draw_grid, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEAST = 8
"""Fewer arms than this are compared better by a table."""
FAR = 15.0
"""Points of TA lost beyond which an arm is listed and not drawn."""


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
    for arm, place in near.items():
        style = line_style(arm.method, arm.addon)
        ax.scatter(
            place.lost, place.distance, s=12 + 240 * place.seconds / largest, alpha=0.55,
            color=style.colour, lw=0.6, edgecolor="white", zorder=3,
        )  # fmt: skip
    _write_labels(ax, {arm.label: place for arm, place in near.items()})
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
            f"the largest {largest:.0f} s",
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


def _write_labels(ax: Any, places: dict[str, Place]) -> None:
    """Labels beside their points, moved up where they would lie on another one's."""
    taken: list[tuple[float, float]] = []
    width = max((p.lost for p in places.values()), default=1.0) or 1.0
    height = max((p.distance for p in places.values()), default=1.0) or 1.0
    for label, place in sorted(places.items(), key=lambda item: item[1].distance):
        x, y = place.lost / width, place.distance / height
        while any(abs(y - b) < 0.032 and abs(x - a) < 0.2 for a, b in taken):
            y += 0.008
        taken.append((x, y))
        shift = 230.0 * (y - place.distance / height)
        moved = not math.isclose(shift, 0.0, abs_tol=0.1)
        line = {"arrowstyle": "-", "color": QUIET, "lw": 0.4, "relpos": (0, 0.5)} if moved else None
        ax.annotate(
            label, (place.lost, place.distance), (6, shift - 2), textcoords="offset points",
            fontsize=6.5, arrowprops=line, zorder=5,
        )  # fmt: skip
