"""Verdicts that are bounds: what lies inside its margin, outside, or open."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import norm

from expunge.evaluation import Predictions, TextPredictions
from expunge.evidence._sections import Check, CheckResult
from expunge.request.verdict._checks import (
    AFTER_BENIGN_STEPS,
    DELIVERED,
    LEVEL,
    TEXT_ATTACK_LABELS,
    Margins,
    check_accuracy_drops,
    check_loss_attack,
    check_records,
    expected_drops,
    make_checks,
)
from expunge.request.verdict._measurements import RequestPredictions

NAMES = ("ant", "bee")


def draw(count: int, shift: float, rng: np.random.Generator) -> Predictions:
    """Two classes; ``shift`` is how much surer of the label the model is."""
    labels = torch.from_numpy(np.arange(count) % 2)
    margin = torch.from_numpy(rng.normal(1.0 + shift, 1.0, count))
    signs = 2.0 * torch.nn.functional.one_hot(labels, 2) - 1.0
    return Predictions(signs * margin[:, None], labels)


def world(records: int, shift: float, seed: int, test: int = 600) -> RequestPredictions:
    """A model that is ``shift`` surer of the records than of data that it never saw."""
    rng = np.random.default_rng(seed)
    return RequestPredictions(
        forget=draw(records, shift, rng),
        val=draw(100, 0.0, rng),
        retain=draw(200, 1.0, rng),
        test=draw(test, 0.0, rng),
    )


def loss_check(predictions: RequestPredictions, margin: float) -> Check:
    found = check_loss_attack(predictions.forget, predictions, DELIVERED, 0, margin)
    assert found is not None
    return found


def make_check(result: CheckResult) -> Check:
    return Check(
        name="lost",
        label="",
        moment=DELIVERED,
        unit="points",
        value=0.0,
        low=0.0,
        high=0.0,
        margin=1.0,
        records=9,
        result=result,
    )


def test_a_record_that_is_left_out_of_everything_is_seldom_told_apart() -> None:
    """Of models that never saw the records, the default margin lets at least 95 of 100 pass."""
    margin = Margins.by_size(150, 600, [300, 300], [300, 300]).auc
    inside = sum(loss_check(world(150, 0.0, seed), margin).result == "inside" for seed in range(60))
    assert inside >= 52, "binomial: below 52 of 60 has a probability of 0.3 % at 95 %"


def test_all_checks_of_records_that_were_left_out_are_inside_in_most_requests() -> None:
    """Six attacks and an accuracy, together: at least 95 of 100 requests, as margins promise."""
    margins = Margins.by_size(300, 600, [300, 300], [300, 300], accuracy=0.84)
    inside = 0
    for seed in range(20):
        found = check_records(world(300, 0.0, seed), margins, DELIVERED, seed)
        inside += all(check.result == "inside" for check in found)
    assert inside >= 16, "binomial: below 16 of 20 has a probability of 0.3 % at 95 %"


def two_trainings(seed: int, a: float, test: int, train: int) -> tuple[Predictions, Predictions]:
    """Ten classes; each model alone is right on half of a(1-a), and each class has its luck."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(10), test)
    differ = a * (1.0 - a)
    luck = rng.normal(0.0, math.sqrt(a * (1.0 - a) / train), 10)[labels]
    place = rng.random(len(labels))
    first = place < differ / 2 - luck / 2
    second = (place >= differ / 2 - luck / 2) & (place < differ)
    both = place >= differ + (1.0 - a) - differ / 2
    return tuple(  # type: ignore[return-value]
        Predictions(
            torch.nn.functional.one_hot(
                torch.from_numpy(np.where(both | own, labels, (labels + 1) % 10)), 10
            ).float(),
            torch.from_numpy(labels),
        )
        for own in (first, second)
    )


