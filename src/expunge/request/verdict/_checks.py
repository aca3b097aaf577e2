"""Judge a model by bounds on attacks and accuracy drops, against margins declared beforehand.

Every quantity has a one-sided 95 % bound on either side. A check is *inside* if both bounds lie
within its margin, *outside* if both lie beyond the same end of it, and *open* if an end of the
margin lies between them. A request is achieved if all of its checks are inside, as delivered and
after benign steps; it is not achieved if one is outside; else it is inconclusive. All bounds have
to lie inside, so none is corrected for their number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.special import ndtri
from torch import Tensor

from expunge._arrays import Array
from expunge.evaluation import (
    PAPER_FIVE,
    Estimate,
    FactScores,
    Predictions,
    TextPredictions,
    decisions,
    delong_interval,
    loss,
    sample,
)
from expunge.evidence import Check, CheckResult, Moment
from expunge.request._predictions import decimals_of
from expunge.request.verdict._measurements import RequestPredictions

ATTACK_LABELS = {
    "correctness": "guesses from whether the prediction is right",
    "confidence": "guesses from the probability of the label",
    "logits": "guesses from all outputs of the model",
    "entropy": "guesses from how sure the model is",
    "modified-entropy": "guesses from how sure the model is of the label",
    "loss": "guesses from the loss",
}
TEXT_ATTACK_LABELS = {
    "loss": "guesses from the probability of the answer",
    "zlib": "guesses from that, by how well the answer can be compressed",
    "min_k": "guesses from the least probable tokens of the answer",
    "min_k_plus_plus": "guesses from those, standardised over the vocabulary",
}
FACTS_LABEL = "guesses from the probability of the tokens that carry the fact"
Scored = tuple[Array, Array]
"""A number per record, and one per unseen example."""
LEVEL = 0.95
"""Of every one-sided bound."""
TWO_SIDED = 2.0 * LEVEL - 1.0
"""The level of an interval whose ends are both such bounds."""
Z = float(ndtri(LEVEL))
DELIVERED: Moment = "as delivered"
AFTER_BENIGN_STEPS: Moment = "after benign steps"
SAMPLED: Moment = "in sampled answers"
FACT_SCORES = ("facts", "facts_right")
MOST_RIGHT = 0.95
"""The largest accuracy that a margin counts on: one that is always right has no spread."""
CHANCES = 10
"""Independent ways in which a model that never saw the records can miss a margin by chance: two
sides of about five independent checks, among six attacks and an accuracy at two moments. Those of
texts under attack added none in ``benchmarks/text_margins.py``."""


@dataclass(frozen=True)
class Margins:
    """How far a model may be from one that never saw the records.

    ``auc`` is the largest AUC of an attack (1 - ``auc`` the smallest), ``records`` the points of
    accuracy between the records and unseen data of their classes, ``test`` and ``of_class`` the
    points of test accuracy that may be lost, over all classes and in one.

    The defaults are 0.55, 3, 2 and 5, or more where there are few examples: the smallest margins
    within which a model that was retrained without the records lies in 95 of 100 requests of that
    size, but at most 0.6, 20, 5 and 20. Two trained models are right on different test examples: on
    about a(1-a) of them one is right alone, a their accuracy (measured: 0.6 to 1.4 times that), and
    the accuracy of one training differs from that of the next as if it were taken from a sample of
    the size of the training set. Sizes and a decide, so that margins are known beforehand.
    """

    auc: float
    records: float
    test: float
    of_class: float

    @staticmethod
    def by_size(
        forget: int, unseen: int, test: Sequence[int], train: Sequence[int], accuracy: float = 0.5
    ) -> Margins:
        """The defaults for numbers of records to ``forget`` and of ``unseen`` examples of the same
        classes, and, per class, of ``test`` and of retained ``train`` examples; ``accuracy`` is
        that of the given model on val.

        >>> Margins.by_size(10_000, 10_000, [1000] * 10, [9000] * 10, accuracy=0.9)
        Margins(auc=0.55, records=3.0, test=2.0, of_class=5.0)
        >>> Margins.by_size(500, 10_000, [1000] * 10, [450] * 10, accuracy=0.65)
        Margins(auc=0.56, records=9.3, test=2.9, of_class=11.5)
        """
        reach = Z + float(ndtri(1.0 - (1.0 - LEVEL) / CHANCES))
        every_class = Z + float(ndtri(1.0 - (1.0 - LEVEL) / max(len(test), 1)))
        expected = min(max(accuracy, 1.0 - MOST_RIGHT), MOST_RIGHT)
        spread = expected * (1.0 - expected)
        pairs = 1.0 / max(forget, 1) + 1.0 / max(unseen, 1)
        sizes = [(max(t, 1), max(r, 1)) for t, r in zip(test, train, strict=True)] or [(1, 1)]
        of_class = max(1.0 / t + 1.0 / r for t, r in sizes)
        of_all = 1.0 / sum(t for t, _ in sizes) + 1.0 / sum(r for _, r in sizes)
        return Margins(
            auc=_between(0.55, 0.5 + reach * math.sqrt(pairs / 12.0), 0.6, 2),
            records=_between(3.0, 100.0 * reach * math.sqrt(spread * pairs), 20.0, 1),
            test=_between(2.0, 200.0 * Z * math.sqrt(spread * of_all), 5.0, 1),
            of_class=_between(5.0, 100.0 * every_class * math.sqrt(spread * of_class), 20.0, 1),
        )


def _between(least: float, value: float, most: float, digits: int) -> float:
    """``value`` rounded up, and kept between two limits."""
    rounded = math.ceil(round(value * 10**digits, 6)) / 10**digits
    return float(min(max(least, rounded), most))


def make_checks(
    before: RequestPredictions,
    after: RequestPredictions,
    later: RequestPredictions | None,
    classes: Sequence[str],
    margins: Margins,
    seed: int,
    retained: Tensor,
) -> list[Check]:
    """Every check of the model ``after``; ``later`` is the same model after benign steps.

    ``retained`` are the labels of all retained records.
    """
    checks = check_records(after, margins, DELIVERED, seed)
    if later is not None:
        checks += check_records(later, margins, AFTER_BENIGN_STEPS, seed)
    expected = expected_drops(before, retained)
    return checks + check_accuracy_drops(before, after, classes, margins, expected)


def check_records(
    predictions: RequestPredictions, margins: Margins, moment: Moment, seed: int
) -> list[Check]:
    """How well attacks tell the records from test data of their classes, and accuracy on both."""
    if not predictions.has_test_of_classes:
        return []
    forget, unseen = predictions.matched(seed)
    checks = [
        _attack(name, label, moment, pair, margins.auc)
        for name, label, pair in _attacks(predictions, seed)
    ]
    label = "accuracy on the records minus that on unseen data"
    right = forget.right.numpy(), unseen.right.numpy()
    checks.append(_difference("accuracy", label, moment, right, margins, texts=forget.of_texts))
    if isinstance(forget, TextPredictions) and isinstance(unseen, TextPredictions):
        known = {name: (forget.scores[name], unseen.scores[name]) for name in FACT_SCORES}
        checks += check_facts(known, margins, moment)
    return checks


def check_facts(scores: FactScores, margins: Margins, moment: Moment) -> list[Check]:
    """How well the tokens that carry facts tell the records, and how many of them are right."""
    checks = []
    if pair := scores.get("facts"):
        checks.append(_attack("facts", FACTS_LABEL, moment, pair, margins.auc))
    label = "accuracy on the tokens that carry the fact minus that on unseen data"
    if moment == SAMPLED:
        label = "facts in at least one of 16 answers minus those of unseen data"
    right = scores["facts_right"]
    return [*checks, _difference("facts", label, moment, right, margins, texts=True)]


def check_loss_attack(
    records: Predictions,
    model: RequestPredictions,
    moment: Moment,
    seed: int,
    margin: float | None = None,
) -> Check | None:
    """The loss attack on other records of a model; None if test has none of their classes.

    The ``margin`` is that of their number by default.
    """
    other = replace(model, forget=records)
    if not other.has_test_of_classes:
        return None
    forget, unseen = (-loss(part) for part in other.matched(seed))
    margin = margin or Margins.by_size(len(forget), len(unseen), [1], [1]).auc
    return _attack("loss", ATTACK_LABELS["loss"], moment, (forget, unseen), margin)


def check_accuracy_drops(
    before: RequestPredictions,
    after: RequestPredictions,
    classes: Sequence[str],
    margins: Margins,
    expected: Array,
) -> list[Check]:
    """What was lost on test data, over all classes and in each.

    ``expected`` is what a model trained without the records may lose in each class for having less
    data, in points; NaN for classes of which nothing is retained, which do not count.
    """
    old, new = before.test, after.test
    counted = [c for c in torch.unique(old.labels).tolist() if not math.isnan(expected[c])]
    everything = torch.isin(old.labels, torch.tensor(counted, dtype=old.labels.dtype))
    members = [("", everything, margins.test)]
    members += [(classes[c], old.labels == c, margins.of_class) for c in counted]
    checks = []
    for name, chosen, margin in members:
        lost = 100.0 * (old.right[chosen] - new.right[chosen]).numpy()
        allowed = margin + float(expected[old.labels[chosen].numpy()].mean())
        checks.append(
            _check(
                f"lost_{name}" if name else "lost",
                f"test accuracy lost in {name}" if name else "test accuracy lost",
                DELIVERED,
                "points",
                _mean_drop(lost),
                (-math.inf, allowed),
                len(lost),
            )
        )
    return checks


def expected_drops(before: RequestPredictions, retained: Tensor) -> Array:
    """What a model trained without the records may lose in each class, in points.

    The error e on val may grow as far as e/r, r the part of the class that is retained: the rate of
    learners that fit their data exactly. NaN where nothing is retained.
    """
    size = before.val.logits.shape[1]
    forgotten, kept = (
        np.bincount(labels.numpy(), minlength=size).astype(np.float64)
        for labels in (before.forget.labels, retained)
    )
    wrong = 1.0 - before.val.right.numpy()
    labels = before.val.labels.numpy()
    counts = np.bincount(labels, minlength=size)
    # Two pseudo-examples of the whole val set, so that a class of few borrows from the others.
    errors = (np.bincount(labels, wrong, minlength=size) + 2.0 * wrong.mean()) / (counts + 2.0)
    left = kept / np.maximum(kept + forgotten, 1.0)
    grown = np.minimum(errors / np.maximum(left, 1e-9), 1.0)
    result: Array = np.where(kept > 0, 100.0 * (grown - errors), np.nan)
    return np.where(forgotten > 0, result, np.where(kept > 0, 0.0, np.nan))


def _attacks(predictions: RequestPredictions, seed: int) -> list[tuple[str, str, Scored]]:
    """Name, label and scores of every attack; the paper's five learn from retained and val."""
    forget, unseen = predictions.matched(seed)
    scores: dict[str, Scored]
    if isinstance(forget, TextPredictions) and isinstance(unseen, TextPredictions):
        labels = TEXT_ATTACK_LABELS
        scores = {name: (forget.scores[name], unseen.scores[name]) for name in labels}
    else:
        labels = ATTACK_LABELS
        retain, val = predictions.retain, predictions.val
        size = min(len(retain.labels), len(val.labels))
        learn_from = sample(retain, size, seed), sample(val, size, seed)
        decided = decisions(PAPER_FIVE, *learn_from, [forget, unseen], quick=True, seed=seed)
        scores = {name: (pair[0], pair[1]) for name, pair in decided.items()}
        scores["loss"] = -loss(forget), -loss(unseen)
    return [(name.replace("-", "_"), label, scores[name]) for name, label in labels.items()]


