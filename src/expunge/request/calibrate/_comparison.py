"""Compare how a model treats the forgotten records and records it never saw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from expunge._errors import InvalidInput
from expunge.engine._predict import check_predictions
from expunge.evaluation import Estimate, Predictions
from expunge.evaluation._scores import accuracy
from expunge.evaluation.attacks._features import confidence, entropy, loss
from expunge.evaluation.attacks._roc import UNDEFINED
from expunge.evaluation.text._text_predictions import TextPredictions
from expunge.request.calibrate._permutation_test import (
    PermutedStatistic,
    PooledExamples,
    Statistic,
    auc_and_ks,
    mean_difference,
    permutation_test,
)
from expunge.request.calibrate._target import Target

ATTACKS = ("confidence", "entropy", "loss")
"""The attacks on a classifier; those on a language model are named by its predictions."""
ROUNDING = 1e-9
"""Two accuracies computed from the same count differ by rounding at most."""
UNDEFINED_STATISTIC = PermutedStatistic(float("nan"), float("nan"), float("nan"))


@dataclass(frozen=True)
class Comparison:
    """The forget set against val of the same class mix, under one model.

    Args:
        ua, va: accuracy on forget and on val, in percent.
        utility: accuracy on val without the lost classes, in percent; this is to be preserved.
        matched: accuracy on val, weighted to the forget set's class mix, in percent.
        gap: ``ua`` minus the target, in points.
        confidence_ks, entropy_ks: two-sample distances; above ``limit`` the two sets differ.
        attacks: AUC of each population attack; an interval that excludes 0.5 distinguishes the two
            sets. All intervals and both distances hold jointly at ``level``.
        distance: distance from the target in units of what chance explains; a model below 1 is
            indistinguishable from one that never saw the records.
        over_forgotten: UA is below the target's interval, or not above it while the model is less
            confident on the forget set than on val (the Streisand effect).
        reasons: what distinguishes the two sets, in sentences.
        shift: what val and test differ by, and forget and test may therefore differ by too.
    """

    ua: float
    va: float
    utility: float
    matched: float
    gap: float
    confidence_ks: PermutedStatistic
    entropy_ks: PermutedStatistic
    attacks: Mapping[str, Estimate]
    distance: float
    indistinguishable: bool
    over_forgotten: bool
    reasons: tuple[str, ...]
    mean_confidence: float
    mean_entropy: float
    shift: Mapping[str, PermutedStatistic] = field(default_factory=dict)

    def as_row(self) -> dict[str, float]:
        """The quantities recorded for an epoch."""
        return {
            "ua": self.ua,
            "va": self.va,
            "utility": self.utility,
            "gap": self.gap,
            "distance": self.distance,
            "confidence_ks": self.confidence_ks.value,
            "confidence_ks_limit": self.confidence_ks.limit,
            "entropy_ks": self.entropy_ks.value,
            "entropy_ks_limit": self.entropy_ks.limit,
            "mean_confidence": self.mean_confidence,
            "mean_entropy": self.mean_entropy,
            **{f"auc_{name}": estimate.value for name, estimate in self.attacks.items()},
        }

    def as_dict(self) -> dict[str, Any]:
        """All quantities as plain values."""
        return {
            **self.as_row(),
            "matched": self.matched,
            "attacks": {name: estimate._asdict() for name, estimate in self.attacks.items()},
            "indistinguishable": self.indistinguishable,
            "over_forgotten": self.over_forgotten,
            "reasons": list(self.reasons),
        }


def compare(
    forget: Predictions,
    val: Predictions,
    target: Target,
    *,
    level: float = 0.95,
    shuffles: int = 400,
    seed: int = 0,
    val_name: str = "val",
    shift: Mapping[str, PermutedStatistic] | None = None,
) -> Comparison:
    """Compare forget with val of the same class mix, and with the target.

    ``val_name`` is what the reasons call val: the final audit passes test data in its place, and
    the ``shift`` between val and test; see :func:`compare_with_test`.

    Indistinguishable means both: UA is inside the target's interval, not on its edge (except at 0
    and 100 %, and where the interval is a single point), and no statistic (accuracy,
    the AUC of each attack, the distances of the confidence and entropy distributions) is further
    from chance than permuting forget and val examples within their classes explains, jointly at
    ``level``. A model that saw neither set passes the second condition with probability ``level``,
    and the first about as often; both depend on the same examples, so it passes both somewhat less
    often.

    Forget examples of classes absent from val count in UA only.
    """
    for name, predictions in (("forget", forget), (val_name, val)):
        check_predictions(predictions, f"the {name} set")
    if forget.logits.shape[1] != val.logits.shape[1]:
        raise InvalidInput(f"Forget and {val_name} should have the same classes.")

    # Accuracy against the target's interval.
    ua, expected = accuracy(forget), target.accuracy
    gap = ua - expected.value

    # Every statistic against what chance explains.
    statistics, largest, matched = _test_statistics(forget, val, level, shuffles, seed, shift)
    names = attacks_on(forget)
    attacks = {name: _interval(statistics[f"auc_{name}"]) for name in names} if statistics else {}
    attacks = attacks or dict.fromkeys(names, UNDEFINED)

    # Utility is judged without the classes that no model could still predict.
    kept = ~torch.isin(val.labels, torch.tensor(target.lost, dtype=torch.int64))
    return Comparison(
        ua=ua,
        va=accuracy(val),
        utility=accuracy(val.take(kept.nonzero()[:, 0])) if bool(kept.any()) else accuracy(val),
        matched=matched,
        gap=gap,
        confidence_ks=statistics.get("ks_confidence", UNDEFINED_STATISTIC),
        entropy_ks=statistics.get("ks_entropy", UNDEFINED_STATISTIC),
        attacks=attacks,
        distance=max(_gap_in_intervals(gap, target), largest),
        indistinguishable=_inside(ua, expected) and largest <= 1.0,
        over_forgotten=ua < expected.low - ROUNDING
        or (attacks["loss"].high < 0.5 and ua <= expected.high + ROUNDING),
        reasons=tuple(_reasons(ua, target, statistics, attacks, val_name, forget.of_texts)),
        mean_confidence=float(confidence(forget).mean()),
        mean_entropy=float("nan") if forget.of_texts else float(entropy(forget).mean()),
        shift=shift or {},
    )


def compare_with_test(
    forget: Predictions,
    val: Predictions,
    test: Predictions,
    target: Target,
    *,
    level: float = 0.95,
    seed: int = 0,
) -> Comparison:
    """Compare forget with test, which took no part in the run.

    Test data are sometimes collected otherwise than training data, and then a model that never saw
    the records treats them otherwise than test data, too. So where val, which was not trained on
    either and is of the records' kind, can be told from test, what these two differ by is allowed.
    """
    shift = shift_between(val, test, forget, level=level, seed=seed)
    return compare(forget, test, target, level=level, seed=seed, val_name="test", shift=shift)


def shift_between(
    val: Predictions,
    test: Predictions,
    forget: Predictions,
    *,
    level: float = 0.95,
    shuffles: int = 400,
    seed: int = 0,
) -> dict[str, PermutedStatistic]:
    """What val and test of the classes in ``forget`` differ by; nothing if chance explains it."""
    alike = torch.isin(val.labels, forget.labels).nonzero()[:, 0]
    if not len(alike):
        return {}
    between, largest, _ = _test_statistics(val.take(alike), test, level, shuffles, seed)
    return between if largest > 1.0 else {}


def attacks_on(predictions: Predictions) -> tuple[str, ...]:
    """The attacks that a comparison reports, by name."""
    return tuple(predictions.scores) if isinstance(predictions, TextPredictions) else ATTACKS


def _test_statistics(
    forget: Predictions,
    val: Predictions,
    level: float,
    shuffles: int,
    seed: int,
    shift: Mapping[str, PermutedStatistic] | None = None,
) -> tuple[dict[str, PermutedStatistic], float, float]:
    """The statistics, the largest deviation, and the class-matched accuracy on val in percent."""
    # Only classes that both sets have can be compared.
    forget_indices = torch.isin(forget.labels, val.labels).nonzero()[:, 0]
    val_indices = torch.isin(val.labels, forget.labels).nonzero()[:, 0]
    if not len(forget_indices):
        return {}, 0.0, float("nan")
    both = forget.take(forget_indices).joined(val.take(val_indices))
    is_forget = np.arange(len(both.labels)) < len(forget_indices)
    pooled = PooledExamples(both.labels.numpy().astype(np.int64), is_forget)
    correct = both.right.numpy()
    statistics = {("accuracy",): mean_difference(correct)} | _distributions(both)
    results, largest = permutation_test(
        pooled,
        statistics,
        {"accuracy": 0.0} | {f"auc_{name}": 0.5 for name in attacks_on(both)},
        shift=shift,
        level=level,
        shuffles=shuffles,
        seed=seed,
    )
    if not both.of_texts:  # p_y is exp(-loss): the same order, hence the same AUC
        results["auc_confidence"] = results["auc_loss"]
    matched = float((pooled.weights * correct)[~is_forget].sum())
    return results, largest, 100.0 * matched


def _distributions(both: Predictions) -> dict[tuple[str, ...], Statistic]:
    """AUC and distance of every score that forget and val are compared by, by name."""
    if isinstance(both, TextPredictions):
        names = {name: f"ks_{name}" for name in both.scores} | {"loss": "ks_confidence"}
        return {
            (f"auc_{name}", names[name]): auc_and_ks(values) for name, values in both.scores.items()
        }
    return {
        ("auc_loss", "ks_confidence"): auc_and_ks(-loss(both)),
        ("auc_entropy", "ks_entropy"): auc_and_ks(-entropy(both)[:, 0]),
    }


def _inside(ua: float, expected: Estimate) -> bool:
    """Whether ``ua`` is inside the interval; its ends are not, unless nothing lies beyond them.

    Nothing lies beyond 0 and 100 %, and an interval that is a single point has only its ends.
    """
    _, low, high = expected
    if high - low <= ROUNDING:
        return abs(ua - low) <= ROUNDING
    above = ua > low + ROUNDING or (low <= ROUNDING and ua >= low - ROUNDING)
    below = ua < high - ROUNDING or (high >= 100.0 - ROUNDING and ua <= high + ROUNDING)
    return above and below


def _interval(statistic: PermutedStatistic) -> Estimate:
    """An AUC and its interval; a shift that is allowed is taken out, so that ½ tells nothing."""
    value = statistic.value - (statistic.centre - 0.5)
    low, high = value - statistic.reach, value + statistic.reach
    return Estimate(value, max(low, 0.0), min(high, 1.0))


def _gap_in_intervals(gap: float, target: Target) -> float:
    """The gap in units of the target's interval on its side, at least half an example wide."""
    value, low, high = target.accuracy
    width = high - value if gap > 0.0 else value - low
    return abs(gap) / max(width, 50.0 / target.n_forget)


