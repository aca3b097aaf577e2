"""Every attack of the population rung on worlds whose truth was planted, and its reports."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from expunge._errors import InvalidInput
from expunge.evaluation import (
    ATTACKS,
    RMIA,
    Attack,
    AttackReport,
    Estimate,
    LossThreshold,
    MemberScores,
    Predictions,
    SVCAttack,
    Views,
    judge,
    make_report,
    run_attack,
)
from tests.unit.evaluation.worlds import permuted, predictions, reference, world

NAMES = list(ATTACKS)


def attacked(name: str, views: Views, **options: object) -> AttackReport:
    return run_attack(name, views, [reference(views)], resamples=200, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
def test_exchangeable_members_give_an_auc_of_one_half(name: str) -> None:
    found = attacked(name, world(forget=1.0, retain=1.5))
    assert found.auc.low <= 0.5 <= found.auc.high
    assert found.verdict in ("not detected", "inconclusive")


@pytest.mark.parametrize("name", [name for name in NAMES if name != "svc-correctness"])
def test_a_memoriser_is_detected(name: str) -> None:
    found = attacked(name, world(forget=14.0, retain=14.0, unseen=0.0))
    assert found.auc.value > 0.95
    assert found.balanced_accuracy.value > 0.9
    assert found.verdict == "detected"


def test_correctness_finds_a_memoriser_as_far_as_one_bit_can() -> None:
    views = world(forget=14.0, retain=14.0, unseen=0.0)
    wrong = float((views.test.classes != views.test.labels).double().mean())
    found = attacked("svc-correctness", views)
    assert found.verdict == "detected"
    assert found.auc.value == pytest.approx(0.5 + wrong / 2, abs=0.02)


@pytest.mark.parametrize("name", ["loss", "svc-confidence", "rmia"])
def test_avoided_data_are_over_forgotten(name: str) -> None:
    found = attacked(name, world(forget=-3.0, retain=3.0))
    assert found.auc.high < 0.5
    assert found.verdict == "over-forgotten"


@pytest.mark.parametrize("name", NAMES)
def test_order_does_not_matter(name: str) -> None:
    views = world(forget=2.0, retain=3.0, size=300)
    views = Views(views.forget, views.test, views.retain.take(range(300)), views.val)  # type: ignore[union-attr]
    other = reference(views)
    order = np.random.default_rng(1).permutation(len(views.forget.labels))
    mixed, mixed_other = (
        Views(v.forget.take(order), v.test, v.retain, v.val) for v in (views, other)
    )
    first = ATTACKS[name].score(views, [other]).forget
    second = ATTACKS[name].score(mixed, [mixed_other]).forget
    np.testing.assert_allclose(second, first[order], atol=1e-9)


def test_the_report_does_not_depend_on_the_order_of_scores() -> None:
    random = np.random.default_rng(0)
    a, b = random.normal(1, 1, 50), random.normal(0, 1, 120)
    first = make_report("x", MemberScores(a, b, 0.0))
    second = make_report("x", MemberScores(a[::-1], b[::-1], 0.0))
    assert (first.auc.value, first.tpr[0.01].value) == (second.auc.value, second.tpr[0.01].value)
    assert first.balanced_accuracy.value == second.balanced_accuracy.value


def test_constant_scores_are_inconclusive_at_one_half() -> None:
    found = make_report("x", MemberScores(np.ones(200), np.ones(200)))
    assert found.auc == (0.5, 0.5, 0.5)
    assert found.balanced_accuracy.value == 0.5
    assert found.verdict == "inconclusive"


def test_one_example_is_inconclusive() -> None:
    found = make_report("x", MemberScores(np.ones(1), np.zeros(1)))
    assert found.auc == (1.0, 0.0, 1.0)
    assert math.isnan(found.balanced_accuracy.value)
    assert found.verdict == "inconclusive"


def test_too_few_examples_for_an_fpr_are_counted_out() -> None:
    found = make_report("x", MemberScores(np.arange(9.0), np.arange(100.0)))
    assert not math.isnan(found.tpr[0.01].value)
    assert math.isnan(found.tpr[0.001].value)
    assert "at least 1000 test examples; there are 100" in found.reason
    assert "tpr_at_0.001" not in found.as_dict()
    assert found.as_dict()["n_test"] == 100


@pytest.mark.parametrize("missing", ["forget", "test"])
def test_one_kind_of_example_is_refused(missing: str) -> None:
    scores = {"forget": np.ones(3), "test": np.ones(3)} | {missing: np.ones(0)}
    with pytest.raises(InvalidInput, match="non-empty"):
        make_report("x", MemberScores(**scores))


@pytest.mark.parametrize("options", [{"level": 1.0}, {"resamples": 0}])
def test_impossible_intervals_are_refused(options: dict[str, float]) -> None:
    scores = MemberScores(np.ones(3), np.ones(3))
    with pytest.raises(InvalidInput, match="|".join(options)):
        make_report("x", scores, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("area", "tpr", "verdict"),
    [
        (Estimate(0.6, 0.55, 0.65), 0.01, "detected"),
        (Estimate(0.5, 0.48, 0.52), 0.05, "detected"),
        (Estimate(0.5, 0.48, 0.52), 0.01, "not detected"),
        (Estimate(0.5, 0.3, 0.7), 0.01, "inconclusive"),
        (Estimate(0.4, 0.35, 0.45), 0.01, "over-forgotten"),
    ],
)
def test_verdicts(area: Estimate, tpr: float, verdict: str) -> None:
    assert judge(area, {0.01: Estimate(tpr, tpr, tpr)}, 10, 10)[0] == verdict


def test_a_few_that_stand_out_are_detected_at_a_low_fpr() -> None:
    random = np.random.default_rng(0)
    forget = np.r_[random.normal(0, 1, 950), np.full(50, 9.0)]
    found = make_report("x", MemberScores(forget, random.normal(0.05, 1, 2000)))
    assert found.auc.low < 0.5
    assert found.verdict == "detected"
    assert found.tpr[0.001].value == pytest.approx(0.05, abs=0.01)


def test_without_val_the_test_examples_learned_from_are_not_scored() -> None:
    views = world(forget=1.0, val=False, size=101)
    assert len(SVCAttack("entropy").score(views).test) == 50
    with pytest.raises(InvalidInput, match="at least 2 test"):
        SVCAttack().score(Views(views.forget, views.test.take([0]), views.retain))


def test_the_loss_threshold_is_the_mean_loss_of_retained_data() -> None:
    views = world(forget=1.0)
    expected = torch.nn.functional.cross_entropy(*views.split("retain"))
    assert LossThreshold().score(views).threshold == pytest.approx(-float(expected), rel=1e-5)
    assert LossThreshold().score(Views(views.forget, views.test)).threshold is None


def test_rmia_is_its_formula() -> None:
    views = world(forget=2.0, size=40)
    others = [reference(views, seed) for seed in (5, 6, 7)]
    attack = RMIA(a=0.4, gamma=1.3)

    def ratio(split: str, i: int) -> float:
        def sure(model: Views) -> float:
            part = model.split(split)
            return float(part.logits[i].double().softmax(0)[part.labels[i]])

        out = sum(sure(model) for model in others) / 3
        return sure(views) / (0.5 * ((1 + 0.4) * out + (1 - 0.4)))

    population = [ratio("val", j) for j in range(40)]
    for split in ("forget", "test"):
        found = getattr(attack.score(views, others), split)
        for i in range(len(found)):
            share = np.mean([ratio(split, i) / z >= 1.3 for z in population])
            assert found[i] == pytest.approx(share)


def test_rmia_corrects_for_how_hard_an_example_is() -> None:
    """A memorised hard example is as sure as an easy one: the loss cannot tell, RMIA can."""
    easy, hard = predictions(600, 0, margin=8.0), predictions(300, 1, margin=-2.0)
    noise = torch.randn(300, 5, generator=torch.Generator().manual_seed(0))
    memorised = Predictions(noise + 8.0 * torch.nn.functional.one_hot(hard.labels, 5), hard.labels)
    target = Views(memorised, easy.take(range(300)), val=easy.take(range(300, 600)))
    other = Views(hard, easy.take(range(300)), val=easy.take(range(300, 600)))
    with_reference = run_attack("rmia", target, [other], resamples=100)
    without = run_attack("loss", target, resamples=100)
    assert with_reference.auc.value > 0.9 > without.auc.value


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: RMIA(a=1.2), "in \\[0, 1\\]"),
        (lambda: RMIA(gamma=0.5), "at least 1"),
        (lambda: RMIA().score(world(forget=1.0, size=20)), "1 to 4 reference models"),
        (lambda: SVCAttack("entropi"), "Did you mean 'entropy'"),
        (lambda: run_attack("los", world(forget=1.0, size=20)), "Did you mean 'loss'"),
        (lambda: SVCAttack().score(Views(predictions(9, 0), predictions(9, 1))), "retain set"),
    ],
)
def test_wrong_use_is_refused(make: object, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        make()  # type: ignore[operator]


def test_rmia_refuses_references_on_other_examples() -> None:
    views = world(forget=1.0, size=40)
    other = reference(views)
    other = Views(permuted(other.forget, 0), other.test, other.retain, other.val)
    with pytest.raises(InvalidInput, match="same examples"):
        RMIA().score(views, [other])


def test_every_registered_attack_is_an_attack() -> None:
    assert all(isinstance(ATTACKS[name], Attack) for name in ATTACKS)
