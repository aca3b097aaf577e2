"""Whether the tests would have noticed a model that forgot nothing."""

from __future__ import annotations

import numpy as np
import torch

from expunge.evaluation import Predictions
from expunge.evaluation.text._text_predictions import TextPredictions
from expunge.request.calibrate._power import FINEST, NEEDED, Power, estimate_power
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


def test_test_data_of_another_kind_give_no_power() -> None:
    """Records like val, and a test set of which the model is much less sure."""
    before = splits(records=200, forget_accuracy=0.95, forget_margin=2.0)
    target = estimate_target(before.val, before.forget.labels, before.retain.labels)
    harder = Predictions(0.3 * before.test.logits, before.test.labels)
    alone = estimate_power(before.forget, {"test": harder}, target)
    both = estimate_power(before.forget, {"val": before.val, "test": harder}, target)
    assert alone.sufficient, "the difference between the two kinds of data is all it sees"
    assert not both.sufficient


def test_power_grows_with_the_number_of_records() -> None:
    few, many = (power_of(records, accuracy=1.0, margin=2.3) for records in (4, 80))
    assert few.value < 0.5 < many.value


def test_power_is_the_fraction_told_apart() -> None:
    assert Power(32, 40, 1.0).sufficient
    assert not Power(31, 40, 1.0).sufficient


def texts(records: int, log_p: float, seed: int) -> TextPredictions:
    """Answers whose tokens have about this mean log-probability."""
    random = np.random.default_rng(seed)
    values = log_p * random.uniform(0.5, 1.5, records)
    scores = dict.fromkeys(("loss", "zlib", "min_k", "min_k_plus_plus"), values)
    log_probs = torch.from_numpy(values)
    return TextPredictions.of(log_probs, torch.arange(records) % 2, 2, log_probs.exp(), scores)


def power_of_texts(records: int) -> Power:
    """Records known by heart, and sixty unseen ones in val and in test."""
    val, test = texts(60, -1.0, 1), texts(60, -1.0, 2)
    forget = texts(records, -0.01, 0)
    target = estimate_target(val, forget.labels, torch.arange(100) % 2)
    return estimate_power(forget, {"val": val, "test": test}, target)


def test_a_text_known_by_heart_stands_out_and_still_nothing_can_be_told_of_one() -> None:
    power = power_of_texts(1)
    assert power.distance > 1.0
    assert power.coarse
    assert (power.value, power.sufficient) == (0.0, False)


def test_texts_are_enough_once_chance_no_longer_explains_what_attacks_should_notice() -> None:
    reaches = [power_of_texts(records).reach for records in (2, 6, 24)]
    assert reaches == sorted(reaches, reverse=True)
    assert reaches[0] > FINEST > reaches[2]
    assert power_of_texts(24).sufficient
