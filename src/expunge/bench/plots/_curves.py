"""Metrics over the epochs: the five families of curves in the paper's experiments."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from expunge.bench._records import Record
from expunge.bench.plots._curve_panels import Line, evolution_figure
from expunge.bench.plots._groups import Arms, Group, Lacking, groups_of, main_arms
from expunge.bench.plots._style import Drawn, look_of, styled
from expunge.bench.runs._settings import arm_label

METHODS_SHOWN = ("random-label", "neg-grad-plus", "scrub")
ADDONS_SHOWN = ("saliency", "and", "prob", "bernoulli", "focus")
SALUN = ("random-label", "saliency")
"""SalUn, as its authors published it."""


@styled
def addons_srl(records: Sequence[Record]) -> Drawn:
    """fig:addonsSRL: SRL alone and with each add-on."""
    return _family(records, lambda arms: addon_lines(arms, "random-label"))


@styled
def addons_ngplus(records: Sequence[Record]) -> Drawn:
    """fig:addonsngplus: NGPlus alone and with each add-on."""
    return _family(records, lambda arms: addon_lines(arms, "neg-grad-plus"))


@styled
def focus_methods(records: Sequence[Record]) -> Drawn:
    """fig:addon-methods: SRL, NGPlus and SCRUB, each alone and with FOCUS."""
    return _family(records, method_lines)


@styled
def baselines_srl(records: Sequence[Record]) -> Drawn:
    """fig:bestimage: the baselines beside SRL with FOCUS."""
    return _family(records, lambda arms: baseline_lines(arms, "random-label"))


@styled
def baselines_ngplus(records: Sequence[Record]) -> Drawn:
    """fig:bestimagengplus: the baselines beside NGPlus with FOCUS."""
    return _family(records, lambda arms: baseline_lines(arms, "neg-grad-plus"))


def addon_lines(arms: Arms, method: str) -> list[Line]:
    """A method alone, then with each add-on at hand; two add-ons at least make a comparison."""
    name = arm_label(method, "none")
    _need(arms, [(method, "none")])
    tried = [(method, addon) for addon in ADDONS_SHOWN if (method, addon) in arms]
    if len(tried) < 2:
        raise Lacking(f"there should be runs of {name} with two add-ons. (got {len(tried)})")
    return [_line(arms, arm) for arm in [(method, "none"), *tried]]


def method_lines(arms: Arms) -> list[Line]:
    """Every method that was run alone and with FOCUS."""
    both = [
        method for method in METHODS_SHOWN if (method, "none") in arms and (method, "focus") in arms
    ]
    if not both:
        raise Lacking("there should be runs of SRL, NGPlus or SCRUB alone and with FOCUS.")
    pairs = [(method, addon) for method in both for addon in ("none", "focus")]
    return [_line(arms, arm, by_method=True) for arm in pairs]


def baseline_lines(arms: Arms, method: str) -> list[Line]:
    """The baselines, SCRUB, SalUn, the method itself, and the method with FOCUS."""
    own = [(method, "none"), (method, "focus")]
    _need(arms, own)
    others = [arm for arm, runs in arms.items() if runs[0].baseline]
    others += [arm for arm in (("scrub", "none"), SALUN) if arm in arms]
    others = [arm for arm in dict.fromkeys(others) if arm not in own]
    if not others:
        raise Lacking("there should be runs of a baseline such as FT, MSG, CT, SCRUB or SalUn.")
    return [_line(arms, arm) for arm in [*others, *own]]


def _line(arms: Arms, arm: tuple[str, str], *, by_method: bool = False) -> Line:
    runs = arms[arm]
    label = arm_label(*arm, runs[0]["moments"])
    return Line(label, look_of(*arm, by_method=by_method), runs)


def _need(arms: Arms, wanted: Sequence[tuple[str, str]]) -> None:
    if missing := [arm_label(*arm) for arm in wanted if arm not in arms]:
        raise Lacking(f"there should be runs of {' and '.join(missing)}.")


def _family(records: Sequence[Record], choose: Callable[[Arms], list[Line]]) -> Drawn:
    """A figure for each group that has the arms; the reasons where none has."""
    drawn: Drawn = []
    reasons: dict[str, str] = {}
    for group in groups_of(records):
        try:
            lines = _measured(choose(main_arms(group)), group)
        except Lacking as reason:
            reasons[group.name] = str(reason)
        else:
            drawn.append((group.name, evolution_figure(lines, group)))
    if not drawn:
        why = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        raise Lacking(why or "there should be records of unlearning runs. (got none)")
    return drawn


def _measured(lines: list[Line], group: Group) -> list[Line]:
    if not any(record.evaluated for line in lines for record in line.records):
        raise Lacking(f"the runs on {group.name} should have been evaluated at some epoch.")
    return lines
