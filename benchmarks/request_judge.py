"""Judge models by ones that were retrained without the records, and shadow attacks on them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.special import ndtri
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

from expunge.engine._predict import Predictions, predict
from expunge.evaluation.attacks._lira import scaled_confidence

Array = np.ndarray[Any, Any]
Row = dict[str, Any]
ATTACKS = ("loss", "entropy")
MARGINS = {"auc_loss": 0.05, "auc_entropy": 0.05, "test": 2.0, "class": 5.0}
"""How far from the retrained model a model that forgot may be: those of requests of any size."""


@dataclass(frozen=True, eq=False)
class Outputs:
    """A model's predictions on the forgotten records and on test data."""

    forget: Predictions
    test: Predictions

    @staticmethod
    def of(model: nn.Module, forget: TensorDataset, test: TensorDataset) -> Outputs:
        """One pass over both."""
        return Outputs(predict(model, forget), predict(model, test))

    @property
    def confidence(self) -> list[float]:
        """The scaled confidence in the label of every forgotten record, for U-LiRA."""
        found = scaled_confidence(self.forget.logits, self.forget.labels)
        return [round(float(value), 2) for value in found]


def compare(given: Outputs, ideal: Outputs, kept: Tensor) -> Row:
    """A model beside a retrained one. In points, but for AUC and KL.

    ``*_diff`` are differences to the retrained model, and ``*_error`` their standard errors, paired
    over the same examples. ``kept`` are the classes of which something is retained: test accuracy
    and classes are theirs. Attacks are class-matched: forgotten records against test records of
    their class.
    """
    own, others = (_of(each.test, kept) for each in (given, ideal))
    row: Row = {"ua": _accuracy(given.forget), "ta": _accuracy(own)}
    row["ua_diff"], row["ua_error"] = _paired(given.forget, ideal.forget)
    row["ta_diff"], row["ta_error"] = _paired(own, others)
    for name in ATTACKS:
        first, second = (Placements.of(each, name) for each in (given, ideal))
        row[f"auc_{name}"] = first.auc
        row[f"auc_{name}_diff"], row[f"auc_{name}_error"] = first.minus(second)
    of_class = [
        _paired(own, others, own.labels == c) for c in kept if bool((own.labels == c).any())
    ]
    row["class_diff"], row["class_error"] = ([round(x, 2) for x in c] for c in zip(*of_class))  # noqa: B905
    logs = [F.log_softmax(each.forget.logits.double(), dim=1) for each in (given, ideal)]
    row["kl"] = float(F.kl_div(*logs, log_target=True, reduction="batchmean"))
    return {name: round(v, 4) if isinstance(v, float) else v for name, v in row.items()}


def differences_of(row: Row) -> list[tuple[str, float, float]]:
    """Name, size and standard error of every difference that may lie beyond a margin.

    Attacks count either way, accuracy on test data and in classes if it is lower. Accuracy on the
    records does not count: a model that is better than the retrained one is better on them as well.
    """
    found = [(f"auc_{a}", abs(row[f"auc_{a}_diff"]), row[f"auc_{a}_error"]) for a in ATTACKS]
    found.append(("test", -row["ta_diff"], row["ta_error"]))
    classes = zip(row["class_diff"], row["class_error"], strict=True)
    return [*found, *(("class", -difference, error) for difference, error in classes)]


def beyond_margins(row: Row, floor: Mapping[str, float] | None = None) -> list[str]:
    """What is farther from the retrained model than :data:`MARGINS`, and not by chance.

    The paired 95 % interval of the difference has no 0 in it: another sample of test data would
    show it, too. Another *training* may not. With a ``floor``, the root mean square of the same
    difference between two retrained models, it also has to be larger than those would show in 95 of
    100 comparisons, all differences at both moments together.
    """
    differences = differences_of(row)
    times = float(ndtri(1.0 - 0.05 / (2 * len(differences))))
    return sorted(
        {
            name
            for name, value, error in differences
            if value > max(MARGINS[name], 1.96 * error, times * (floor or {}).get(name, 0.0))
        }
    )


def floor_of(rows: Sequence[Row]) -> dict[str, float]:
    """The root mean square of every difference, over pairs of retrained models."""
    found: dict[str, list[float]] = {}
    for row in rows:
        for name, value, _ in differences_of(row):
            found.setdefault(name, []).append(value)
    return {name: float(np.sqrt(np.mean(np.square(v)))) for name, v in found.items()}


