"""Two processes do what one does on the same global batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from torch import Tensor
from torch.nn.functional import cross_entropy

import expunge
from expunge import AdamMoments, Batch, Bernoulli, Focus, MinAbs, Prob, Problem, SampleMoments, Term
from expunge.methods import NegGradPlus
from tests.team import Team
from tests.team_runs import outcome
from tests.tiny import points

METHODS = ["SRL", "NGPlus", "SCRUB"]
WHOLE_SPLITS: dict[str, dict[str, Any]] = {
    "MATCH": {"method": "match-unseen"},
}
"""Methods that look at whole splits, each with options that make it quick."""
ADDONS: dict[str, Any] = {
    "none": "none",
    "focus": "focus",
    "published": Focus(moments=expunge.PublishedMoments()),
    "prob": Prob(p=0.4, moments=AdamMoments(decay=0.9)),
    "and": "and",
    "bernoulli": Bernoulli(moments=AdamMoments(decay=0.9)),
    "saliency": "saliency",
}
OTHERS: dict[str, dict[str, Any]] = {
    "min-abs": {"aggregate": MinAbs()},
    "strict": {"addon": "prob", "strict": True},
    "one gradient": {"method": "fine-tune", "addon": "saliency"},
    "no data in the objective": {"method": "l1-sparse", "addon": "focus"},
    "weights noised before": {"method": "mask-small-gradients", "addon": "none"},
    "retrain": {"method": "retrain", "addon": "none", "lr": 0.1, "batch_size": 7},
    "refresh": {"method": "refresh", "addon": "none", "batch_size": 7},
    "retain-only": {"batchnorm": "retain-only"},
    "frozen": {"batchnorm": "frozen"},
    "batches of every size": {"batch_size": 13},
    "several epochs": {"epochs": 3},
}
TOKENS: dict[str, dict[str, Any]] = {
    "GradDiff": {"method": "gradient-difference", "addon": "saliency"},
    "a loss of one's own": {"method": "neg-grad-plus", "loss": expunge.methods.next_token_loss},
    "NPO": {"method": expunge.methods.NPO(retain="kl"), "micro_batches": 2},
    "CE-U": {"method": expunge.methods.CEU(skip=1)},
}
SAMPLES: dict[str, dict[str, Any]] = {
    "two": {"addon": Focus(moments=SampleMoments(2))},
    "four": {"addon": Focus(moments=SampleMoments(4))},
    "by size": {"addon": Focus(moments=SampleMoments(4)), "micro_batches": 2},
    "scrub": {"addon": Prob(moments=SampleMoments(4)), "method": "SCRUB"},
    "six": {"addon": Focus(moments=SampleMoments(6)), "batch_size": 10},
}


class ByTarget(NegGradPlus):
    """Means over the examples of some labels only, as a token loss is over some tokens."""

    def objective(self, problem: Problem, forget: Batch, retain: Batch) -> Term:
        return Term(-self._loss(problem, forget))

    def constraint(self, problem: Problem, forget: Batch, retain: Batch) -> Tensor:
        return self._loss(problem, retain)

    def _loss(self, problem: Problem, batch: Batch) -> Tensor:
        losses = cross_entropy(problem.logits(batch), batch.targets, reduction="none")
        return (losses * (batch.targets > 0)).sum() / self.size("", batch)

    def size(self, name: str, batch: Batch) -> float:
        return float((batch.targets > 0).sum())


def assert_alike(team: Team, kind: str, options: dict[str, Any]) -> None:
    alone = outcome(kind, None, options)
    first, *others = team(outcome, kind, "auto", options)
    assert all(other["text"] == first["text"] for other in others)
    assert first["classes"] == alone["classes"]
    for name, values in alone["model"].items():
        for other in others:
            assert np.array_equal(first["model"][name], other["model"][name]), name
        np.testing.assert_allclose(first["model"][name], values, rtol=2e-4, atol=2e-6, err_msg=name)
    for one, two in zip(alone["history"]["epochs"], first["history"]["epochs"], strict=True):
        assert one.keys() == two.keys()
        for name in ("objective", "constraint", "norm", "cosine"):
            assert two[name] == pytest.approx(one[name], rel=2e-4, abs=2e-6, nan_ok=True), name


@pytest.mark.parametrize("kind", ["plain", "batchnorm"])
@pytest.mark.parametrize("addon", ADDONS)
@pytest.mark.parametrize("method", METHODS)
def test_two_processes_equal_one(pair: Team, method: str, addon: str, kind: str) -> None:
    assert_alike(pair, kind, {"method": method, "addon": ADDONS[addon]})


@pytest.mark.parametrize("kind", ["plain", "batchnorm"])
@pytest.mark.parametrize("name", WHOLE_SPLITS)
def test_methods_that_look_at_whole_splits(pair: Team, name: str, kind: str) -> None:
    """Two epochs, so that what is refreshed between them is, and uneven micro-batches."""
    options = {"epochs": 2, "addon": "saliency", "micro_batches": 2, "batchnorm": "frozen"}
    assert_alike(pair, kind, WHOLE_SPLITS[name] | options)


@pytest.mark.parametrize("name", WHOLE_SPLITS)
def test_processes_take_turns_at_a_large_split(pair: Team, name: str) -> None:
    """Splits of more than the 250 examples predicted at a time."""
    data = {"forget": points(300, seed=1), "unseen": points(510, seed=3)}
    assert_alike(pair, "plain", WHOLE_SPLITS[name] | data | {"epochs": 4, "batch_size": 100})


@pytest.mark.parametrize("kind", ["plain", "batchnorm"])
@pytest.mark.parametrize("name", OTHERS)
def test_whatever_the_setting(pair: Team, name: str, kind: str) -> None:
    assert_alike(pair, kind, OTHERS[name])


@pytest.mark.parametrize("name", SAMPLES)
def test_variances_of_micro_batches_combine_over_processes(pair: Team, name: str) -> None:
    assert_alike(pair, "plain", SAMPLES[name])


@pytest.mark.parametrize("name", TOKENS)
def test_token_losses_count_by_tokens_or_by_sequences(pair: Team, name: str) -> None:
    assert_alike(pair, "tokens", {"aggregate": expunge.WeightedSum(0.5, 0.5)} | TOKENS[name])


def test_a_mean_over_something_else_than_examples(pair: Team) -> None:
    assert_alike(pair, "plain", {"method": ByTarget()})


def test_micro_batches_of_all_processes_count_by_their_size(pair: Team) -> None:
    assert_alike(pair, "plain", {"micro_batches": 2, "addon": "saliency"})


@pytest.mark.parametrize("micro_batches", [2, 3])
def test_uneven_micro_batches_of_uneven_shares(pair: Team, micro_batches: int) -> None:
    options = {"micro_batches": micro_batches, "batch_size": 13, "batchnorm": "frozen"}
    assert_alike(pair, "batchnorm", options)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["plain", "batchnorm"])
def test_three_processes_equal_one(trio: Team, method: str, kind: str) -> None:
    """Batches of 8 and 5: shares of 3, 3 and 2, then of 2, 2 and 1."""
    assert_alike(trio, kind, {"method": method, "epochs": 2})


def test_three_processes_sample_their_variances(trio: Team) -> None:
    options = {"addon": Focus(moments=SampleMoments(6)), "batch_size": 7}
    assert_alike(trio, "plain", options)


def test_augmentation_is_that_of_the_global_batch(pair: Team) -> None:
    assert_alike(pair, "batchnorm", {"augment": expunge.Augment(padding=1)})
