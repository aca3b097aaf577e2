"""All methods of a task in one picture: |rUA| against TA lost, as large as they are costly."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from expunge._durations import format_duration
from expunge.bench._results import Result
from expunge.bench._runs import Variant
from expunge.bench._tasks import TaskResults, group_results
from expunge.bench.plots._style import (
    BLUE,
    GREEN,
    QUIET,
    VERMILLION,
    Drawn,
    MissingResults,
    add_note,
    draw_grid,
    styled,
)
from expunge.report import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEAST = 8
"""Fewer variants than this are compared better by a table."""
FAR = 5.0
"""Points of TA below the ideal model's beyond which a variant is listed and not drawn."""
LABEL = 6.5
"""Size of a label, in points."""


KINDS = {"method alone": BLUE, "with FOCUS": VERMILLION, "with another add-on or rule": GREEN}
"""What the colours tell apart."""


class Place(NamedTuple):
    """Where a variant ends, mean over seeds; ``seconds`` of processor time."""

    lost: float
    distance: float
    seconds: float


@styled
def rivals(results: Sequence[Result]) -> Drawn:
    """|rUA| against TA lost of every variant at the epoch of the tables; the area is its cost."""
    drawn: Drawn = []
    for runs in group_results(results):
        places = {
            variant: place for variant in runs.main_variants if (place := place_of(runs, variant))
        }
        if len(places) >= LEAST:
            drawn.append((runs.file_name, _figure(runs, places)))
    if not drawn:
        raise MissingResults(f"there should be at least {LEAST} methods on one task.")
    return drawn


def kind_of(variant: Variant) -> str:
    """One of :data:`KINDS`."""
    alone, focus, other = KINDS
    if not variant.is_linear or variant.addon not in ("none", "", "focus"):
        return other
    return focus if variant.addon == "focus" else alone


def place_of(runs: TaskResults, variant: Variant) -> Place | None:
    """The end of a variant, at the epoch that tables show or the last one it has."""
    rows = []
    for result in runs.main_variants[variant]:
        start, epoch = result.value("ta", 0), runs.epoch
        epoch = epoch if result.value("ta", epoch) is not None else result.final.get("epoch", 0)
        ta, left = result.value("ta", epoch), result.value("abs_rua", epoch)
        cost = result.value("processor_seconds", epoch)
        if start is not None and ta is not None and left is not None:
            rows.append((start - ta, left, cost or 0.0))
    return Place(*(float(v) for v in np.mean(rows, axis=0))) if rows else None


def _figure(runs: TaskResults, places: dict[Variant, Place]) -> Figure:
    figure = new_figure(7.0, 4.8)
    ax = figure.subplots()

    # Variants that ruined the model, or left it further away than it was, are listed below.
    references = {name: _reference(runs, models) for name, models in runs.references.items()}
    ideal, initial = (references.get(name) for name in ("ideal", "initial"))
    most = FAR + (ideal[0] if ideal else 0.0)
    gap = initial[1] if initial else math.inf
    near = {
        variant: p for variant, p in places.items() if p.lost <= most and p.distance <= gap + 1e-9
    }
    far = [
        f"{variant.label} ({place.distance:.0f}, {place.lost:.0f})"
        for variant, place in places.items()
        if variant not in near
    ]

    # Points, references, axes.
    largest = max((place.seconds for place in near.values()), default=0.0) or 1.0
    sizes = {variant: 8 + 110 * place.seconds / largest for variant, place in near.items()}
    for variant, place in near.items():
        ax.scatter(
            place.lost, place.distance, s=sizes[variant], alpha=0.6, color=KINDS[kind_of(variant)],
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
    draw_grid(ax)

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


def _reference(runs: TaskResults, models: Sequence[Result]) -> tuple[float, float] | None:
    """TA lost and |rUA| of reference models, means over seeds."""
    starts = [v for result in runs.initial if (v := result.value("ta")) is not None]
    ends = [
        (ta, left)
        for result in models
        if (ta := result.value("ta")) is not None and (left := result.value("abs_rua")) is not None
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
    places: dict[Variant, Place],
    sizes: dict[Variant, float],
    references: Mapping[str, tuple[float, float] | None],
) -> tuple[list[Any], list[str]]:
    """Labels where they cover no point and no other label, the best variants first.

    Returns them, and the names for which there was no room.
    """
    ax.figure.draw_without_rendering()  # the layout is known afterwards
    scale = 72 / ax.figure.dpi
    bounds = ax.bbox
    frame = [scale * end for end in (bounds.x0, bounds.x1, bounds.y0, bounds.y1)]
    spots = {
        variant: scale * ax.transData.transform((place.lost, place.distance))
        for variant, place in places.items()
    }
    taken: list[Box] = []
    for variant, (x, y) in spots.items():
        radius = 0.8 * math.sqrt(sizes[variant] / math.pi)
        taken.append((x - radius, x + radius, y - radius, y + radius))
    for name, reference in references.items():
        if reference:
            x, y = scale * ax.transData.transform(reference)
            taken.append((x - 4, x + 6 + 3.6 * len(name), y - 11, y + 4))
    labels, unnamed = [], []
    for variant in sorted(
        places, key=lambda variant: places[variant].distance + max(places[variant].lost, 0.0)
    ):
        offsets = _free_offset(
            variant.label, spots[variant], math.sqrt(sizes[variant]) / 2, taken, frame
        )
        if offsets is None:
            unnamed.append(variant.label)
            continue
        dx, dy, line = offsets
        label = ax.annotate(
            variant.label, (places[variant].lost, places[variant].distance), (dx, dy),
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
