"""A claim: a sentence of the paper, where it stands, and the rule that tests it on records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

from expunge.bench.claims._claim_runs import Runs

Status = Literal["held", "not held", "inconclusive", "no data"]
STATUSES: tuple[Status, ...] = ("held", "not held", "inconclusive", "no data")


class Rule(Protocol):
    """How a claim is tested: a frozen dataclass whose fields are margins and thresholds."""

    def __call__(self, claim: Claim, runs: Runs) -> Iterable[Finding]:
        """A finding for each group of runs that the claim speaks of."""


@dataclass(frozen=True)
class Claim:
    """What is claimed, in words; ``source`` is the section or table; ``test`` the rule."""

    name: str
    statement: str
    source: str
    test: Rule

    def judge(self, runs: Runs) -> list[Finding]:
        """Its findings; one of "no data" where there is nothing to test it on."""
        return list(self.test(self, runs)) or [Finding(self, "", "no data")]


@dataclass(frozen=True)
class Finding:
    """What the records say of a claim in one group.

    Args:
        group: data set / architecture / scenario, then the method with its add-on.
        effect: the mean over ``n`` seeds in ``unit``; what it measures is in the statement.
        interval: 95 %, over seeds.
        detail: what a reader wants to know besides, such as runs that diverged.
    """

    claim: Claim
    group: str
    status: Status
    effect: float | None = None
    interval: tuple[float, float] | None = None
    n: int = 0
    unit: str = ""
    detail: str = ""
