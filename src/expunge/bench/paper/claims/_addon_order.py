"""The claim that the order of the add-ons is the same on other data and architectures."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from expunge._arrays import Array
from expunge.bench._results import PAPER_METHODS, BenchRun
from expunge.bench._tasks import TaskResults, select_variants
from expunge.bench.paper.claims._base import (
    LEVEL,
    MIN_SEEDS,
    Claim,
    ClaimFinding,
    Region,
    SeedMean,
    each_variant,
    settle,
)
from expunge.evaluation import METRICS


def kendall(a: Array, b: Array) -> Array:
    """Kendall's τ_b along the last axis; 0 where one side is all ties. Infinities may tie."""
    i, j = np.triu_indices(a.shape[-1], k=1)

    def signs(x: Array) -> Array:
        return (x[..., i] > x[..., j]).astype(float) - (x[..., i] < x[..., j])

    first, second = signs(a), signs(b)
    untied = np.sqrt((first != 0).sum(axis=-1) * (second != 0).sum(axis=-1))
    agreed = np.asarray((first * second).sum(axis=-1), dtype=np.float64)
    return np.asarray(np.divide(agreed, untied, out=np.zeros_like(agreed), where=untied > 0))


Values = dict[str, dict[int, float]]
"""A metric by add-on and seed; infinite where a run diverged."""


@dataclass(frozen=True)
class SameOrder:
    """Kendall's τ between the orders by the mean of a metric, averaged over pairs of tasks.

    A pair differs in data or architecture and shares method and scenario, or the scenario's kind
    where no pair shares more. "The same" is τ above ``least``: more than three pairs of add-ons in
    four keep their order. The interval resamples seeds within each task; runs that diverged rank
    last.
    """

    least: float = 0.5
    metrics: tuple[str, ...] = ("abs_rua", "ta", "fid", "mia_entropy")
    addons: tuple[str, ...] = ("none", "saliency", "and", "prob", "focus")
    methods: tuple[str, ...] = PAPER_METHODS
    resamples: int = 2000

    def __call__(self, claim: Claim, tasks: Sequence[TaskResults]) -> Iterator[ClaimFinding]:
        kind_of = {runs.name: runs.task.scenario.partition(":")[0] for runs in tasks}
        kinds = dict.fromkeys(kind_of.values())
        for method, kind, moments in itertools.product(self.methods, kinds, _moments(tasks)):
            name = BenchRun(method).label + ("" if moments == "published" else f" ({moments})")

            # The tasks of this kind of scenario that can be compared with another.
            found = [
                runs
                for runs in tasks
                if kind_of[runs.name] == kind and self._values(runs, method, moments, "abs_rua")
            ]
            pairs = _pairs([runs.task for runs in found])
            compared = [runs for runs in found if any(runs.task in pair for pair in pairs)]
            taus = {}
            for metric in self.metrics if compared else ():
                values = {r.task: self._values(r, method, moments, metric) for r in compared}
                tau = self._mean_tau(pairs, values)
                if tau is not None:
                    taus[metric] = tau, sum(_count_diverged(each) for each in values.values())
            if not taus:
                why = "needs two data sets or architectures with three add-ons in common"
                yield ClaimFinding(claim, f"{kind} {name}", "no data", detail=why)

            for metric, (tau, diverged) in taus.items():
                yield settle(
                    claim,
                    f"{kind} {name}, {METRICS[metric].label}",
                    tau,
                    Region(low=self.least),
                    "tau",
                    f"pairs of tasks: {len(pairs)}",
                    f"add-on runs diverged: {diverged}" if diverged else "",
                    failures=diverged,
                )

    def _values(self, runs: TaskResults, method: str, moments: str, metric: str) -> Values:
        """The values of a method on a task; empty without an add-on that uses these moments."""
        values: Values = {}
        last = -np.inf if METRICS[metric].direction == "higher" else np.inf
        variants = select_variants(runs.variants, method, self.addons)
        for variant in variants:
            if variant.moments in ("", moments):
                by_seed = {
                    seed: last if result.diverged else result.value(metric)
                    for seed, result in runs.at_main(variant).items()
                }
                known = {s: v for s, v in by_seed.items() if v is not None}
                values |= {variant.addon: known} if known else {}
        return values if any(variant.moments == moments for variant in variants) else {}

    def _mean_tau(
        self, pairs: Sequence[tuple[BenchRun, BenchRun]], values: dict[BenchRun, Values]
    ) -> SeedMean | None:
        """τ over the add-ons that both tasks of a pair have, with their seeds resampled."""
        random = np.random.default_rng(0)
        means: dict[BenchRun, dict[str, Array]] = {}
        counts = {}
        for task, found in values.items():
            seeds = (
                sorted(set.intersection(*(set(each) for each in found.values()))) if found else []
            )
            counts[task] = n = len(seeds)
            # The mean over all seeds, then those of the resampled ones.
            rows = np.vstack([np.arange(n), random.integers(max(n, 1), size=(self.resamples, n))])
            columns = {addon: np.array([each[s] for s in seeds]) for addon, each in found.items()}
            means[task] = {addon: c[rows].mean(axis=1) for addon, c in columns.items() if n}
        compared = {
            pair: shared
            for pair in pairs
            if len(shared := [a for a in self.addons if all(a in means[t] for t in pair)]) >= 3
        }
        if not compared:
            return None
        taus = [
            kendall(*(np.stack([means[task][a] for a in shared], axis=-1) for task in pair))
            for pair, shared in compared.items()
        ]
        tau, *resampled = np.mean(taus, axis=0).tolist()
        low, high = np.quantile(resampled, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2]).tolist()
        least = min(counts[task] for pair in compared for task in pair)
        return SeedMean(tau, (low, high) if least >= MIN_SEEDS else None, least)


def _count_diverged(values: Values) -> int:
    """The number of add-on runs that diverged."""
    addons = (seeds for addon, seeds in values.items() if addon != "none")
    return sum(bool(np.isinf(value)) for seeds in addons for value in seeds.values())


def _moments(tasks: Sequence[TaskResults]) -> list[str]:
    """The kinds of moments there are, the published ones first."""
    found = each_variant(tasks, PAPER_METHODS, ("focus", "prob"))
    others = {variant.moments for _, variant, _ in found}
    return ["published", *sorted(others - {"published", ""})]


def _pairs(tasks: Sequence[BenchRun]) -> list[tuple[BenchRun, BenchRun]]:
    """The pairs of tasks that differ in data or architecture, of one scenario if there are any."""
    differ = [
        (a, b)
        for a, b in itertools.combinations(tasks, 2)
        if (a.dataset, a.arch) != (b.dataset, b.arch)
    ]
    return [(a, b) for a, b in differ if a.scenario == b.scenario] or differ


ORDER = Claim(
    "order",
    "The order of the add-ons, by any metric, does not depend on data or architecture: Kendall's "
    f"tau above {SameOrder.least} between tasks with the same method and kind of scenario.",
    'Sect. 6.3: "the order of the add-ons techniques across all the metrics is conserved"; the '
    "bound is ours",
    SameOrder(),
)