@pytest.mark.parametrize(("a", "test", "train"), [(0.65, 1000, 450), (0.9, 1000, 4500)])
def test_two_trainings_of_one_recipe_lose_nothing_to_each_other(
    a: float, test: int, train: int
) -> None:
    margins = Margins.by_size(500, 5000, [test] * 10, [train] * 10, accuracy=a)
    base = world(40, 0.0, 0)
    inside = 0
    for seed in range(60):
        pair = two_trainings(seed, a, test, train)
        before, after = (RequestPredictions(base.forget, base.val, base.retain, p) for p in pair)
        checks = check_accuracy_drops(
            before, after, [str(c) for c in range(10)], margins, np.zeros(10)
        )
        inside += all(check.result == "inside" for check in checks)
    assert inside >= 52, "binomial: below 52 of 60 has a probability of 0.3 % at 95 %"


def test_forty_records_with_an_auc_of_six_tenths_do_not_pass() -> None:
    """The old verdict passed them in 43 % of the cases."""
    shift = math.sqrt(2.0) * float(norm.ppf(0.6))  # AUC 0.6 between two normal distributions
    margin = Margins.by_size(40, 600, [300, 300], [300, 300]).auc
    inside = sum(
        loss_check(world(40, shift, seed), margin).result == "inside" for seed in range(60)
    )
    assert inside <= 9, "binomial: more than 9 of 60 has a probability of 0.2 % at 5 %"


def test_a_model_that_remembers_everything_is_outside() -> None:
    assert loss_check(world(150, 3.0, 0), 0.6).result == "outside"


def test_avoiding_the_records_is_outside_too() -> None:
    assert loss_check(world(150, -3.0, 0), 0.6).result == "outside"


def test_more_records_decide_an_open_check() -> None:
    found = loss_check(world(30, 0.0, 1), 0.55)
    assert found.result == "open"
    assert found.needed is not None
    assert found.needed > 30


def test_bounds_of_the_auc_have_the_stated_level() -> None:
    """One-sided: the true value, one half, is above the upper bound in about 5 of 100 cases."""
    checks = [loss_check(world(100, 0.0, seed), 0.6) for seed in range(120)]
    above, below = sum(c.high < 0.5 for c in checks), sum(c.low > 0.5 for c in checks)
    limit = 120 * (1 - LEVEL) + 3 * math.sqrt(120 * LEVEL * (1 - LEVEL))
    assert above <= limit
    assert below <= limit


