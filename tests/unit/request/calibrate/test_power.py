"""Whether the tests would have noticed a model that forgot nothing."""

from __future__ import annotations

from expunge.request.calibrate._power import NEEDED, Power, estimate_power
from expunge.request.calibrate._target import estimate_target
from tests.unit.request.evidence.made_up import splits


def power_of(records: int, accuracy: float, margin: float) -> Power:
    before = splits(records=records, forget_accuracy=accuracy, forget_margin=margin)
    target = estimate_target(before.val, before.forget.labels, before.retain.labels)
    unseen = {"val": before.val, "test": before.test}
    return estimate_power(before.forget, unseen, target)


def test_a_large_set_known_by_heart_is_told_apart_for_certain() -> None:
    power = power_of(150, accuracy=1.0, margin=6.0)
    assert (power.value, power.draws) == (1.0, 0), "nothing has to be drawn"
    assert power.distance > 3.0
    assert power.sufficient


def test_few_records_that_look_like_others_are_not_told_apart() -> None:
    power = power_of(12, accuracy=1.0, margin=2.1)
    assert power.draws - power.told_apart == 9, "of 40, that is one too many"
    assert power.value < 0.5
    assert not power.sufficient


def test_many_records_that_the_model_does_not_know_by_heart_are_not_told_apart() -> None:
    power = power_of(200, accuracy=0.95, margin=2.0)
    assert power.value < NEEDED
    assert not power.sufficient


def test_power_grows_with_the_number_of_records() -> None:
    few, many = (power_of(records, accuracy=1.0, margin=2.3) for records in (4, 80))
    assert few.value < 0.5 < many.value


def test_power_is_the_fraction_told_apart() -> None:
    assert Power(32, 40, 1.0).sufficient
    assert not Power(31, 40, 1.0).sufficient
