"""The hardest images are those that a model which never saw them gets wrong."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from expunge._errors import InvalidInput
from expunge.data import HardestForget, ImageSet, divide, load, parse_scenario
from expunge.data._hardest import unseen_margins


def with_wrong_labels(count: int = 300, wrong: int = 15) -> tuple[ImageSet, set[int]]:
    """Digits of which some have the label of another class."""
    digits = load("digits", limit=count).train
    labels = digits.labels.clone()
    chosen = np.random.default_rng(0).choice(count, wrong, replace=False)
    labels[chosen] = (labels[chosen] + 5) % 10
    return ImageSet(digits.images, labels, digits.classes), set(chosen.tolist())


def test_wrong_labels_are_the_hardest_to_predict() -> None:
    images, wrong = with_wrong_labels()
    margins = unseen_margins(images)
    assert margins.shape == (300,)
    assert np.mean(margins[list(wrong)] < 0) > 0.8 > 0.3 > np.mean(margins < 0)
    found = set(HardestForget(0.1).pick(images, 0).forget.tolist())
    assert len(found) == 30
    assert len(found & wrong) >= 13


def test_a_margin_is_that_of_a_regression_on_the_other_half() -> None:
    """Written out for one image, by the normal equations of its half."""
    from expunge.data._hardest import _random_features

    images, _ = with_wrong_labels(60, 5)
    features, labels = _random_features(images, 3), images.labels.numpy()
    order = np.random.default_rng(3).permutation(60)
    asked, fitted = order[0], order[30:]
    x, targets = features[fitted], np.where(np.eye(10)[labels[fitted]] > 0, 1.0, -1.0)
    gram = x.T @ x
    penalty = 1e-3 * sum(gram[i, i] for i in range(len(gram))) / len(gram)
    solution = np.linalg.inv(gram + penalty * np.eye(len(gram))) @ x.T @ targets
    scores = (features[asked] @ solution).tolist()
    own = scores.pop(labels[asked])
    assert unseen_margins(images, 3)[asked] == pytest.approx(own - max(scores), abs=1e-6)


def test_the_scenario_reads_and_writes_itself_and_repeats() -> None:
    scenario = parse_scenario("hardest:0.2")
    assert scenario == HardestForget(0.2)
    assert str(scenario) == "hardest:0.2"
    splits = load("digits", limit=50)
    one, two = (divide(splits, "hardest:0.2", 1) for _ in range(2))
    assert torch.equal(one.forget.images, two.forget.images)
    assert (len(one.forget), len(one.retain)) == (10, 40)


@pytest.mark.parametrize("text", ["hardest:0", "hardest:1", "hardest:all", "hardest:"])
def test_a_share_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_scenario(text)
