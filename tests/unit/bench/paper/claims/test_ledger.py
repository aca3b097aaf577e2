"""The ledger: every finding in every format, and nothing swept under the rug."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest
from rich.console import Console

from expunge._errors import InvalidInput
from expunge.bench.paper.claims import CLAIMS, claim_ledger, counts_of
from expunge.bench.paper.claims._base import Claim
from tests.unit.bench.paper.claims.made_runs import both, judge_claims, rua, run

RECORDS = [
    *both(rua(5.0, 5.1, 5.2), rua(1.0, 1.1, 1.2)),
    *both(rua(5.0, 5.1, 5.2), rua(9.0, 9.1, 9.2), method="scrub"),
    *both(rua(5.0, 5.1, 5.2), rua(1.0, 99.1, 5.2), method="neg-grad-plus"),
]
LEDGER = claim_ledger(RECORDS, ["focus-rua", "focus-mia", "early-ta"])


def terminal(width: int) -> str:
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(LEDGER.terminal())
    return console.export_text()


def test_the_count_is_one_line() -> None:
    assert LEDGER.count == "1 held, 1 not held, 4 inconclusive, 2 without data"


def test_the_means_of_two_seeds_say_how_often_they_are_as_claimed() -> None:
    lower = both(rua(5.0, 5.1), rua(1.0, 1.1))
    higher = both(rua(5.0, 5.1), rua(9.0, 9.1), method="scrub")
    assert counts_of(claim_ledger(lower + higher, ["focus-rua"]).findings) == ["", "", "2 (1)"]
    assert counts_of(claim_ledger(RECORDS, ["focus-rua"]).findings) == ["1", "1", "1 (0)"]


def test_findings_keep_the_order_of_the_claims() -> None:
    names = [f.claim.name for f in claim_ledger(RECORDS).findings]
    assert sorted(set(names), key=names.index) == list(CLAIMS)
    asked = claim_ledger(RECORDS, ["early-ta", "focus-rua"]).findings
    assert asked[0].claim.name == "focus-rua"


@pytest.mark.parametrize("width", [80, 120])
def test_the_terminal_shows_statement_status_effect_and_interval(width: int) -> None:
    text = terminal(width)
    assert "…" not in text
    assert "not held" in text
    assert "-4.00 points" in text
    assert "early-ta: " in text
    assert max(map(len, text.splitlines())) <= width


def test_markdown_has_a_heading_and_a_table_a_claim() -> None:
    text = LEDGER.markdown()
    assert "### focus-rua" in text
    assert CLAIMS["focus-rua"].source in text
    assert (
        "| digits/small-cnn/random:0.1 SRL-FOCUS | held | -4.00 points | [-4.00, -4.00] | 3 |"
        in text
    )
    assert text.index("### No data") > text.index("### focus-mia")
    assert "lr 0.0001" in text


def test_csv_has_every_finding() -> None:
    rows = list(csv.DictReader(io.StringIO(LEDGER.csv())))
    assert len(rows) == len(LEDGER.findings)
    held = next(row for row in rows if row["status"] == "held")
    assert float(held["effect"]) == pytest.approx(-4.0)
    assert held["statement"] == CLAIMS["focus-rua"].statement


def test_an_empty_ledger_prints() -> None:
    ledger = claim_ledger([])
    assert ledger.count.startswith("0 held, 0 not held, 0 inconclusive")
    Console(file=io.StringIO()).print(ledger.terminal())
    assert ledger.markdown()


def test_diverged_runs_are_told_in_every_text() -> None:
    results = [*RECORDS, run("random-label", seed=3, rua=5.0)]
    results.append(run("random-label", "focus", 3, diverged="nan"))
    ledger = claim_ledger(results, ["focus-rua"])
    console = Console(width=200, file=io.StringIO(), record=True)
    console.print(ledger.terminal())
    for text in (ledger.markdown(), ledger.csv(), console.export_text()):
        assert "diverged with seed 3" in text


def test_every_claim_has_a_statement_and_a_source() -> None:
    for name in CLAIMS:
        claim: Claim = CLAIMS[name]
        assert claim.name == name
        assert claim.statement.endswith(".")
        assert claim.source


def test_every_claim_without_results_is_without_data() -> None:
    assert {f.status for f in judge_claims([])} == {"no data"}
    assert {f.claim.name for f in judge_claims([])} == set(CLAIMS)


def test_two_seeds_never_hold_a_claim() -> None:
    results = [
        run(method, addon, seed, rua=0.0 if addon != "none" else 50.0, mia=0.1, ta=ta)
        for method in ("random-label", "neg-grad-plus", "scrub", "conv-transpose")
        for addon in ("none", "saliency", "and", "prob", "focus")
        for seed in (0, 1)
        for ta in [(90.0, 10.0, 20.0, 30.0, 40.0)]
    ]
    assert {f.status for f in judge_claims(results)} == {"inconclusive", "no data"}


def test_adam_moments_are_a_group_of_their_own() -> None:
    results = both(rua(5.0, 5.1, 5.2), rua(1.0, 1.1, 1.2))
    results += [run("random-label", "focus", s, moments="adam", rua=9.0 + s) for s in range(3)]
    found = [f for f in judge_claims(results, ["focus-rua"]) if f.status != "no data"]
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
