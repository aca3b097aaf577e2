"""Metrics over the epochs: the five families of curves in the paper's experiments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from expunge.bench._results import CONSTRAINED_METHODS, Result, Run
from expunge.bench._tasks import TaskResults, preferred_variants
from expunge.bench.plots._panels import Curve, panels_figure
from expunge.bench.plots._style import Drawn, MissingResults, draw_each_task, line_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ADDONS_SHOWN = ("saliency", "and", "prob", "bernoulli", "focus")
SALUN = ("random-label", "saliency")
"""SalUn, as its authors published it."""

ShownVariants = dict[tuple[str, str], list[Result]]
"""Results, one per seed, by method and add-on."""


MOST = 8
"""Baselines in a figure."""
PAPER_BASELINES = ("fine-tune", "mask-small-gradients", "conv-transpose")


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
        label = Run(method).label
        raise MissingResults(
            f"there should be runs of {label} with two add-ons. (got {len(tried)})"
        )
    return [_curve(variants, variant) for variant in [(method, "none"), *tried]]


def method_curves(variants: ShownVariants) -> list[Curve]:
    """Every method that was run both alone and with FOCUS."""
    methods = [
        method
        for method in CONSTRAINED_METHODS
        if (method, "none") in variants and (method, "focus") in variants
    ]
    if not methods:
        raise MissingResults("there should be runs of SRL, NGPlus or SCRUB alone and with FOCUS.")
    pairs = [(method, addon) for method in methods for addon in ("none", "focus")]
    return [_curve(variants, pair, by_method=True) for pair in pairs]


def baseline_curves(variants: ShownVariants, method: str) -> list[Curve]:
    """The baselines, SCRUB, SalUn, the method itself, and the method with FOCUS.

    Of many baselines, those of the paper: more lines than :data:`MOST` cannot be distinguished.
    """
    pair = [(method, "none"), (method, "focus")]
    _require(variants, pair)
    others = [variant for variant, runs in variants.items() if runs[0].baseline]
    if len(others) > MOST:
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
    if missing := [Run(*pair).label for pair in wanted if pair not in variants]:
        raise MissingResults(f"there should be runs of {' and '.join(missing)}.")


def _family(choose: Callable[[ShownVariants], list[Curve]], results: Sequence[Result]) -> Drawn:
    """A figure for each task that has the variants."""

    def draw(runs: TaskResults) -> Figure:
        curves = choose(shown_variants(runs))
        if not any(result.evaluated for curve in curves for result in curve.results):
            raise MissingResults("the runs should have been evaluated at some epoch.")
        return panels_figure(curves, runs)

    return draw_each_task(results, draw, "there should be results of unlearning runs. (got none)")


# fig:addonsSRL and fig:addonsngplus: a method alone and with each add-on.
addons_srl = partial(_family, partial(addon_curves, method="random-label"))
addons_ngplus = partial(_family, partial(addon_curves, method="neg-grad-plus"))
# fig:addon-methods: SRL, NGPlus and SCRUB, each alone and with FOCUS.
focus_methods = partial(_family, method_curves)
# fig:bestimage and fig:bestimagengplus: the baselines beside a method with FOCUS.
baselines_srl = partial(_family, partial(baseline_curves, method="random-label"))
baselines_ngplus = partial(_family, partial(baseline_curves, method="neg-grad-plus"))