def _attack(name: str, label: str, moment: Moment, pair: Scored, margin: float) -> Check:
    """The AUC of scores with its bounds."""
    estimate, limits = delong_interval(*pair, TWO_SIDED), (1.0 - margin, margin)
    return _check(f"auc_{name}", label, moment, "0 to 1", estimate, limits, len(pair[0]))


def _difference(
    name: str, label: str, moment: Moment, right: Scored, margins: Margins, *, texts: bool
) -> Check:
    """Accuracy on the records minus that on unseen data, with its bounds, in points.

    ``right`` says whether each example is right; of texts, which share of its tokens is. The
    interval is Agresti and Caffo's: two pseudo-examples on either side, one right and one wrong.
    """
    rates, spread = [], 0.0
    for each in right:
        size = len(each) + 2
        rate = (each.sum() + 1.0) / size
        variance = rate * (1.0 - rate) if not texts else each.var() + 1.0 / size
        spread += variance / size
        rates.append(rate)
    value = 100.0 * float(right[0].mean() - right[1].mean())
    centre, reach = 100.0 * (rates[0] - rates[1]), 100.0 * Z * math.sqrt(spread)
    estimate = Estimate(value, min(value, centre - reach), max(value, centre + reach))
    limits = -margins.records, margins.records
    return _check(name, label, moment, "points", estimate, limits, len(right[0]))


