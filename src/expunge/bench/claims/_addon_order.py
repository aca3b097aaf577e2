"""The claim that the order of the add-ons is the same on other data and architectures."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from expunge.bench.claims._arms import CONSTRAINED, Arm, Situation
from expunge.bench.claims._base import Claim, Finding
from expunge.bench.claims._claim_runs import Runs
from expunge.bench.claims._paired_runs import settle
from expunge.bench.claims._statistics import LEAST, Estimate, Region, percentiles

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def kendall(a: Array, b: Array) -> Array:
    """Kendall's τ_b along the last axis; 0 where one side is all ties. Infinities may tie.

    >>> kendall(np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0]))
    array(0.33333333)
    """
    i, j = np.triu_indices(a.shape[-1], k=1)

    def signs(x: Array) -> Array:
        return (x[..., i] > x[..., j]).astype(float) - (x[..., i] < x[..., j])

    first, second = signs(a), signs(b)
    untied = np.sqrt((first != 0).sum(axis=-1) * (second != 0).sum(axis=-1))
    agreed = np.asarray((first * second).sum(axis=-1), dtype=np.float64)
    return np.asarray(np.divide(agreed, untied, out=np.zeros_like(agreed), where=untied > 0))


@dataclass(frozen=True)
class SameOrder:
    """Kendall's τ between the orders by mean |rUA|, averaged over pairs of situations.

    A pair differs in data or architecture and shares method and scenario, or the scenario's kind
    where no pair shares more. "The same" is τ above ``least``: more than three pairs of add-ons in
    four keep their order. The interval resamples seeds within each situation; runs that diverged
    rank last.
    """

    least: float = 0.5
    addons: tuple[str, ...] = ("none", "saliency", "and", "prob", "focus")
    methods: tuple[str, ...] = CONSTRAINED
    resamples: int = 2000

    def __call__(self, claim: Claim, runs: Runs) -> Iterator[Finding]:
        every = itertools.product(self.methods, _kinds(runs), _moments(runs))
        for method, kind, moments in every:
            ranked = {s: self._values(runs, s, method, moments) for s in _of_kind(runs, kind)}
            ranked = {s: found for s, found in ranked.items() if found}
            name = Arm(method).label + ("" if moments == "published" else f" ({moments})")
            pairs = _pairs(list(ranked))
            used = {s: ranked[s] for pair in pairs for s in pair}
            found = self._agreement(pairs, used) if pairs else None
            if found is None:
                why = "needs two data sets or architectures with three add-ons in common"
                yield Finding(claim, f"{kind} {name}", "no data", detail=why)
                continue
            lost = sum(v == np.inf for each in used.values() for v in _flat(each))
            yield settle(
                claim,
                f"{kind} {name}: {', '.join(runs.name(s) for s in used)}",
                found,
                Region(low=self.least),
                "tau",
                f"pairs of situations: {len(pairs)}",
                f"add-on runs diverged: {lost}" if lost else "",
                failures=lost,
            )

    def _values(self, runs: Runs, situation: Situation, method: str, moments: str) -> Values:
        """|rUA| by add-on and seed; infinite where a run diverged."""
        found: Values = {}
        for addon in self.addons:
            for arm in runs.arms(situation, method, addon):
                if arm.moments in ("", moments):
                    seeds = runs.at_main(situation, arm)
                    values = {
                        s: np.inf if r.diverged else r.value("abs_rua") for s, r in seeds.items()
                    }
                    found[addon] = {s: v for s, v in values.items() if v is not None}
        arms = (arm for addon in found for arm in runs.arms(situation, method, addon))
        return found if any(arm.moments == moments for arm in arms) else {}

    def _agreement(
        self, pairs: Sequence[tuple[Situation, Situation]], ranked: dict[Situation, Values]
    ) -> Estimate | None:
        """τ over the add-ons that all situations have, seeds that have them all resampled."""
        random = np.random.default_rng(0)
        shared = [a for a in self.addons if all(a in found for found in ranked.values())]
        means, drawn, n = {}, {}, []
        for situation, found in ranked.items():
            seeds = sorted(set.intersection(*(set(found[a]) for a in shared))) if shared else []
            if len(shared) < 3 or not seeds:
                return None
            table = np.array([[found[a][s] for a in shared] for s in seeds])
            n.append(len(seeds))
            means[situation] = table.mean(axis=0)
            rows = random.integers(len(seeds), size=(self.resamples, len(seeds)))
            drawn[situation] = table[rows].mean(axis=1)
        tau = float(np.mean([kendall(means[a], means[b]) for a, b in pairs]))
        taus = np.mean([kendall(drawn[a], drawn[b]) for a, b in pairs], axis=0)
        return Estimate(tau, percentiles(taus.tolist()) if min(n) >= LEAST else None, min(n))


Values = dict[str, dict[int, float]]


def _flat(values: Values) -> Iterator[float]:
    return (v for addon, seeds in values.items() if addon != "none" for v in seeds.values())


def _kinds(runs: Runs) -> list[str]:
    return list(dict.fromkeys(s.kind for s in runs.situations))


def _of_kind(runs: Runs, kind: str) -> list[Situation]:
    return [s for s in runs.situations if s.kind == kind]


def _moments(runs: Runs) -> list[str]:
    """The kinds of moments there are, the published ones first."""
    found = {
        arm.moments
        for _, arm in runs.each(CONSTRAINED, ("focus", "prob"))
        if arm.moments != "published"
    }
    return ["published", *sorted(found - {""})]


def _pairs(situations: Sequence[Situation]) -> list[tuple[Situation, Situation]]:
    differ = [
        (a, b)
        for a, b in itertools.combinations(situations, 2)
        if (a.dataset, a.arch) != (b.dataset, b.arch)
    ]
    return [(a, b) for a, b in differ if a.scenario == b.scenario] or differ


ORDER = Claim(
    "order",
    "The order of the add-ons by |rUA| does not depend on data or architecture: Kendall's tau "
    f"above {SameOrder.least} between situations with the same method and kind of scenario.",
    "Sect. 6.3; the bound is ours",
    SameOrder(),
)
