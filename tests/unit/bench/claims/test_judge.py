"""All claims together: which runs they compare, and when they have no data."""

from __future__ import annotations

from dataclasses import replace

import pytest

from expunge._errors import InvalidInput
from expunge.bench.claims import CLAIMS, judge_claims
from tests.unit.bench.claims.made_runs import both, rua, run


def test_every_claim_without_records_is_without_data() -> None:
    assert {f.status for f in judge_claims([])} == {"no data"}
    assert {f.claim.name for f in judge_claims([])} == set(CLAIMS)


def test_two_seeds_never_hold_a_claim() -> None:
    records = [
        run(method, addon, seed, rua=0.0 if addon != "none" else 50.0, mia=0.1, ta=ta)
        for method in ("random-label", "neg-grad-plus", "scrub", "conv-transpose")
        for addon in ("none", "saliency", "and", "prob", "focus")
        for seed in (0, 1)
        for ta in [(90.0, 10.0, 20.0, 30.0, 40.0)]
    ]
    assert {f.status for f in judge_claims(records)} == {"inconclusive", "no data"}


def test_adam_moments_are_a_group_of_their_own() -> None:
    records = both(rua(5.0, 5.1, 5.2), rua(1.0, 1.1, 1.2))
    records += [run("random-label", "focus", s, moments="adam", rua=9.0 + s) for s in range(3)]
    found = [f for f in judge_claims(records, ["focus-rua"]) if f.status != "no data"]
    assert [f.group.rpartition(" SRL-")[2] for f in found] == ["FOCUS", "FOCUS (adam)"]
    assert [f.status for f in found] == ["held", "not held"]


def test_only_the_setting_that_most_methods_share_is_compared() -> None:
    sweep = both(rua(5.0, 5.1, 5.2), rua(50.0, 51.0, 52.0), lr=1.0)
    main = both(rua(5.0, 5.1, 5.2), rua(1.0, 1.1, 1.2))
    other = both(rua(5.0, 5.1, 5.2), rua(1.0, 1.1, 1.2), method="scrub")
    found = [f for f in judge_claims(sweep + main + other, ["focus-rua"]) if f.n]
    assert [f.status for f in found] == ["held", "held"]


def test_runs_that_only_their_block_tells_apart_are_judged_apart() -> None:
    first = both(rua(5.0, 5.1, 5.2), rua(1.0, 1.1, 1.2))
    second = both(rua(5.0, 5.1, 5.2), rua(9.0, 9.1, 9.2), block="c")
    found = [f for f in judge_claims(first + second, ["focus-rua"]) if f.n]
    assert [f.status for f in found] == ["held", "not held"]
    assert "(block b)" in found[0].group
    twin = replace(first[0], key="another")
    with pytest.raises(InvalidInput, match="same settings and seed"):
        judge_claims([*first, twin])


def test_an_unknown_claim_is_refused() -> None:
    with pytest.raises(InvalidInput, match="Did you mean 'focus-rua'"):
        judge_claims([], ["focus-ruas"])