def _mean_drop(drops: Array) -> Estimate:
    """The mean of drops per example, in points, and its bounds; one lost is always possible."""
    size = len(drops)
    value = float(drops.mean())
    # One example lost and one gained are added, so that no difference at all is not certainty.
    spread = math.sqrt((float((drops**2).sum()) + 2.0 * 100.0**2) / (size + 2) - value**2)
    reach = Z * spread / math.sqrt(size + 2)
    return Estimate(value, value - reach, value + reach)


def check_decimals(unit: str, records: int) -> int:
    """To how many decimals the value and the bounds of a check are stated."""
    return decimals_of(records) if unit == "0 to 1" else 1


def without_unattainable(check: Check, trained: int) -> Check:
    """The check, not stating more needed records than half of the ``trained`` ones."""
    attainable = 2 * (check.needed or 0) <= trained
    return check if attainable else check.model_copy(update={"needed": None})


def _check(
    name: str,
    label: str,
    moment: Moment,
    unit: str,
    estimate: Estimate,
    margin: tuple[float, float],
    records: int,
) -> Check:
    # Outwards, so that rounding never helps; few digits, so that they describe no single record.
    digits = check_decimals(unit, records)
    scale = 10.0**digits
    value = round(estimate.value, digits)
    low = math.floor(round(estimate.low * scale, 6)) / scale
    high = math.ceil(round(estimate.high * scale, 6)) / scale
    result: CheckResult
    if low > margin[1] or high < margin[0]:
        result = "outside"
    elif low >= margin[0] and high <= margin[1]:
        result = "inside"
    else:
        result = "open"
    return Check(
        name=name,
        label=label,
        moment=moment,
        unit=unit,
        value=value,
        low=low,
        high=high,
        margin=round(margin[1], 2),
        records=records,
        result=result,
        needed=_records_needed(value, low, high, margin, records) if result == "open" else None,
    )


def _records_needed(
    value: float, low: float, high: float, margin: tuple[float, float], records: int
) -> int | None:
    """How many records would decide, if the value stayed what it is; None if none would."""
    room, reach = margin[1] - value, high - value
    if value - margin[0] < room:
        room, reach = value - margin[0], value - low
    return math.ceil(records * (reach / room) ** 2) if room > 0 else None