def _reasons(
    ua: float,
    target: Target,
    statistics: Mapping[str, PermutedStatistic],
    attacks: Mapping[str, Estimate],
    val_name: str,
    of_texts: bool,
) -> list[str]:
    _, low, high = target.accuracy
    alike = "length and rarity" if of_texts else "classes"
    reasons = []
    if not _inside(ua, target.accuracy):
        beyond = ua > high + ROUNDING or ua < low - ROUNDING
        side = ("above" if ua > high else "below") if beyond else "on the edge of"
        reasons.append(
            f"Accuracy on the forget set is {ua:.1f} %, {side} the {low:.1f} to {high:.1f} % of a "
            "model that never saw it."
        )
    if not statistics:
        reasons.append(
            f"There is no example of the forgotten {'lengths' if of_texts else 'classes'} in "
            f"{val_name} to compare with."
        )
        return reasons
    difference = statistics["accuracy"]
    if abs(difference.value - difference.centre) > difference.reach:
        direction = "more" if difference.value > 0 else "less"
        reasons.append(
            f"The model is right on the forget set {100 * abs(difference.value):.1f} points "
            f"{direction} often than on {val_name} data of the same {alike}."
        )
    for name, estimate in attacks.items():
        if not estimate.low <= 0.5 <= estimate.high:
            reasons.append(f"The {name} attack tells forget from {val_name}: AUC {estimate}.")
    for name in (name for name in statistics if name.startswith("ks_")):
        ks = statistics[name]
        if ks.value > ks.limit:
            reasons.append(
                f"The distributions of the {name.removeprefix('ks_')} differ: distance "
                f"{ks.value:.3f}, chance explains {ks.limit:.3f}."
            )
    return reasons
