"""Judge an unlearned model by one that was retrained, which the request never saw."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from expunge.data import ImageSet
from expunge.evaluation import Predictions, predict
from expunge.evaluation._scores import accuracy

SIGMAS = 3.0
"""Farther from the ideal than so many standard errors is not "like a model that never saw it"."""
CLASS_POINTS = 3.0
"""A class that lost more than this beyond the ideal, and beyond chance, is broken."""


@dataclass(frozen=True, eq=False)
class Outputs:
    """A model's predictions on the forgotten records and on test data."""

    forget: Predictions
    test: Predictions

    @staticmethod
    def of(model: nn.Module, forget: ImageSet, test: ImageSet) -> Outputs:
        """One pass over both."""
        return Outputs(predict(model, forget), predict(model, test))


def judge(before: Outputs, after: Outputs, ideal: Outputs, kept_classes: Tensor) -> dict[str, Any]:
    """How far ``after`` is from ``ideal``, and what it lost against ``before``.

    ``ta`` and classes are those of which something is retained. ``auc_*`` and ``rmia`` are
    class-matched: forgotten records against test records of their class.
    """
    ua, ideal_ua = accuracy(after.forget), accuracy(ideal.forget)
    test = {name: _of(o.test, kept_classes) for name, o in _named(before, after, ideal)}
    classes = worst_class(test["before"], test["after"], test["ideal"], kept_classes)
    share = ideal_ua / 100.0
    error = 100.0 * math.sqrt(
        max(share * (1 - share), 0.25 / len(after.forget.labels)) / len(after.forget.labels)
    )
    lost_ta = accuracy(test["before"]) - accuracy(test["after"])
    after_f, ideal_f = _log_softmax(after.forget), _log_softmax(ideal.forget)
    scores = {name: _scores(o.forget) for name, o in (("after", after), ("ideal", ideal))}
    unseen = {name: _scores(o.test) for name, o in (("after", after), ("ideal", ideal))}
    labels = after.forget.labels, after.test.labels
    return {
        "ua": ua,
        "rua": ua - ideal_ua,
        "rua_error": error,
        "ta": accuracy(test["after"]),
        "ta_lost": lost_ta,
        **classes,
        "auc_loss": matched_auc(scores["after"]["loss"], unseen["after"]["loss"], *labels),
        "auc_entropy": matched_auc(scores["after"]["entropy"], unseen["after"]["entropy"], *labels),
        "rmia": matched_auc(
            scores["after"]["loss"] - scores["ideal"]["loss"],
            unseen["after"]["loss"] - unseen["ideal"]["loss"],
            *labels,
        ),
        "fid": 100.0 * float((after.forget.classes == ideal.forget.classes).double().mean()),
        "kl": float(F.kl_div(after_f, ideal_f, log_target=True, reduction="batchmean")),
        "like_the_ideal": abs(ua - ideal_ua) <= SIGMAS * math.sqrt(2.0) * error,
    }


def worst_class(
    before: Predictions, after: Predictions, ideal: Predictions, classes: Tensor
) -> dict[str, Any]:
    """The class that lost most test accuracy beyond what the ideal lost, and whether that is real.

    Broken: more than :data:`CLASS_POINTS`, and more than :data:`SIGMAS` standard errors of the
    paired difference between the two models.
    """
    worst, broken = -math.inf, False
    for label in classes.tolist():
        here = before.labels == label
        if not bool(here.any()):
            continue
        right = {
            name: (o.classes == label)[here].double()
            for name, o in (("before", before), ("after", after), ("ideal", ideal))
        }
        lost = float((right["before"] - right["after"]).mean())
        lost_by_ideal = max(float((right["before"] - right["ideal"]).mean()), 0.0)
        error = float((right["ideal"] - right["after"]).std()) / math.sqrt(int(here.sum()))
        beyond = lost - lost_by_ideal
        worst = max(worst, 100.0 * beyond)
        broken |= 100.0 * beyond > CLASS_POINTS and beyond > SIGMAS * error
    return {"worst_class": worst, "class_broken": broken}


def matched_auc(members: Tensor, others: Tensor, labels: Tensor, other_labels: Tensor) -> float:
    """P(member > other) + ½ P(equal) within classes, weighted by the members' class mix."""
    from scipy.stats import mannwhitneyu

    total, weight = 0.0, 0
    for label in torch.unique(labels).tolist():
        first, second = members[labels == label], others[other_labels == label]
        if len(second):
            statistic = mannwhitneyu(first.numpy(), second.numpy()).statistic
            total += float(statistic) / len(second)
            weight += len(first)
    return total / weight if weight else float("nan")


def _scores(predictions: Predictions) -> dict[str, Tensor]:
    """Scores that are higher for members: minus the loss, minus the entropy."""
    log_p = _log_softmax(predictions)
    own = log_p.gather(1, predictions.labels[:, None])[:, 0]
    return {"loss": own, "entropy": (log_p.exp() * log_p).sum(dim=1)}


def _log_softmax(predictions: Predictions) -> Tensor:
    return F.log_softmax(predictions.logits.double(), dim=1)


def _of(predictions: Predictions, classes: Tensor) -> Predictions:
    return predictions.take(torch.isin(predictions.labels, classes).nonzero()[:, 0])


def _named(*outputs: Outputs) -> list[tuple[str, Outputs]]:
    return list(zip(("before", "after", "ideal"), outputs, strict=True))


def summarise(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Means and worst values over requests."""

    def values(name: str) -> np.ndarray[Any, Any]:
        return np.array([row["after"][name] for row in rows], dtype=float)

    return {
        "requests": len(rows),
        "achieved": sum(row["status"] == "achieved" for row in rows),
        "inconclusive": sum(row["status"] == "inconclusive" for row in rows),
        "false": sum(row["false"] for row in rows),
        "mean |rUA|": float(np.abs(values("rua")).mean()),
        "worst |rUA|": float(np.abs(values("rua")).max()),
        "mean TA lost": float(values("ta_lost").mean()),
        "worst TA lost": float(values("ta_lost").max()),
        "worst class": float(values("worst_class").max()),
        "mean |AUC loss - 0.5|": float(np.abs(values("auc_loss") - 0.5).mean()),
        "mean |AUC entropy - 0.5|": float(np.abs(values("auc_entropy") - 0.5).mean()),
        "mean RMIA": float(values("rmia").mean()),
        "mean cost": float(np.mean([row["cost"] for row in rows])),
        "worst cost": float(np.max([row["cost"] for row in rows])),
    }
