"""A claim: a sentence of the paper, where it stands, and the rule that tests it on records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from expunge.bench._runs import Arm, TaskRuns, select_arms

ClaimStatus = Literal["held", "not held", "inconclusive", "no data"]
STATUSES: tuple[ClaimStatus, ...] = ("held", "not held", "inconclusive", "no data")


class Rule(Protocol):
    """How a claim is tested: a frozen dataclass whose fields are margins and thresholds."""

    def __call__(self, claim: Claim, tasks: Sequence[TaskRuns]) -> Iterable[ClaimFinding]:
        """Give a finding for each group of runs that the claim speaks of."""


@dataclass(frozen=True)
class Claim:
    """What is claimed, in words; ``source`` is the section or table, ``rule`` the test.

    ``texts``: it is about language models, not about images.
    """

    name: str
    statement: str
    source: str
    rule: Rule
    texts: bool = False

    def judge(self, tasks: Sequence[TaskRuns]) -> list[ClaimFinding]:
        """Its findings; a single one of "no data" where there is nothing to test it on."""
        tasks = [runs for runs in tasks if runs.task.is_text == self.texts]
        return list(self.rule(self, tasks)) or [ClaimFinding(self, "", "no data")]


@dataclass(frozen=True)
class ClaimFinding:
    """What the records say about a claim in one group of runs.

    Args:
        group: data set / architecture / scenario, then the method with its add-on.
        effect: the mean over ``n`` seeds in ``unit``; what it measures is in the statement.
        interval: 95 %, over seeds.
        detail: what else a reader wants to know, such as runs that diverged.
    """

    claim: Claim
    group: str
    status: ClaimStatus
    effect: float | None = None
    interval: tuple[float, float] | None = None
    n: int = 0
    unit: str = ""
    detail: str = ""


def each_arm(
    tasks: Iterable[TaskRuns], methods: Sequence[str], addons: Sequence[str]
) -> Iterator[tuple[TaskRuns, Arm]]:
    """Every task with every arm of these methods and add-ons, whether it was run or not.

    A method with an add-on is one arm for each kind of moments, the published ones first.
    """
    for runs in tasks:
        for method in methods:
            for addon in addons:
                arms = select_arms(runs.arms, method, (addon,)) or [Arm(method, addon)]
                yield from ((runs, arm) for arm in arms)


def group_name(runs: TaskRuns, arm: Arm) -> str:
    """``cifar10/vgg16/random:0.1 SRL-FOCUS``: the group of a finding on one arm."""
    return f"{runs.name} {arm.label}"
