"""What may be lost elsewhere, class by class."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from expunge.evaluation.text._text_predictions import TextPredictions
from expunge.request.calibrate._floors import check_floors, least_loss, least_mean_loss
from expunge.request.calibrate._target import ClassCounts
from expunge.request.evidence._measurements import SplitPredictions
from expunge.request.evidence._sections import FloorCheck
from tests.unit.request.evidence.made_up import splits

NAMES = ("ant", "bee", "cat", "dog")
BEFORE = splits(records=150, forget_accuracy=1.0, forget_margin=6.0)


def checks_of(after: SplitPredictions, before: SplitPredictions = BEFORE) -> list[FloorCheck]:
    counts = ClassCounts.of(before.val, before.forget.labels, before.retain.labels)
    pairs = {"val": (before.val, after.val), "test": (before.test, after.test)}
    return check_floors(NAMES, counts, pairs, floor=2.0)


def test_a_model_that_changed_nothing_broke_nothing() -> None:
    checks = checks_of(BEFORE)
    assert [(check.split, check.name) for check in checks] == [
        (split, name) for split in ("val", "test") for name in ("", *NAMES)
    ]
    assert not any(check.broken for check in checks)
    assert all(check.lost == 0.0 for check in checks)


def test_a_class_that_fell_is_broken_on_test_even_if_val_is_too_small_to_tell() -> None:
    after = splits(records=150, forget_accuracy=0.84, forget_margin=2.0, class_accuracy=0.79)
    broken = {(check.split, check.name) for check in checks_of(after) if check.broken}
    assert ("test", "ant") in broken
    assert ("val", "ant") not in broken, "20 examples are few"
    assert broken <= {("test", "ant"), ("test", "")}


def test_what_a_retrained_model_would_lose_is_allowed() -> None:
    ant, bee = (next(c for c in checks_of(BEFORE) if c.name == name) for name in NAMES[:2])
    assert bee.allowed == pytest.approx(2.0), "nothing of it is forgotten"
    error = (1 + 2 * (1 - 76.5 / 81)) / 22
    assert ant.allowed == pytest.approx(2.0 + 100 * error * (1 / 0.925 * 0.925 / (925 / 1075) - 1))


def test_a_class_of_which_nothing_is_retained_is_exempt() -> None:
    rest = BEFORE.retain.take((BEFORE.retain.labels != 0).nonzero()[:, 0])
    before = replace(BEFORE, retain=rest)
    after = replace(
        splits(records=150, forget_accuracy=0.0, forget_margin=2.0, class_accuracy=0.0), retain=rest
    )
    checks = checks_of(after, before)
    assert {check.name for check in checks} == {"", *NAMES[1:]}
    assert not any(check.broken for check in checks)
    assert {check.records for check in checks if not check.name} == {60, 750}


def test_the_least_loss_holds_as_often_as_it_says() -> None:
    random = np.random.default_rng(0)
    missed = 0
    for _ in range(400):
        draws = random.choice(3, size=60, p=[0.15, 0.05, 0.80])
        lost, gained = int((draws == 0).sum()), int((draws == 1).sum())
        missed += least_loss(lost, gained, 60, 0.9) > 0.10
    assert missed / 400 <= 0.15


def test_the_least_loss_is_below_the_loss_and_falls_with_the_level() -> None:
    assert least_loss(20, 5, 100, 0.99) < least_loss(20, 5, 100, 0.9) < 0.15
    assert least_loss(5, 5, 50) < 0.0
    assert -1.0 <= least_loss(0, 3, 3) <= -1.0 + 1e-6
    assert torch.isfinite(torch.tensor(least_loss(3, 0, 3)))


def test_the_least_mean_loss_is_what_a_one_sided_test_just_does_not_reject() -> None:
    from scipy.stats import ttest_1samp

    losses = np.array([0.1, 0.0, 0.3, -0.05, 0.2, 0.0])
    least = least_mean_loss(losses)
    assert ttest_1samp(losses, least, alternative="greater").pvalue == pytest.approx(0.05)
    assert least_mean_loss(losses[:1]) == -1.0, "a single record breaks nothing"


def test_of_texts_what_is_retained_has_a_floor_of_its_own() -> None:
    strata = torch.arange(40) % 2
    log_p = torch.full((40,), -0.1, dtype=torch.float64)

    def sure_of(share: float) -> TextPredictions:
        shares = torch.full((40,), share, dtype=torch.float64)
        return TextPredictions.of(log_p, strata, 2, shares, {})

    counts = ClassCounts.of(sure_of(0.6), strata[:10], strata[10:])
    pairs = {"val": (sure_of(0.6), sure_of(0.6)), "retain": (sure_of(1.0), sure_of(0.95))}
    checks = check_floors(("shorter", "longer"), counts, pairs, floor=2.0)
    assert {check.split for check in checks if check.broken} == {"retain"}
    retained = next(check for check in checks if check.split == "retain")
    assert (retained.before, retained.after, retained.allowed) == (100.0, 95.0, 2.0)


def test_a_class_is_judged_by_itself_however_many_there_are() -> None:
    """The lower end of a class's loss is that of one interval at the level."""
    after = splits(records=150, forget_accuracy=0.84, forget_margin=2.0, class_accuracy=0.79)
    (ant,) = (c for c in checks_of(after) if (c.split, c.name) == ("test", "ant"))
    here = BEFORE.test.labels == 0
    before, now = BEFORE.test.right[here], after.test.right[here]
    lost, gained = int((before > now).sum()), int((before < now).sum())
    assert ant.low == pytest.approx(100 * least_loss(lost, gained, int(here.sum()), 0.95), abs=1e-5)
