"""Claims on time: what an add-on adds to a step, and how many epochs FOCUS needs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import partial

from expunge.bench._results import PAPER_METHODS, BenchResult, BenchRun
from expunge.bench._tasks import TaskResults
from expunge.bench.paper.claims._base import (
    Claim,
    ClaimFinding,
    Pairs,
    Region,
    each_variant,
    settle,
)

MIN_TIME_RATIO = 1.5
"""Times as long that still is "about twice"."""


def steady_time(result: BenchResult) -> float | None:
    """RTE of the steps after the first epoch, a warm-up; of the only one if alone."""
    name = result.clock
    times = [row[name] for row in result.epochs if row["epoch"] > 0 and row.get(name)]
    if not times:
        return None
    return float(times[-1] - times[0]) if len(times) > 1 else float(times[0])


def log_ratio(base: float | None, other: float | None) -> float | None:
    """log(other / base); None unless both are positive."""
    return math.log(other / base) if base and other and base > 0 and other > 0 else None


def overhead(
    claim: Claim,
    tasks: Sequence[TaskResults],
    *,
    cases: Sequence[tuple[str, str]],
    most: float,
) -> Iterator[ClaimFinding]:
    """A step with the add-on takes at most ``most`` per cent more time than one without.

    ``cases`` are methods with add-ons. Ratios of RTE are averaged on a log scale. Cheaper than the
    paper's figure is fine.
    """
    for method, addon in cases:
        for runs, variant, group in each_variant(tasks, (method,), (addon,)):
            pairs = Pairs.with_addon(runs, variant)
            clocks = {base.clock.replace("_seconds", " time") for base, _ in pairs.both.values()}
            yield settle(
                claim,
                group,
                pairs.values(lambda a, b: log_ratio(steady_time(a), steady_time(b))),
                Region(high=math.log1p(most / 100)),
                "%",
                " and ".join(sorted(clocks)),
                pairs.remark,
                failures=len(pairs.other_diverged),
                scale=lambda x: 100 * math.expm1(x),
            )


def sooner(claim: Claim, tasks: Sequence[TaskResults]) -> Iterator[ClaimFinding]:
    """FOCUS reaches the method's final |rUA| in fewer epochs than the method itself.

    The level is the |rUA| that the method alone ends with; each variant reaches it at the first
    evaluated epoch at which it is no higher. The effect is the ratio of the two epochs, averaged on
    a log scale. A run that never gets there is a failure, and counts as having needed all its
    epochs.
    """
    for runs, variant, group in each_variant(tasks, PAPER_METHODS, ("focus",)):
        pairs = Pairs.with_addon(runs, variant)
        late = [s for s, (a, b) in pairs.both.items() if b.evaluated and _misses(a, b)]
        yield settle(
            claim,
            group,
            [] if len(late) == len(pairs.both) else pairs.values(epochs_needed),
            Region(high=0.0),
            "× epochs",
            _epochs_in_words(pairs),
            f"not reached with seed {', '.join(map(str, late))}" if late else "",
            pairs.remark,
            failures=len(late) + len(pairs.other_diverged),
            scale=math.exp,
        )


def slower(claim: Claim, tasks: Sequence[TaskResults]) -> Iterator[ClaimFinding]:
    """Competitors take ``MIN_TIME_RATIO`` times as long as SRL-FOCUS to reach its final |rUA|.

    Times are of the steps up to the first evaluated epoch at that level. A competitor that never
    reaches it counts with all its time, which is too little: such seeds are named.
    """
    for runs, focus, _ in each_variant(tasks, ("random-label",), ("focus",)):
        for rival in runs.main_variants:
            competes = rival.addon == "none" or rival == BenchRun("random-label", "saliency")
            if not (competes and rival.is_linear):
                continue
            names = (focus.label, rival.label)
            pairs = Pairs.of(runs.at_main(focus), runs.at_main(rival), names)
            late = [s for s, (a, b) in pairs.both.items() if b.evaluated and _misses(a, b)]
            yield settle(
                claim,
                f"{runs.name} {rival.label} against {focus.label}",
                pairs.values(_log_time_ratio),
                Region(low=math.log(MIN_TIME_RATIO)),
                "× time",
                f"not reached with seed {', '.join(map(str, late))}" if late else "",
                pairs.remark,
                scale=math.exp,
            )


def _log_time_ratio(focus: BenchResult, rival: BenchResult) -> float | None:
    level = focus.value("abs_rua")
    if level is None or not rival.evaluated:
        return None
    epochs = (first_at(focus, level), first_at(rival, level) or rival.final["epoch"])
    return log_ratio(*(r.value("rte", e) for r, e in zip((focus, rival), epochs, strict=True)))


def first_at(result: BenchResult, level: float) -> float | None:
    """The first epoch evaluated after the start with |rUA| no higher than ``level``."""
    rows = (row for row in result.evaluated if row["epoch"] > 0 and "rua" in row)
    return next((row["epoch"] for row in rows if abs(row["rua"]) <= level + 1e-9), None)


def epochs_needed(base: BenchResult, other: BenchResult) -> float | None:
    """log of the ratio of the epochs that both need to reach the base's final |rUA|."""
    level = base.value("abs_rua")
    if level is None or not other.evaluated or base.final["epoch"] < 1:
        return None
    return log_ratio(first_at(base, level), first_at(other, level) or other.final["epoch"])


def _misses(base: BenchResult, other: BenchResult) -> bool:
    level = base.value("abs_rua")
    return level is not None and first_at(other, level) is None


def _epochs_in_words(pairs: Pairs) -> str:
    epochs = []
    for base, focus in pairs.both.values():
        level = base.value("abs_rua")
        if level is not None:
            found = [first_at(result, level) for result in (focus, base)]
            epochs.append("/".join(f"{each:.2g}" if each else "never" for each in found))
    return f"epochs by seed, FOCUS/base: {', '.join(epochs)}" if epochs else ""


_PAPERS_ADDONS = tuple(itertools.product(PAPER_METHODS, ("focus", "prob", "and")))
OVERHEAD = Claim(
    "overhead",
    "FOCUS, PROB and AND, and SalUn on NGPlus, add at most 22 % to the time of a step.",
    "Sect. 6.3.1, which gives about 22 %",
    partial(overhead, cases=(*_PAPERS_ADDONS, ("neg-grad-plus", "saliency")), most=22.0),
    bound=True,
)
SALUN_OVERHEAD = Claim(
    "salun-overhead",
    "SalUn on SRL and SCRUB, where it needs a third gradient, adds at most 55 % to a step's time.",
    "Sect. 6.3.1, which gives about 55 %",
    partial(overhead, cases=(("random-label", "saliency"), ("scrub", "saliency")), most=55.0),
    bound=True,
)
FAST = Claim(
    "fast",
    "FOCUS reaches the method's final |rUA| in fewer epochs (about half).",
    "Fig. 6, 8 and 9, Sect. 6.3.4",
    sooner,
)
TWICE = Claim(
    "twice",
    "Competitors take about twice as long as SRL-FOCUS to reach the |rUA| that it ends with: at "
    f"least {MIN_TIME_RATIO:g} times.",
    'Sect. 6.3.4: "the competitors need about twice as much time"; the bound is ours',
    slower,
)
