"""Forget quality against utility of language models: each method alone and with its add-ons."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from expunge._arrays import Array
from expunge.bench._results import Result
from expunge.bench._tasks import TaskResults, preferred_variants
from expunge.bench.plots._panels import level_of, series_of
from expunge.bench.plots._style import (
    BLUE,
    QUIET,
    Drawn,
    LineStyle,
    add_note,
    draw_each_task,
    draw_grid,
    line_style,
)
from expunge.methods import METHODS
from expunge.report import new_figure
from expunge.update import ADDONS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALONE = LineStyle(BLUE, "s", (0, (5, 1.5)))
LOWEST = 1e-12
"""Forget qualities below this are drawn here."""
COLUMNS = 4


def forget_quality(results: Sequence[Result]) -> Drawn:
    """Forget quality (log scale) against model utility, a panel per method, along the epochs."""
    needed = "there should be runs of a language model with forget qualities."
    return draw_each_task(results, _figure, needed)


def path_of(results: Sequence[Result]) -> Array | None:
    """(utility, log10 forget quality) at every evaluated epoch, means over seeds, [E, 2]."""
    logged = [_logged(result) for result in results]
    utility, quality = series_of(results, "model_utility"), series_of(logged, "forget_quality")
    if utility is None or quality is None:
        return None
    _, first, second = np.intersect1d(utility.epochs, quality.epochs, return_indices=True)
    return np.stack([utility.mean[first], quality.mean[second]], axis=1)


def _logged(result: Result) -> Result:
    """The result with log10 of its forget qualities: means over seeds are of these."""
    rows = [
        row | {"forget_quality": float(np.log10(max(row["forget_quality"], LOWEST)))}
        if row.get("forget_quality") is not None
        else row
        for row in result.epochs
    ]
    return replace(result, epochs=rows)


def _curves(runs: TaskResults) -> dict[str, list[tuple[str, LineStyle, Array]]]:
    """Label, style and path of each add-on, by method."""
    variants = preferred_variants(runs.main_variants)
    curves: dict[str, list[tuple[str, LineStyle, Array]]] = {}
    for method, addon in itertools.product(METHODS, ADDONS):
        if (method, "none") in variants and (method, addon) in variants:
            path = path_of(list(runs.at_main(variants[method, addon]).values()))
            if path is not None:
                style = ALONE if addon == "none" else line_style(method, addon)
                curves.setdefault(method, []).append((ADDONS.label(addon), style, path))
    return curves


def _figure(runs: TaskResults) -> Figure | None:
    curves = _curves(runs)
    if not curves:
        return None
    columns = min(COLUMNS, len(curves))
    rows = -(-len(curves) // columns)
    figure = new_figure(1.9 * columns + 0.3, 1.8 * rows + 0.7)
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for ax, (method, paths) in zip(axes.flat, curves.items(), strict=False):
        for label, style, path in paths:
            ax.plot(path[:, 0], path[:, 1], **style.arguments(), label=label)
        _draw_references(ax, runs)
        ax.set_title(METHODS.label(method))
        draw_grid(ax)
    for ax in list(axes.flat)[len(curves) :]:
        ax.axis("off")
    for ax in axes[-1]:
        ax.set_xlabel("model utility")
    for ax in axes[:, 0]:
        ax.set_ylabel("log10 forget quality")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    labels = ["alone" if label == "none" else label for label in labels]
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    seeds = {len(runs.at_main(variant)) for variant in runs.main_variants}
    add_note(
        figure,
        [
            f"{runs.task.title}; a point is an evaluated epoch, means over {max(seeds)} seeds",
            "right is better; up to the dotted line (p = 0.05) the two models are distinguished",
        ],
    )
    return figure


def _draw_references(ax: Any, runs: TaskResults) -> None:
    ax.axhline(np.log10(0.05), color=QUIET, linewidth=0.8, linestyle=":", zorder=1)
    for models, marker, label in (
        (runs.initial, "*", "initial"),
        (runs.ideal, "$\\odot$", "ideal"),
    ):
        utility = level_of(models, "model_utility")
        quality = level_of([_logged(result) for result in models], "forget_quality")
        if utility is not None and quality is not None:
            ax.plot(utility, quality, marker=marker, color="black", ms=8, linestyle="", label=label)
