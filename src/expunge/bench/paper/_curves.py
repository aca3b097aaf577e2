"""Metrics over the epochs, a panel each: the five families of curves in the paper's experiments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from expunge._arrays import Array
from expunge.bench._results import PAPER_METHODS, BenchResult, BenchRun
from expunge.bench._tasks import TaskResults, preferred_variants
from expunge.bench.plots._style import (
    QUIET,
    Drawn,
    LineStyle,
    MissingResults,
    add_note,
    draw_each_task,
    draw_grid,
    line_style,
)
from expunge.evaluation import METRICS
from expunge.report import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ADDONS_SHOWN = ("saliency", "and", "prob", "bernoulli", "focus")
SALUN = ("random-label", "saliency")
"""SalUn, as its authors published it."""
MAX_BASELINES = 8
"""Baselines in a figure; more lines cannot be distinguished."""
PAPER_BASELINES = ("fine-tune", "mask-small-gradients", "conv-transpose")
METRICS_SHOWN = ("mia_entropy", "rua", "ta", "ra", "ua", "fid", "rte")
GOOD = {"ideal": "→ ideal", "higher": "↑", "lower": "↓", "zero": "→ 0", "none": ""}
OUTLIER_FACTOR = 3.0
"""A curve that goes this many times further than the median one does not set the limits."""

ShownVariants = dict[tuple[str, str], list[BenchResult]]
"""Results, one per seed, by method and add-on."""


@dataclass(frozen=True)
class Curve:
    """One variant of a figure: its results, one per seed, and how they are drawn."""

    label: str
    style: LineStyle
    results: Sequence[BenchResult]


def shown_variants(runs: TaskResults) -> ShownVariants:
    """The variants of a task at its main settings, with one kind of moments each: no sweep."""
    return {
        pair: list(runs.at_main(variant).values())
        for pair, variant in preferred_variants(runs.main_variants).items()
    }


def addon_curves(variants: ShownVariants, method: str) -> list[Curve]:
    """A method alone, then with each add-on at hand; a comparison takes two add-ons at least."""
    _require(variants, [(method, "none")])
    tried = [(method, addon) for addon in ADDONS_SHOWN if (method, addon) in variants]
    if len(tried) < 2:
        label = BenchRun(method).label
        raise MissingResults(
            f"there should be runs of {label} with two add-ons. (got {len(tried)})"
        )
    return [_curve(variants, variant) for variant in [(method, "none"), *tried]]


def method_curves(variants: ShownVariants) -> list[Curve]:
    """Every method that was run both alone and with FOCUS."""
    methods = [
        method
        for method in PAPER_METHODS
        if (method, "none") in variants and (method, "focus") in variants
    ]
    if not methods:
        raise MissingResults("there should be runs of SRL, NGPlus or SCRUB alone and with FOCUS.")
    pairs = [(method, addon) for method in methods for addon in ("none", "focus")]
    return [_curve(variants, pair, by_method=True) for pair in pairs]


def baseline_curves(variants: ShownVariants, method: str) -> list[Curve]:
    """Baselines (above :data:`MAX_BASELINES`, the paper's), SCRUB, SalUn, the method, its FOCUS."""
    pair = [(method, "none"), (method, "focus")]
    _require(variants, pair)
    others = [variant for variant, runs in variants.items() if runs[0].baseline]
    if len(others) > MAX_BASELINES:
        others = [variant for variant in others if variant[0] in PAPER_BASELINES]
    others += [variant for variant in (("scrub", "none"), SALUN) if variant in variants]
    others = [variant for variant in dict.fromkeys(others) if variant not in pair]
    if not others:
        raise MissingResults(
            "there should be runs of a baseline such as FT, MSG, CT, SCRUB or SalUn."
        )
    return [_curve(variants, variant) for variant in [*others, *pair]]


def _curve(variants: ShownVariants, pair: tuple[str, str], *, by_method: bool = False) -> Curve:
    results = variants[pair]
    return Curve(results[0].variant.label, line_style(*pair, by_method=by_method), results)


def _require(variants: ShownVariants, wanted: Sequence[tuple[str, str]]) -> None:
    if missing := [BenchRun(*pair).label for pair in wanted if pair not in variants]:
        raise MissingResults(f"there should be runs of {' and '.join(missing)}.")


def _family(
    choose: Callable[[ShownVariants], list[Curve]], results: Sequence[BenchResult]
) -> Drawn:
    """A figure for each task that has the variants."""

    def draw(runs: TaskResults) -> Figure:
        curves = choose(shown_variants(runs))
        if not any(result.evaluated for curve in curves for result in curve.results):
            raise MissingResults("the runs should have been evaluated at some epoch.")
        return panels_figure(curves, runs)

    return draw_each_task(results, draw, "there should be results of unlearning runs. (got none)")


def panels_figure(curves: Sequence[Curve], runs: TaskResults) -> Figure:
    """Every metric of :data:`METRICS_SHOWN` that the results have, and a legend."""
    shown = [
        metric
        for metric in METRICS_SHOWN
        if any(series_of(curve.results, metric) is not None for curve in curves)
    ]
    columns = min(4, len(shown) + 1)
    rows = -(-(len(shown) + 1) // columns)
    figure = new_figure(1.9 * columns, 1.75 * rows + 0.3)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for ax, metric in zip(axes, shown, strict=False):
        draw_panel(ax, metric, curves, runs)
    for ax in axes[len(shown) :]:
        ax.axis("off")
    handles, labels = _legend(curves, floor=bool(runs.second_ideal))
    axes[len(shown)].legend(
        handles, labels, loc="center left", bbox_to_anchor=(-0.12, 0.5), frameon=False,
        handlelength=3.2, labelspacing=0.45, borderaxespad=0.0,
    )  # fmt: skip
    add_note(figure, notes_of(curves, runs))
    return figure


def draw_panel(ax: Any, metric: str, curves: Sequence[Curve], runs: TaskResults) -> None:
    """One metric: means with bands, the ideal model's level, and how far two of them differ."""
    about = METRICS[metric]
    measured = [
        (curve, series)
        for curve in curves
        if (series := series_of(curve.results, metric)) is not None
    ]
    level = level_of(runs.ideal, metric)

    # The ideal model's level; retraining takes too long to be on the axis of time.
    if level is not None and metric == "rte":
        text = f"retraining: {level:.3g} s"
        ax.text(0.04, 0.96, text, transform=ax.transAxes, va="top", fontsize=6.5, color=QUIET)
        level = None
    elif level is not None:
        ax.axhline(level, color=QUIET, linewidth=1.0, linestyle=":", zorder=1)
        if floor := floor_of(runs, metric):
            ax.axhspan(level - floor, level + floor, color=QUIET, alpha=0.15, lw=0, zorder=0)

    # The curves, from the initial model on.
    for curve, series in measured:
        style, low, high = curve.style, series.mean - series.std, series.mean + series.std
        ax.plot(series.epochs, series.mean, **style.arguments(), zorder=3 + style.filled)
        ax.fill_between(series.epochs, low, high, color=style.colour, alpha=0.1, lw=0, zorder=2)
    start = measured[0][1]
    if start.epochs[0] == 0 and metric != "rte":
        ax.plot(0, start.mean[0], marker="*", markersize=8, color="black", zorder=6, clip_on=False)

    # Limits, ticks and titles.
    ax.set_ylim(limits_of([series for _, series in measured], level))
    epochs = np.unique(np.concatenate([series.epochs for _, series in measured]))
    epochs = epochs[epochs % 1 == 0]  # models that are scored after single steps crowd the first
    ax.set_xticks(epochs)
    if len(epochs) > 7:  # label every other one
        ax.set_xticklabels([f"{e:g}" if k % 2 == 0 else "" for k, e in enumerate(epochs)])
    ax.margins(x=0.06)
    unit = f" ({about.unit})" if about.unit in ("%", "points", "s") else ""
    ax.set_title(f"{about.label}{unit} {GOOD[about.direction]}".strip())
    ax.set_xlabel("epoch", labelpad=1)
    draw_grid(ax)


def notes_of(curves: Sequence[Curve], runs: TaskResults) -> list[str]:
    """The hyperparameters, the number of seeds, and which runs diverged."""
    seeds = sorted({len(curve.results) for curve in curves})
    over = "1 seed" if seeds == [1] else f"{' to '.join(map(str, seeds))} seeds"
    spread = "" if seeds == [1] else "mean ± standard deviation over "
    words = {"lr": "lr", "alpha": "α", "beta": "β", "batch_size": "batch"}
    values = {word: getattr(runs.main_hyperparameters, name) for name, word in words.items()}
    weights = ", ".join(f"{word} {value:g}" for word, value in values.items() if value)
    moments = sorted({result.moments for curve in curves for result in curve.results} - {""})
    kind = f"; {' and '.join(moments)} moments" if moments else ""
    diverged = [
        f"{curve.label} diverged in {n} of {len(curve.results)} runs"
        for curve in curves
        if (n := sum(bool(result.diverged) for result in curve.results))
    ]
    return [f"{runs.task.title}; {weights}; {spread}{over}{kind}", "; ".join(diverged)]


def _legend(curves: Sequence[Curve], *, floor: bool) -> tuple[list[Any], list[str]]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [Line2D([], [], **curve.style.arguments()) for curve in curves]
    handles.append(Line2D([], [], color=QUIET, linewidth=1.0, linestyle=":"))
    handles.append(Line2D([], [], color="black", marker="*", markersize=8, linestyle=""))
    labels = [*(curve.label for curve in curves), "ideal model", "initial model"]
    if floor:
        handles.append(Patch(color=QUIET, alpha=0.15, lw=0))
        labels.append("distance of another ideal")
    return handles, labels


@dataclass(frozen=True)
class Series:
    """A metric: epochs [E] and values [seeds, E]."""

    epochs: Array
    values: Array

    @property
    def mean(self) -> Array:
        """Mean over the seeds, [E]."""
        return np.asarray(self.values.mean(axis=0))

    @property
    def std(self) -> Array:
        """Standard deviation over the seeds (n - 1), [E]; zeros for a single seed."""
        if len(self.values) < 2:
            return np.zeros(self.values.shape[1])
        return np.asarray(self.values.std(axis=0, ddof=1))


def series_of(results: Sequence[BenchResult], metric: str) -> Series | None:
    """A metric at the evaluated epochs that every result has, so that a mean is over all seeds."""
    epochs = sorted({row["epoch"] for result in results for row in result.evaluated})
    table = [[result.value(metric, epoch) for result in results] for epoch in epochs]
    complete = [k for k, row in enumerate(table) if None not in row]
    if not complete:
        return None
    values = np.array([table[k] for k in complete], dtype=np.float64).T
    return Series(np.array([epochs[k] for k in complete], dtype=np.float64), values)


def level_of(references: Sequence[BenchResult], metric: str) -> float | None:
    """The mean of a metric over reference models; None where none has it."""
    values = [v for result in references if (v := result.value(metric)) is not None]
    return float(np.mean(values)) if values else None


def floor_of(runs: TaskResults, metric: str) -> float:
    """The mean distance over seeds between two ideal models; 0 where only one was trained."""
    first, second = (
        {result.seed: value for result in models if (value := result.value(metric)) is not None}
        for models in (runs.ideal, runs.second_ideal)
    )
    distances = [abs(second[seed] - first[seed]) for seed in second if seed in first]
    return float(np.mean(distances)) if distances else 0.0


def limits_of(curves: Sequence[Series], level: float | None = None) -> tuple[float, float]:
    """The range of an axis that shows all curves except those that collapse, and the level."""
    reach = [float(np.abs(curve.mean - curve.mean[0]).max()) for curve in curves]
    furthest = OUTLIER_FACTOR * np.median(reach)
    kept = [curve for curve, far in zip(curves, reach, strict=True) if far <= furthest]
    ends = [curve.mean + sign * curve.std for curve in kept for sign in (-1, 1)]
    values = np.concatenate([*ends, [] if level is None else [level]])
    low, high = float(values.min()), float(values.max())
    margin = 0.07 * (high - low) or 0.02 * max(abs(high), 1.0)
    return low - margin, high + margin


# fig:addonsSRL and fig:addonsngplus: a method alone and with each add-on.
addons_srl = partial(_family, partial(addon_curves, method="random-label"))
addons_ngplus = partial(_family, partial(addon_curves, method="neg-grad-plus"))
# fig:addon-methods: SRL, NGPlus and SCRUB, each alone and with FOCUS.
focus_methods = partial(_family, method_curves)
# fig:bestimage and fig:bestimagengplus: the baselines beside a method with FOCUS.
baselines_srl = partial(_family, partial(baseline_curves, method="random-label"))
baselines_ngplus = partial(_family, partial(baseline_curves, method="neg-grad-plus"))
