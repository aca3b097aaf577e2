"""Metrics over the epochs: the five families of curves in the paper's experiments."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from expunge.bench._records import Record
from expunge.bench._runs import CONSTRAINED_METHODS, Arm, TaskRuns, group_records, preferred_arms
from expunge.bench.plots._panels import ArmCurve, panels_figure
from expunge.bench.plots._style import Drawn, MissingRecords, line_style, styled

ADDONS_SHOWN = ("saliency", "and", "prob", "bernoulli", "focus")
SALUN = ("random-label", "saliency")
"""SalUn, as its authors published it."""

ShownArms = dict[tuple[str, str], list[Record]]
"""Records, one per seed, by method and add-on."""


MOST = 8
"""Baselines in a figure."""
PAPER_BASELINES = ("fine-tune", "mask-small-gradients", "conv-transpose")


@styled
def addons_srl(records: Sequence[Record]) -> Drawn:
    """fig:addonsSRL: SRL alone and with each add-on."""
    return _family(records, lambda arms: addon_curves(arms, "random-label"))


@styled
def addons_ngplus(records: Sequence[Record]) -> Drawn:
    """fig:addonsngplus: NGPlus alone and with each add-on."""
    return _family(records, lambda arms: addon_curves(arms, "neg-grad-plus"))


@styled
def focus_methods(records: Sequence[Record]) -> Drawn:
    """fig:addon-methods: SRL, NGPlus and SCRUB, each alone and with FOCUS."""
    return _family(records, method_curves)


@styled
def baselines_srl(records: Sequence[Record]) -> Drawn:
    """fig:bestimage: the baselines beside SRL with FOCUS."""
    return _family(records, lambda arms: baseline_curves(arms, "random-label"))


@styled
def baselines_ngplus(records: Sequence[Record]) -> Drawn:
    """fig:bestimagengplus: the baselines beside NGPlus with FOCUS."""
    return _family(records, lambda arms: baseline_curves(arms, "neg-grad-plus"))


def shown_arms(runs: TaskRuns) -> ShownArms:
    """The arms of a task at its main dials, one kind of moments each: no run of a sweep."""
    return {
        pair: list(runs.at_main(arm).values())
        for pair, arm in preferred_arms(runs.main_arms).items()
    }


def addon_curves(arms: ShownArms, method: str) -> list[ArmCurve]:
    """A method alone, then with each add-on at hand; a comparison takes two add-ons at least."""
    _require(arms, [(method, "none")])
    tried = [(method, addon) for addon in ADDONS_SHOWN if (method, addon) in arms]
    if len(tried) < 2:
        label = Arm(method).label
        raise MissingRecords(
            f"there should be runs of {label} with two add-ons. (got {len(tried)})"
        )
    return [_curve(arms, arm) for arm in [(method, "none"), *tried]]


def method_curves(arms: ShownArms) -> list[ArmCurve]:
    """Every method that was run both alone and with FOCUS."""
    methods = [
        method
        for method in CONSTRAINED_METHODS
        if (method, "none") in arms and (method, "focus") in arms
    ]
    if not methods:
        raise MissingRecords("there should be runs of SRL, NGPlus or SCRUB alone and with FOCUS.")
    pairs = [(method, addon) for method in methods for addon in ("none", "focus")]
    return [_curve(arms, pair, by_method=True) for pair in pairs]


def baseline_curves(arms: ShownArms, method: str) -> list[ArmCurve]:
    """The baselines, SCRUB, SalUn, the method itself, and the method with FOCUS.

    Of many baselines, those of the paper: more lines than :data:`MOST` cannot be told apart.
    """
    pair = [(method, "none"), (method, "focus")]
    _require(arms, pair)
    others = [arm for arm, runs in arms.items() if runs[0].baseline]
    if len(others) > MOST:
        others = [arm for arm in others if arm[0] in PAPER_BASELINES]
    others += [arm for arm in (("scrub", "none"), SALUN) if arm in arms]
    others = [arm for arm in dict.fromkeys(others) if arm not in pair]
    if not others:
        raise MissingRecords(
            "there should be runs of a baseline such as FT, MSG, CT, SCRUB or SalUn."
        )
    return [_curve(arms, arm) for arm in [*others, *pair]]


def _curve(arms: ShownArms, pair: tuple[str, str], *, by_method: bool = False) -> ArmCurve:
    records = arms[pair]
    return ArmCurve(Arm.of(records[0]).label, line_style(*pair, by_method=by_method), records)


def _require(arms: ShownArms, wanted: Sequence[tuple[str, str]]) -> None:
    if missing := [Arm(*pair).label for pair in wanted if pair not in arms]:
        raise MissingRecords(f"there should be runs of {' and '.join(missing)}.")


def _family(records: Sequence[Record], choose: Callable[[ShownArms], list[ArmCurve]]) -> Drawn:
    """A figure for each task that has the arms; an error with the reasons where none has."""
    drawn: Drawn = []
    reasons: dict[str, str] = {}
    for runs in group_records(records):
        try:
            curves = choose(shown_arms(runs))
            if not any(record.evaluated for curve in curves for record in curve.records):
                raise MissingRecords("the runs should have been evaluated at some epoch.")
        except MissingRecords as reason:
            reasons[runs.file_name] = str(reason)
        else:
            drawn.append((runs.file_name, panels_figure(curves, runs)))
    if not drawn:
        why = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        raise MissingRecords(why or "there should be records of unlearning runs. (got none)")
    return drawn
