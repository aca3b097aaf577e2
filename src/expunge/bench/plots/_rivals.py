"""All methods of a task in one picture: |rUA| against TA lost, as large as they are costly."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from expunge._durations import format_duration
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
FAR = 5.0
"""Points of TA below the ideal model's beyond which an arm is listed and not drawn."""
LABEL = 6.5
"""Size of a label, in points."""


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

    # Arms that ruined the model, or left it further away than it was, are listed below.
    references = {name: _reference(runs, models) for name, models in runs.references.items()}
    ideal, initial = (references.get(name) for name in ("ideal", "initial"))
    most = FAR + (ideal[0] if ideal else 0.0)
    gap = initial[1] if initial else math.inf
    near = {arm: p for arm, p in places.items() if p.lost <= most and p.distance <= gap + 1e-9}
    far = [
        f"{arm.label} ({place.distance:.0f}, {place.lost:.0f})"
        for arm, place in places.items()
        if arm not in near
    ]

    # Points, references, axes.
    largest = max((place.seconds for place in near.values()), default=0.0) or 1.0
    sizes = {arm: 8 + 110 * place.seconds / largest for arm, place in near.items()}
    for arm, place in near.items():
        ax.scatter(
            place.lost, place.distance, s=sizes[arm], alpha=0.6, color=KINDS[kind_of(arm)],
            lw=0.6, edgecolor="white", zorder=3,
        )  # fmt: skip
    for kind in (kind for kind in KINDS if kind in map(kind_of, near)):
        ax.plot([], [], "o", color=KINDS[kind], ms=6, alpha=0.6, label=kind)
    figure.legend(loc="outside upper center", ncols=len(KINDS), frameon=False)
    for name, reference in references.items():
        if reference:
            _draw_reference(ax, name, reference)
    ax.axhline(0.0, color="black", lw=0.8, zorder=2)
    ax.set_xlabel("TA lost against the initial model (points)")
    ax.set_ylabel("|rUA| (points)")
    ax.margins(0.08)
    draw_grid(ax, 0.4)

    # Below it, what was measured and what is not drawn; then labels, where the layout has room.
    lines = [
        f"{runs.task.title}, epoch {runs.epoch}; the area of a point is its processor time, the "
        f"largest {format_duration(largest)}",
        "Not drawn, as they lost more than "
        f"{FAR:g} points of TA against the ideal model or are further from it than the initial "
        f"one (|rUA|, TA lost): {', '.join(far)}"
        if far
        else "",
    ]
    add_note(figure, lines)
    labels, unnamed = _write_labels(ax, near, sizes, references)
    if unnamed:  # one more line takes room, so that all labels are placed again
        add_note(figure, [*lines, f"Without room for a name: {', '.join(unnamed)}"])
        for label in labels:
            label.remove()
        _, unnamed = _write_labels(ax, near, sizes, references)
        add_note(figure, [*lines, f"Without room for a name: {', '.join(unnamed)}"])
    return figure


def _reference(runs: TaskRuns, models: Sequence[Record]) -> tuple[float, float] | None:
    """TA lost and |rUA| of reference models, means over seeds."""
    starts = [v for record in runs.initial if (v := record.value("ta")) is not None]
    ends = [
        (ta, left)
        for record in models
        if (ta := record.value("ta")) is not None and (left := record.value("abs_rua")) is not None
    ]
    if not starts or not ends:
        return None
    ta, left = np.mean(ends, axis=0)
    return float(np.mean(starts) - ta), float(left)


def _draw_reference(ax: Any, name: str, place: tuple[float, float]) -> None:
    marker = {"initial": "*", "ideal": "D"}[name]
    ax.plot(*place, marker, color=QUIET, ms=7, zorder=4)
    ax.annotate(name, place, (5, -9), textcoords="offset points", fontsize=LABEL, color=QUIET)


Box = tuple[float, float, float, float]
"""Left, right, lower and upper end, in points of the page."""


def _write_labels(
    ax: Any,
    places: dict[Arm, Place],
    sizes: dict[Arm, float],
    references: Mapping[str, tuple[float, float] | None],
) -> tuple[list[Any], list[str]]:
    """Labels where they cover no point and no other label, the best arms first.

    Returns them, and the names for which there was no room.
    """
    ax.figure.draw_without_rendering()  # the layout is known afterwards
    scale = 72 / ax.figure.dpi
    bounds = ax.bbox
    frame = [scale * end for end in (bounds.x0, bounds.x1, bounds.y0, bounds.y1)]
    spots = {
        arm: scale * ax.transData.transform((place.lost, place.distance))
        for arm, place in places.items()
    }
    taken: list[Box] = []
    for arm, (x, y) in spots.items():
        radius = 0.8 * math.sqrt(sizes[arm] / math.pi)
        taken.append((x - radius, x + radius, y - radius, y + radius))
    for name, reference in references.items():
        if reference:
            x, y = scale * ax.transData.transform(reference)
            taken.append((x - 4, x + 6 + 3.6 * len(name), y - 11, y + 4))
    labels, unnamed = [], []
    for arm in sorted(places, key=lambda arm: places[arm].distance + max(places[arm].lost, 0.0)):
        offsets = _free_offset(arm.label, spots[arm], math.sqrt(sizes[arm]) / 2, taken, frame)
        if offsets is None:
            unnamed.append(arm.label)
            continue
        dx, dy, line = offsets
        label = ax.annotate(
            arm.label, (places[arm].lost, places[arm].distance), (dx, dy),
            textcoords="offset points", fontsize=LABEL, va="center", zorder=5,
            arrowprops={"arrowstyle": "-", "color": QUIET, "lw": 0.4} if line else None,
        )  # fmt: skip
        labels.append(label)
    return labels, unnamed


def _free_offset(
    label: str, spot: Any, away: float, taken: list[Box], frame: Sequence[float]
) -> tuple[float, float, bool] | None:
    """Where a label begins, from its point, and whether a line leads there; its box is taken."""
    from matplotlib.textpath import TextPath

    x, y = spot
    length, half = TextPath((0, 0), label, size=LABEL).get_extents().x1 + 1.5, 0.68 * LABEL
    near = away + 2.0
    beside = [(near, 0.0), (-near - length, 0.0)]
    around = [(-length / 2, near + half), (-length / 2, -near - half)]
    further = [
        (side, step * sign)
        for step in (10.0, 18.0, 26.0, 36.0, 48.0)
        for sign in (1, -1)
        for side in (near + 8, -near - 8 - length)
    ]
    for number, (dx, dy) in enumerate([*beside, *around, *further]):
        box = (x + dx, x + dx + length, y + dy - half, y + dy + half)
        left, right, low, high = frame
        inside = box[0] > left and box[1] < right and box[2] > low and box[3] < high
        clear = all(box[1] < a or box[0] > b or box[3] < c or box[2] > d for a, b, c, d in taken)
        if inside and clear:
            taken.append(box)
            return dx, dy, number >= len(beside) + len(around)
    return None
