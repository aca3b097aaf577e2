"""LiRA's scores, its proof, and a leak that only it can see."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import norm

from expunge._errors import InvalidInput
from expunge.evaluation import MemberScores, make_report
from expunge.evaluation.attacks._lira import (
    INCONCLUSIVE,
    ShadowScores,
    lira,
    scaled_confidence,
    ulira,
)
from expunge.evaluation.attacks._shadow_models import Shadows


def world(
    *,
    examples: int = 400,
    shadows: int = 32,
    shift: float = 1.5,
    left: float = 1.5,
    seed: int = 0,
) -> tuple[Shadows, np.ndarray, np.ndarray, np.ndarray]:
    """Examples that differ much in difficulty and, if seen, by a little in confidence.

    ``shift`` is what training adds, ``left`` what unlearning leaves of it. Returns the shadows and
    the confidences under the unlearned, the initial and the ideal model; the first half of the
    examples is the forget set.
    """
    random = np.random.default_rng(seed)
    difficulty = random.normal(0.0, 40.0, examples)
    seen = np.zeros((shadows, examples), dtype=bool)
    for k in range(0, shadows, 2):
        seen[k] = random.permutation(examples) < examples // 2
        seen[k + 1] = ~seen[k]

    def draw(members: np.ndarray, gain: float) -> np.ndarray:
        return difficulty + gain * members + random.normal(0.0, 0.5, members.shape)

    member = np.arange(examples) < examples // 2
    scores = Shadows(ShadowScores(draw(seen, shift), seen), ShadowScores(draw(seen, left), seen))
    return scores, draw(member, left), draw(member, shift), draw(np.zeros_like(member), 0.0)


def test_scaled_confidence_is_the_log_odds_of_the_true_label() -> None:
    logits = torch.randn(50, 7, dtype=torch.float64)
    labels = torch.randint(7, (50,))
    p = logits.softmax(1).gather(1, labels[:, None]).squeeze(1)
    assert np.allclose(scaled_confidence(logits, labels), torch.logit(p).numpy())


def test_scaled_confidence_stays_finite_where_the_softmax_saturates() -> None:
    value = scaled_confidence(torch.tensor([[500.0, 0.0, -1.0]]), torch.tensor([0]))
    assert math.isfinite(value[0])
    assert value[0] == pytest.approx(500.0 - math.log(1 + math.exp(-1)))


def test_online_scores_are_the_literal_log_likelihood_ratio() -> None:
    shadows, target, _, _ = world(examples=20, shadows=40)
    worlds = shadows.unlearned
    for i, found in enumerate(lira(target, worlds)):
        inside = worlds.confidence[worlds.seen[:, i], i]
        outside = worlds.confidence[~worlds.seen[:, i], i]
        expected = norm.logpdf(target[i], inside.mean(), inside.std(ddof=1)) - norm.logpdf(
            target[i], outside.mean(), outside.std(ddof=1)
        )
        assert found == pytest.approx(expected)


def test_few_shadows_share_one_variance() -> None:
    shadows, _, _, _ = world(examples=30, shadows=8)
    _, std = shadows.unlearned.world(seen=True)
    assert len(set(std)) == 1


def test_a_leak_that_population_attacks_miss_is_caught() -> None:
    shadows, target, initial, ideal = world()
    half = len(target) // 2
    population = make_report("loss", MemberScores(target[:half], target[half:]))
    found = ulira(shadows, forgotten=half, unlearned=target, initial=initial, ideal=ideal)
    assert population.verdict != "detected"
    assert found.verdict == "detected"
    assert found.report.auc.value > 0.9
    assert not found.doubts


def test_perfect_unlearning_is_not_detected() -> None:
    shadows, target, initial, ideal = world(examples=2000, left=0.0, seed=3)
    found = ulira(
        shadows,
        forgotten=1000,
        unlearned=target,
        initial=initial,
        ideal=ideal,
    )
    assert found.initial is not None
    assert found.initial.verdict == "detected"
    assert found.verdict == "not detected"


def test_an_attack_that_finds_no_members_of_the_initial_model_is_inconclusive() -> None:
    shadows, target, _, ideal = world(shift=0.0, left=0.0)
    found = ulira(shadows, forgotten=200, unlearned=target, initial=ideal, ideal=ideal)
    assert found.verdict == "inconclusive"
    assert found.reason.startswith(INCONCLUSIVE)
    assert found.doubts


def test_an_attack_that_accuses_the_ideal_model_is_inconclusive() -> None:
    shadows, target, initial, _ = world()
    found = ulira(shadows, forgotten=200, unlearned=target, initial=initial, ideal=initial)
    assert found.verdict == "inconclusive"
    assert "ideal model" in found.reason


def test_without_known_models_nothing_is_proven() -> None:
    shadows, target, _, _ = world()
    found = ulira(shadows, forgotten=200, unlearned=target)
    assert found.verdict == "inconclusive"
    assert len(found.doubts) == 2


def test_scores_do_not_depend_on_the_order_of_shadows_or_examples() -> None:
    shadows, target, _, _ = world(examples=40)
    worlds = shadows.unlearned
    random = np.random.default_rng(1)
    a, b = random.permutation(len(worlds.seen)), random.permutation(len(target))
    mixed = ShadowScores(worlds.confidence[a][:, b], worlds.seen[a][:, b])
    assert np.allclose(lira(target[b], mixed), lira(target, worlds)[b])


def test_an_example_that_every_shadow_saw_is_refused() -> None:
    confidence = np.zeros((4, 2))
    with pytest.raises(InvalidInput, match="never saw it"):
        lira(np.zeros(2), ShadowScores(confidence, np.ones((4, 2), dtype=bool)))


def test_confidences_that_are_not_finite_are_refused() -> None:
    with pytest.raises(InvalidInput, match="finite"):
        ShadowScores(np.full((4, 2), np.nan), np.ones((4, 2), dtype=bool))
