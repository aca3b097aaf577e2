"""What records are told apart by: task, arm and dials; and the setting a task is shown at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from expunge.bench._records import Record
from expunge.methods import METHODS
from expunge.update import ADDONS

TASK = ("dataset", "arch", "width", "limit", "scenario")
"""The settings that say what is forgotten from what; only runs that share them are rivals."""

DIALS = ("aggregate", "alpha", "beta", "lr", "batch_size", "budget")
"""What sweeps vary."""

Dials = tuple[Any, ...]
"""Values of :data:`DIALS`."""


def task_of(record: Record) -> tuple[Any, ...]:
    """The values of :data:`TASK`."""
    return tuple(record[name] for name in TASK)


def dials_of(record: Record) -> Dials:
    """The values of :data:`DIALS`."""
    return tuple(record[name] for name in DIALS)


def main_dials(records: Iterable[Record]) -> Dials | None:
    """The one setting of the dials that tables, figures and claims of a task show.

    It is the one that most methods share; of equals most arms, then most records, then the first.
    None where nothing was unlearned.
    """
    methods: dict[Dials, set[str]] = {}
    arms: dict[Dials, set[tuple[str, str, str]]] = {}
    counts: dict[Dials, int] = {}
    for record in records:
        if record["model"] != "unlearned":
            continue
        dials = dials_of(record)
        methods.setdefault(dials, set()).add(record["method"])
        arm = (record["method"], record["addon"], record["moments"] or "")
        arms.setdefault(dials, set()).add(arm)
        counts[dials] = counts.get(dials, 0) + 1
    return max(counts, key=lambda d: (len(methods[d]), len(arms[d]), counts[d]), default=None)


def arm_label(method: str, addon: str, moments: str = "") -> str:
    """``SRL-FOCUS``, and which moments unless they are the published ones.

    >>> arm_label("random-label", "focus", "published"), arm_label("scrub", "prob", "adam")
    ('SRL-FOCUS', 'SCRUB-PROB (adam)')
    """
    name = METHODS.label(method) if method in METHODS else method
    if addon not in ("", "none"):
        name += f"-{ADDONS.label(addon) if addon in ADDONS else addon}"
    return name if moments in ("", "published") else f"{name} ({moments})"


def scenario_in_words(scenario: str) -> str:
    """A scenario as tables and figures call it.

    >>> scenario_in_words("random:0.1"), scenario_in_words("class:3:0.4")
    ('10 % random forgetting', '40 % of class 3')
    """
    kind, _, rest = scenario.partition(":")
    name, _, share = rest.partition(":")
    try:
        if kind == "random":
            return f"{100 * float(name):g} % random forgetting"
        if kind == "class":
            return f"{100 * float(share):g} % of class {name}" if share else f"class {name}"
    except ValueError:
        pass
    return scenario
