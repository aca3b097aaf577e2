"""The sceptic's question: is FOCUS more than a faster clock?"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from expunge.bench.claims._arms import CONSTRAINED, Arm
from expunge.bench.claims._base import Claim, Finding
from expunge.bench.claims._claim_runs import Runs, Sweep
from expunge.bench.claims._frontier import Frontiers, compare_frontiers
from expunge.bench.claims._paired_runs import settle
from expunge.bench.claims._statistics import Region, estimate, verdict


@dataclass(frozen=True)
class Dominates:
    """FOCUS's frontier of |rUA| over TA lost lies below the base's, over one sweep for both.

    The effect is the area between the frontiers: for each seed the mean, over TA budgets from 0 to
    ``most`` points, of the lowest |rUA| within reach of FOCUS minus that of the base. A faster
    clock goes along the same curve and ends at zero. Held is an interval below -``margin``, not
    held one above ``margin``, which is what the choice of stopping points alone can make. A sweep
    has at least ``settings`` settings.
    """

    addon: str = "focus"
    methods: tuple[str, ...] = CONSTRAINED
    most: float = 5.0
    step: float = 0.25
    margin: float = 0.25
    settings: int = 3

    def __call__(self, claim: Claim, runs: Runs) -> Iterator[Finding]:
        for situation, arm in runs.each(self.methods, (self.addon,)):
            base, addon = runs.sweep(situation, Arm(arm.method)), runs.sweep(situation, arm)
            found = compare_frontiers(base, addon, most=self.most, step=self.step)
            group = runs.group(situation, arm)
            if found.settings < self.settings:
                why = f"a sweep has at least {self.settings} settings, here {found.settings}"
                yield Finding(claim, group, "no data", detail=why)
                continue
            yield self._finding(claim, group, found, _diverged(base), _diverged(addon))

    def _finding(
        self, claim: Claim, group: str, found: Frontiers, base_lost: int, addon_lost: int
    ) -> Finding:
        area = estimate(found.areas) if found.areas else None
        coincide = Region(-self.margin, self.margin)
        alike = area is not None and verdict(area.interval, area.n, coincide) == "held"
        return settle(
            claim,
            group,
            found.areas,
            Region(high=-self.margin, grey=2 * self.margin),
            "points",
            f"the frontiers coincide within {self.margin:g} points" if alike else "",
            _where(found),
            f"{found.settings} settings",
            f"runs of one arm only, left out: {found.skipped}" if found.skipped else "",
            f"base runs diverged: {base_lost}" if base_lost else "",
            f"add-on runs diverged: {addon_lost}" if addon_lost else "",
            failures=addon_lost,
        )


def _diverged(sweep: Sweep) -> int:
    return sum(bool(record.diverged) for seeds in sweep.values() for record in seeds.values())


def _where(found: Frontiers) -> str:
    """``FOCUS lower at TA budgets 0-1.5, base at 2-3.25``."""
    told = []
    for name, sign in (("FOCUS", -1), ("base", 1)):
        runs = []
        wins = itertools.groupby(found.winners(), key=lambda w: sign * w[1] > 1e-9)
        for won, part in wins:
            budgets = [budget for budget, _ in part]
            if won:
                ends = f"{budgets[0]:g}" + (f"-{budgets[-1]:g}" if len(budgets) > 1 else "")
                runs.append(ends)
        if runs:
            told.append(f"{name} lower at TA budgets {', '.join(runs)}")
    return "; ".join(told) or "no difference at any TA budget"


CLOCK = Claim(
    "clock",
    "FOCUS is more than a faster clock: over a sweep of lr, alpha and epochs its frontier of |rUA| "
    f"over TA lost lies below the base's, by more than {Dominates.margin} points on average.",
    "Ours; cf. Prop. 7, case 2",
    Dominates(),
)
