"""Pairs of runs with the same seed, and the finding that they lead to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from expunge.bench._records import Record
from expunge.bench.claims._base import Claim, Finding, Status
from expunge.bench.claims._claim_runs import Seeds
from expunge.bench.claims._statistics import LEAST, Estimate, Region, estimate, verdict


@dataclass(frozen=True)
class Pairs:
    """Runs of two arms with the same seed; the seeds where one of them diverged are apart."""

    both: dict[int, tuple[Record, Record]] = field(default_factory=dict)
    base_diverged: tuple[int, ...] = ()
    arm_diverged: tuple[int, ...] = ()

    @classmethod
    def of(cls, base: Seeds, arm: Seeds) -> Pairs:
        """The pairs of the seeds that both have."""
        seeds = sorted(set(base) & set(arm))
        return cls(
            {s: (base[s], arm[s]) for s in seeds if not (base[s].diverged or arm[s].diverged)},
            tuple(s for s in seeds if base[s].diverged),
            tuple(s for s in seeds if arm[s].diverged),
        )

    def values(self, measure: Callable[[Record, Record], float | None]) -> list[float]:
        """``measure(base, arm)`` of every pair that has it."""
        found = (measure(base, arm) for base, arm in self.both.values())
        return [value for value in found if value is not None]

    @property
    def remark(self) -> str:
        """Names the seeds that diverged."""
        told = [("base", self.base_diverged), ("add-on", self.arm_diverged)]
        return "; ".join(f"{name} {diverged(seeds)}" for name, seeds in told if seeds)


def diverged(seeds: Sequence[int]) -> str:
    """``diverged with seed 0, 2``."""
    return f"diverged with seed {', '.join(map(str, seeds))}"


def settle(
    claim: Claim,
    group: str,
    values: Sequence[float] | Estimate,
    region: Region,
    unit: str,
    *details: str,
    failures: int = 0,
    scale: Callable[[float], float] = float,
) -> Finding:
    """The finding that ``values``, one a seed, lead to; ``region`` is on their scale.

    ``failures`` counts runs that came to nothing, such as add-on runs that diverged: any of them
    keeps a claim from being held, and 3 or more with nothing beside them make it "not held".
    """
    alike = False
    if isinstance(values, Estimate):
        found = values
    elif values:
        found = estimate(values)
        alike = found.n >= LEAST and max(values) - min(values) < 1e-9
    else:
        status: Status = "no data" if not failures else "inconclusive"
        status = "not held" if failures >= LEAST else status
        return Finding(claim, group, status, detail=_joined(details))
    status = verdict(found.interval, found.n, region)
    if failures and status == "held":
        status = "inconclusive"
    notes = [*details, "all seeds alike: the interval says little" if alike else ""]
    shown = found.mapped(scale)
    return Finding(claim, group, status, shown.value, shown.interval, found.n, unit, _joined(notes))


def settle_each(
    claim: Claim,
    group: str,
    seeds: Seeds,
    measure: Callable[[Record], float | None],
    region: Region,
    unit: str,
    told: Callable[[list[Record]], str],
) -> Finding:
    """The finding on a quantity that each run has by itself."""
    gone = [seed for seed, record in sorted(seeds.items()) if record.diverged]
    whole = [record for record in seeds.values() if not record.diverged]
    known = [(record, value) for record in whole if (value := measure(record)) is not None]
    return settle(
        claim,
        group,
        [value for _, value in known],
        region,
        unit,
        told([record for record, _ in known]) if known else "",
        diverged(gone) if gone else "",
        failures=len(gone),
    )


def _joined(details: Sequence[str]) -> str:
    return "; ".join(detail for detail in details if detail)