@dataclass(frozen=True, eq=False)
class Placements:
    """For every record, the share of test records of its class with a lower score; and conversely.

    Their means are the AUC, their spread gives the error of a difference (DeLong et al., 1988).
    """

    of_records: Array
    of_test: Array
    test_labels: Array
    shares: dict[int, float]
    """Of every forgotten class that test has, its share of the forgotten records."""

    @staticmethod
    def of(outputs: Outputs, attack: str) -> Placements:
        """Of minus the loss, or minus the entropy: higher for members."""
        members, others = (_score(p, attack) for p in (outputs.forget, outputs.test))
        labels, other_labels = outputs.forget.labels.numpy(), outputs.test.labels.numpy()
        of_records, of_test = np.full(len(members), np.nan), np.full(len(others), np.nan)
        shares: dict[int, float] = {}
        for label in np.unique(labels):
            here, there = labels == label, other_labels == label
            if there.any():
                pairs = members[here][:, None], others[there][None]
                higher = (pairs[0] > pairs[1]) + 0.5 * (pairs[0] == pairs[1])
                of_records[here], of_test[there] = higher.mean(axis=1), higher.mean(axis=0)
                shares[int(label)] = float(here.mean())
        return Placements(of_records, of_test, other_labels, shares)

    @property
    def auc(self) -> float:
        """P(a record scores higher than a test record of its class), by the records' class mix."""
        return float(np.nanmean(self.of_records))

    def minus(self, other: Placements) -> tuple[float, float]:
        """The difference of two AUCs on the same examples, and its standard error."""
        records = self.of_records - other.of_records
        variance = np.nanvar(records, ddof=1) / len(records)
        for label, share in self.shares.items():
            test = (self.of_test - other.of_test)[self.test_labels == label]
            variance += share**2 * test.var(ddof=1) / len(test)
        return float(np.nanmean(records)), math.sqrt(variance)


def u_lira(members: Sequence[Sequence[float]], others: Sequence[Sequence[float]]) -> Row:
    """U-LiRA on confidences [models, records], every model judged by the others.

    ``members`` are of models that were made to forget the records, ``others`` of models that never
    saw them and went through the same. One Gaussian per record and world, with a variance that all
    records share. Returns the AUC, and the true positives at 1 % false positives in percent.
    """
    worlds = np.array(members), np.array(others)
    scores: tuple[list[Array], list[Array]] = ([], [])
    for own, models in enumerate(worlds):
        for target in range(len(models)):
            groups = [np.delete(w, target % len(w), axis=0) for w in worlds]  # as many of either
            likelihoods = []
            for group in groups:
                mean, count = group.mean(axis=0), len(group)
                spread = np.square(group - mean).sum() / (mean.size * (count - 1))
                spread *= 1 + 1 / count  # the mean is an estimate, too
                likelihoods.append(-np.square(models[target] - mean) / spread - np.log(spread))
            scores[own].append(likelihoods[0] - likelihoods[1])
    found, false = (np.sort(np.concatenate(each)) for each in scores)
    below = np.searchsorted(false, found) + np.searchsorted(false, found, side="right")
    threshold = np.quantile(false, 0.99)
    return {
        "u_lira": float(below.mean() / (2 * len(false))),
        "u_lira_tpr": 100 * float((found > threshold).mean()),
    }


def _score(predictions: Predictions, attack: str) -> Array:
    log_p = F.log_softmax(predictions.logits.double(), dim=1)
    if attack == "loss":
        return log_p.gather(1, predictions.labels[:, None])[:, 0].numpy()
    return (log_p.exp() * log_p).sum(dim=1).numpy()


def _of(predictions: Predictions, classes: Tensor) -> Predictions:
    return predictions.take(torch.isin(predictions.labels, classes).nonzero()[:, 0])


def _accuracy(predictions: Predictions) -> float:
    return 100 * float(predictions.right.double().mean())


def _paired(
    given: Predictions, ideal: Predictions, chosen: Tensor | None = None
) -> tuple[float, float]:
    """The difference of two accuracies on the same examples, and its standard error."""
    difference = 100 * (given.right.double() - ideal.right.double())
    difference = difference if chosen is None else difference[chosen]
    size = len(difference)
    spread = float(difference.square().mean() - difference.mean().square())
    return float(difference.mean()), math.sqrt(max(spread, 0.0) / max(size, 1))
