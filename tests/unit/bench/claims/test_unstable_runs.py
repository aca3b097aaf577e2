"""Claims on unstable runs, on records of known truth."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from expunge.bench.claims import judge_claims
from tests.unit.bench.claims.made_runs import Curve, only, run

WILD = (20.0, 10.0, -10.0, -30.0, -46.0)


TAME = (20.0, 4.0, 3.0, 2.0, 1.0)


def unstable(mask: Sequence[Curve], focus: Sequence[Curve]) -> list[str]:
    records = [run("neg-grad-plus", "and", s, rua=c, ta=80.0 - s) for s, c in enumerate(mask)]
    records += [run("neg-grad-plus", "focus", s, rua=c) for s, c in enumerate(focus)]
    return [f.status for f in judge_claims(records, ["and-unstable"])]


def test_and_is_unstable_where_focus_is_not() -> None:
    assert unstable([WILD] * 3, [TAME] * 3) == ["held"] * 3
    assert unstable([TAME] * 3, [WILD] * 3) == ["not held", "held", "not held"]
    assert unstable([WILD, TAME, TAME], [TAME] * 3)[0] == "inconclusive"
    assert unstable([], [TAME] * 3) == ["no data"] * 3


def test_a_mask_that_diverges_is_unstable_and_a_focus_that_does_is_not_stable() -> None:
    tame = [run("neg-grad-plus", "focus", s, rua=TAME) for s in range(3)]
    gone = [run("neg-grad-plus", "and", s, diverged="nan") for s in range(3)]
    assert {f.status for f in judge_claims(tame + gone, ["and-unstable"])} == {"held"}
    wild = [run("neg-grad-plus", "and", s, rua=WILD, ta=50.0 + s) for s in range(4)]
    lost = run("neg-grad-plus", "focus", 3, diverged="nan")
    found = judge_claims([*tame, lost, *wild], ["and-unstable"])
    assert {f.status for f in found} == {"inconclusive"}


@pytest.mark.parametrize(
    ("early", "status"),
    [((50.0, 52.0, 54.0), "held"), ((93.0, 92.0, 93.0), "not held"), ((50.0,), "inconclusive")],
)
def test_msg_and_ct_lose_accuracy_at_first(early: tuple[float, ...], status: str) -> None:
    records = [
        run("conv-transpose", seed=s, ta=(90.0, each, 80.0, 85.0, 88.0))
        for s, each in enumerate(early)
    ]
    found = only(records, "early-ta")
    assert found.status == status
    assert "-2.00 at the last epoch" in found.detail
