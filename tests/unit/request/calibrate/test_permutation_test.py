"""The permutation test: statistics as defined, and the level of the joint test."""

from __future__ import annotations

import numpy as np
import pytest

from expunge.request.calibrate._permutation_test import (
    PooledExamples,
    auc_and_ks,
    mean_difference,
    permutation_test,
)


def literal(scores: np.ndarray, pooled: PooledExamples) -> tuple[float, float, float]:
    """Mean difference, AUC and KS, pair by pair and threshold by threshold."""
    inside = [i for i in range(len(scores)) if pooled.forget[i]]
    outside = [j for j in range(len(scores)) if not pooled.forget[j]]
    labels = pooled.labels

    def weight(j: int) -> float:
        share = sum(labels[i] == labels[j] for i in inside) / len(inside)
        return share / sum(labels[k] == labels[j] for k in outside)

    area = sum(
        weight(j) / len(inside) * ((scores[i] > scores[j]) + 0.5 * (scores[i] == scores[j]))
        for i in inside
        for j in outside
    )
    mean = sum(scores[i] for i in inside) / len(inside) - sum(
        weight(j) * scores[j] for j in outside
    )
    distance = max(
        abs(
            sum(scores[i] <= u for i in inside) / len(inside)
            - sum(weight(j) for j in outside if scores[j] <= u)
        )
        for u in scores
    )
    return mean, float(area), distance


@pytest.mark.parametrize("tied", [False, True])
def test_statistics_match_the_definitions(tied: bool) -> None:
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, 40)
    pooled = PooledExamples(labels, random.random(40) < 0.4)
    scores = random.integers(0, 5, 40).astype(float) if tied else random.normal(size=40)
    rows = np.concatenate([pooled.forget[None], pooled.shuffles(3, seed=1)])
    weights = pooled.weights
    means, (areas, distances) = (
        mean_difference(scores)(rows, weights),
        auc_and_ks(scores)(rows, weights),
    )
    for k, row in enumerate(rows):
        expected = literal(scores, PooledExamples(labels, row))
        assert (means[0, k], areas[k], distances[k]) == pytest.approx(expected, abs=1e-12)


def test_shuffles_keep_the_number_of_each_class() -> None:
    labels = np.array([0, 0, 0, 1, 1, 1, 1])
    forget = np.array([True, False, False, True, True, False, False])
    for row in PooledExamples(labels, forget).shuffles(50, seed=0):
        assert row[labels == 0].sum() == 1
        assert row[labels == 1].sum() == 2


def test_joint_test_passes_exchangeable_data_as_often_as_its_level() -> None:
    random = np.random.default_rng(3)
    passed = []
    for trial in range(200):
        labels = np.repeat([0, 1], 30)
        pooled = PooledExamples(labels, np.tile(np.arange(30) < 10, 2))
        first, second = random.normal(size=60) + labels, random.normal(size=60)
        statistics = {
            ("mean",): mean_difference(first),
            ("auc_a", "ks_a"): auc_and_ks(first),
            ("auc_b", "ks_b"): auc_and_ks(second),
        }
        centres = {"mean": 0.0, "auc_a": 0.5, "auc_b": 0.5}
        _, largest = permutation_test(
            pooled, statistics, centres, level=0.8, shuffles=99, seed=trial
        )
        passed.append(largest <= 1.0)
    assert 0.72 <= np.mean(passed) <= 0.88