def test_margins_grow_as_examples_get_fewer_and_are_capped() -> None:
    sizes = [(10_000, 10_000), (500, 5000), (100, 1000), (10, 100)]
    margins = [Margins.by_size(n, m, [m // 10] * 10, [m] * 10, accuracy=0.9) for n, m in sizes]
    for name in ("auc", "records", "test", "of_class"):
        values = [getattr(each, name) for each in margins]
        assert values == sorted(values)
    assert margins[0] == Margins(0.55, 3.0, 2.0, 5.0)
    assert margins[-1] == Margins(0.6, 20.0, 5.0, 20.0)


def predicted(classes: list[int], labels: list[int]) -> Predictions:
    return Predictions(
        torch.nn.functional.one_hot(torch.tensor(classes), 2).float(), torch.tensor(labels)
    )


def test_losses_are_paired_and_per_class() -> None:
    labels = [0] * 100 + [1] * 100
    right, worse = predicted(labels, labels), predicted([0] * 100 + [1] * 50 + [0] * 50, labels)
    base = world(40, 0.0, 0)
    before = RequestPredictions(base.forget, base.val, base.retain, right)
    after = RequestPredictions(base.forget, base.val, base.retain, worse)
    margins = Margins(auc=0.6, records=3.0, test=2.0, of_class=5.0)
    checks = check_accuracy_drops(before, after, NAMES, margins, np.zeros(2))
    assert {c.name: c.value for c in checks} == {"lost": 25.0, "lost_ant": 0.0, "lost_bee": 50.0}
    assert {c.name: c.result for c in checks} == {
        "lost": "outside",
        "lost_ant": "inside",
        "lost_bee": "outside",
    }


def test_less_data_of_a_class_allow_a_larger_loss_there() -> None:
    labels = [0] * 50 + [1] * 50
    val = predicted([0] * 40 + [1] * 10 + [1] * 50, labels)  # one fifth of the first class is wrong
    before = RequestPredictions(
        forget=predicted([0] * 30, [0] * 30),
        val=val,
        retain=predicted([0] * 30 + [1] * 60, [0] * 30 + [1] * 60),
        test=val,
    )
    error = (10 + 2 * 0.1) / 52
    expected = expected_drops(before, before.retain.labels)
    assert expected[0] == pytest.approx(100 * (2 * error - error))
    assert expected[1] == 0.0


def test_a_class_that_is_forgotten_altogether_may_be_lost() -> None:
    labels = [0] * 50 + [1] * 50
    test = predicted(labels, labels)
    gone = predicted([1] * 100, labels)
    before = RequestPredictions(
        predicted([0] * 30, [0] * 30), test, predicted([1] * 60, [1] * 60), test
    )
    after = RequestPredictions(predicted([1] * 30, [0] * 30), gone, before.retain, gone)
    assert math.isnan(expected_drops(before, before.retain.labels)[0])
    margins = Margins(auc=0.6, records=20.0, test=5.0, of_class=20.0)
    checks = make_checks(before, after, after, NAMES, margins, 0, before.retain.labels)
    assert [c.name for c in checks if c.name.startswith("lost")] == ["lost", "lost_bee"]
    assert all(check.result == "inside" for check in checks)


def test_without_unseen_data_of_the_classes_nothing_can_be_concluded() -> None:
    base = world(40, 0.0, 0)
    test = predicted([1] * 60, [1] * 60)
    forget = predicted([0] * 30, [0] * 30)
    lonely = RequestPredictions(forget, base.val, base.retain, test)
    margins = Margins(auc=0.6, records=20.0, test=5.0, of_class=20.0)
    assert check_records(lonely, margins, DELIVERED, 0) == []


def test_every_attack_is_checked_at_either_moment() -> None:
    model = world(150, 0.0, 0)
    margins = Margins(0.6, 20.0, 5.0, 20.0)
    checks = make_checks(model, model, model, NAMES, margins, 0, model.retain.labels)
    for moment in (DELIVERED, AFTER_BENIGN_STEPS):
        names = [c.name for c in checks if c.moment == moment and c.name.startswith("auc_")]
        assert names == [
            "auc_correctness",
            "auc_confidence",
            "auc_logits",
            "auc_entropy",
            "auc_modified_entropy",
            "auc_loss",
        ]


def text_world(known: float, seed: int = 0) -> RequestPredictions:
    """Answers alike but for the tokens that carry facts: ``known`` of the records' are right."""
    rng = np.random.default_rng(seed)

    def draw_texts(count: int, share: float) -> TextPredictions:
        log_p = torch.from_numpy(rng.normal(-2.0, 0.3, count))
        right = rng.random(count) < share
        scores = dict.fromkeys(TEXT_ATTACK_LABELS, log_p.numpy())
        scores |= {"facts": log_p.numpy() + 2.0 * right, "facts_right": right.astype(float)}
        strata, shares = torch.arange(count) % 2, torch.full((count,), 0.7, dtype=torch.float64)
        return TextPredictions.of(log_p, strata, 2, shares, scores)

    sizes = {"forget": 300, "val": 100, "retain": 100, "test": 600}
    return RequestPredictions(
        **{n: draw_texts(k, known * (n == "forget")) for n, k in sizes.items()}
    )


def test_facts_that_are_still_known_are_outside_where_whole_answers_show_nothing() -> None:
    margins = Margins.by_size(300, 600, [300, 300], [300, 300])
    for known, result in ((0.0, "inside"), (0.5, "outside")):
        found = check_records(text_world(known), margins, AFTER_BENIGN_STEPS, 0)
        results = {check.name: check.result for check in found}
        assert results.pop("facts") == results.pop("auc_facts") == result
        assert set(results.values()) == {"inside"}, "what is measured over whole answers"
