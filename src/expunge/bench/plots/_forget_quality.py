"""Forget quality against utility of language models: each method alone and with its add-ons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from expunge._arrays import Array
from expunge.bench._results import Result
from expunge.bench._runs import Variant
from expunge.bench._tasks import TaskResults, group_results, preferred_variants
from expunge.bench.plots._panels import level_of, series_of
from expunge.bench.plots._style import (
    BLUE,
    QUIET,
    Drawn,
    LineStyle,
    MissingResults,
    add_note,
    draw_grid,
    line_style,
    styled,
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


@styled
def forget_quality(results: Sequence[Result]) -> Drawn:
    """Forget quality (log scale) against model utility, a panel per method, along the epochs."""
    drawn: Drawn = []
    for runs in group_results(results):
        variants = preferred_variants(runs.main_variants)
        methods = [method for method in METHODS if (method, "none") in variants]
        curves = {method: _curves(runs, variants, method) for method in methods}
        curves = {method: paths for method, paths in curves.items() if paths}
        if curves:
            drawn.append((runs.file_name, _figure(runs, curves)))
    if not drawn:
        raise MissingResults("there should be runs of a language model with forget qualities.")
    return drawn


def path_of(results: Sequence[Result]) -> Array | None:
    """(utility, log10 forget quality) at every evaluated epoch, means over seeds, [E, 2]."""
    logged = [_logged(result) for result in results]
    utility, quality = series_of(results, "model_utility"), series_of(logged, "forget_quality")
    if utility is None or quality is None:
        return None
    epochs = [epoch for epoch in utility.epochs if epoch in quality.epochs]
    return np.array(
        [
            (
                utility.mean[utility.epochs == epoch][0],
                quality.mean[quality.epochs == epoch][0],
            )
            for epoch in epochs
        ]
    )


def _logged(result: Result) -> Result:
    """The result with log10 of its forget qualities: means over seeds are of these."""
    rows = [
        row | {"forget_quality": float(np.log10(max(row["forget_quality"], LOWEST)))}
        if row.get("forget_quality") is not None
        else row
        for row in result.epochs
    ]
    return replace(result, epochs=rows)


def _curves(
    runs: TaskResults, variants: dict[tuple[str, str], Variant], method: str
) -> list[tuple[str, LineStyle, Array]]:
    curves = []
    for addon in ADDONS:
        variant = variants.get((method, addon))
        if variant is None:
            continue
        path = path_of(list(runs.at_main(variant).values()))
        if path is not None:
            style = ALONE if addon == "none" else line_style(method, addon)
            curves.append((ADDONS.label(addon), style, path))
    return curves


def _figure(runs: TaskResults, curves: dict[str, list[tuple[str, LineStyle, Array]]]) -> Figure:
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
    handles, labels = _legend(axes.flat[0])
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


def _legend(ax: Any) -> tuple[list[Any], list[str]]:
    handles, labels = ax.get_legend_handles_labels()
    return list(handles), ["alone" if label == "none" else label for label in labels]
