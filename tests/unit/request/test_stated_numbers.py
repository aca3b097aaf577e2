"""Numbers that were computed again, beside those that the evidence states."""

from __future__ import annotations

import math

import pytest

from expunge.request import _stated_numbers as numbers
from expunge.request.evidence._sections import HeldOutComparison, Interval, PowerCheck
from tests.unit.report import fake

EVIDENCE = fake.evidence(12)


def test_equal_numbers_agree() -> None:
    for finding in (
        *numbers.check_accuracies(EVIDENCE.metrics, EVIDENCE.metrics),
        numbers.check_metrics(EVIDENCE.metrics, EVIDENCE.metrics, ("before", "after", "target")),
        numbers.check_attacks(EVIDENCE.attacks, EVIDENCE.attacks, ("before", "after")),
        numbers.check_floors(EVIDENCE.floors, EVIDENCE.floors),
        numbers.check_earlier(EVIDENCE.earlier, EVIDENCE.earlier),
        numbers.check_power(None, None),
    ):
        assert finding.problem == "", finding.claim


@pytest.mark.parametrize("part", ["value", "low", "high"])
def test_an_interval_agrees_up_to_rounding_at_each_of_its_numbers(part: str) -> None:
    row = EVIDENCE.attacks[0]

    def moved(by: float) -> numbers.Finding:
        auc = row.after.auc.model_copy(update={part: getattr(row.after.auc, part) + by})
        after = row.after.model_copy(update={"auc": auc})
        changed = [row.model_copy(update={"after": after}), *EVIDENCE.attacks[1:]]
        return numbers.check_attacks(changed, EVIDENCE.attacks, ("after",))

    assert moved(0.5 * numbers.SHARES).problem == ""
    assert "comes out as" in moved(2 * numbers.SHARES).problem


def test_a_number_that_is_left_out_is_a_problem() -> None:
    finding = numbers.check_attacks(EVIDENCE.attacks[1:], EVIDENCE.attacks, ("after",))
    assert "not nothing" in finding.problem
    finding = numbers.check_floors([], EVIDENCE.floors)
    assert bool(finding.problem) == bool(EVIDENCE.floors)


def test_undefined_numbers_agree_with_each_other_alone() -> None:
    row = EVIDENCE.metrics[0]
    undefined = row.model_copy(update={"after": Interval(value=math.nan, low=0, high=1)})
    assert numbers.check_metrics([undefined], [undefined], ("after",)).problem == ""
    assert numbers.check_metrics([undefined], [row], ("after",)).problem != ""


def test_what_an_attack_tells_has_to_agree_unless_rounding_decides_it() -> None:
    row = EVIDENCE.attacks[0]

    def row_with(low: float, verdict: str) -> object:
        auc = Interval(value=0.6, low=low, high=0.7)
        update = {"auc": auc, "verdict": verdict}
        return row.model_copy(update={"after": row.after.model_copy(update=update)})

    def problem(low: float) -> str:
        stated, found = row_with(low, "not detected"), row_with(low, "detected")
        return numbers.check_attacks([stated], [found], ("after",)).problem  # type: ignore[list-item]

    assert "verdict" in problem(0.53)
    assert problem(0.501) == ""


def test_a_decision_that_differs_is_a_problem() -> None:
    enough = PowerCheck(
        power=0.82, needed=0.8, draws=40, told_apart=33, distance=1.0, sufficient=True
    )
    lacking = enough.model_copy(update={"power": 0.79, "sufficient": False})
    assert "Sufficient power comes out as False, not True." in (
        numbers.check_power(enough, lacking).problem
    )
    assert numbers.check_power(enough, None).problem != ""
    same = HeldOutComparison(indistinguishable=True, over_forgotten=False, distance=0.9)
    other = same.model_copy(update={"indistinguishable": False})
    assert numbers.check_held_out(same, same).problem == ""
    assert numbers.check_held_out(same, other).problem != ""
    assert numbers.check_held_out(None, same).problem != ""
