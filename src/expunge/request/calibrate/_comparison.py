"""Does a model treat the forgotten records like records it never saw?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from expunge._errors import InvalidInput
from expunge.evaluation import Estimate, Predictions
from expunge.evaluation._predict import check_predictions
from expunge.evaluation._scores import accuracy
from expunge.evaluation.attacks._features import confidence, entropy, loss
from expunge.evaluation.attacks._roc import UNDEFINED
from expunge.request.calibrate._permutation_test import (
    Division,
    Exchanged,
    auc_and_ks,
    exchange,
    mean_difference,
)
from expunge.request.calibrate._target import Target

ATTACKS = ("confidence", "entropy", "loss")
CENTRES = {"accuracy": 0.0} | {f"auc_{name}": 0.5 for name in ATTACKS}
CLOSE = 1e-9
"""Two shares of the same count differ by rounding at most."""
NOTHING = Exchanged(float("nan"), float("nan"), float("nan"))


@dataclass(frozen=True)
class Behaviour:
    """The forget set against val of the same class mix, under one model.

    Args:
        ua, va: accuracy on forget and on val, in percent.
        utility: accuracy on val without the classes that are lost, in percent: what is to be kept.
        matched: accuracy on val, weighted to the forget set's class mix, in percent.
        gap: ``ua`` minus the target, in points.
        confidence_ks, entropy_ks: two-sample distances; above ``limit`` the two differ.
        attacks: AUC of each population attack; an interval without 0.5 tells the two apart. The
            intervals hold together at ``level``, all of them and the distances.
        distance: how far from the target, in units of what chance explains; at most 1 is
            indistinguishable.
        over_forgotten: UA below the target's interval, or not above it while the model is less
            sure of the forget set than of val (the Streisand effect).
        reasons: what tells the two apart, in plain words.
    """

    ua: float
    va: float
    utility: float
    matched: float
    gap: float
    confidence_ks: Exchanged
    entropy_ks: Exchanged
    attacks: Mapping[str, Estimate]
    distance: float
    indistinguishable: bool
    over_forgotten: bool
    reasons: tuple[str, ...]
    mean_confidence: float
    mean_entropy: float

    def as_row(self) -> dict[str, float]:
        """The quantities of an epoch's row."""
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
        """Plain values, for JSON."""
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
    beside: str = "val",
) -> Behaviour:
    """Forget against val, class-matched, and against the target.

    ``beside`` is what the reasons call val: at the end test data stand in for it.

    Indistinguishable means both: UA inside the target's interval, and no statistic (accuracy, the
    AUC of each attack, the distances of the confidence and entropy distributions) further from
    chance than exchanging forget and val examples within their classes explains, jointly at
    ``level``. A model that saw neither passes the second with probability ``level``, and the first
    with about as much; both look at the same examples, so together somewhat less often.

    Forget examples of classes that val lacks count in UA only.
    """
    for name, part in (("forget", forget), (beside, val)):
        check_predictions(part, f"the {name} set")
    if forget.logits.shape[1] != val.logits.shape[1]:
        raise InvalidInput(f"Forget and {beside} should have the same classes.")
    ua, aim = accuracy(forget), target.accuracy
    gap = ua - aim.value
    found, largest, matched = _exchange(forget, val, level, shuffles, seed)
    attacks = {name: _interval(found[f"auc_{name}"]) for name in ATTACKS} if found else {}
    attacks = attacks or dict.fromkeys(ATTACKS, UNDEFINED)
    kept = ~torch.isin(val.labels, torch.tensor(target.lost, dtype=torch.int64))
    return Behaviour(
        ua=ua,
        va=accuracy(val),
        utility=accuracy(val.take(kept.nonzero()[:, 0])) if bool(kept.any()) else accuracy(val),
        matched=matched,
        gap=gap,
        confidence_ks=found.get("ks_confidence", NOTHING),
        entropy_ks=found.get("ks_entropy", NOTHING),
        attacks=attacks,
        distance=max(_relative(gap, target), largest),
        indistinguishable=_inside(ua, aim) and largest <= 1.0,
        over_forgotten=ua < aim.low - CLOSE
        or (attacks["loss"].high < 0.5 and ua <= aim.high + CLOSE),
        reasons=tuple(_reasons(ua, target, found, attacks, beside)),
        mean_confidence=float(confidence(forget).mean()),
        mean_entropy=float(entropy(forget).mean()),
    )


def _exchange(
    forget: Predictions, val: Predictions, level: float, shuffles: int, seed: int
) -> tuple[dict[str, Exchanged], float, float]:
    """The statistics, the largest deviation, and the matched accuracy on val in percent."""
    shared = torch.isin(forget.labels, val.labels).nonzero()[:, 0]
    beside = torch.isin(val.labels, forget.labels).nonzero()[:, 0]
    if not len(shared):
        return {}, 0.0, float("nan")
    parts = (forget.take(shared), val.take(beside))
    both = Predictions(*(torch.cat(pair) for pair in zip(*parts, strict=True)))
    inside = np.arange(len(both.labels)) < len(shared)
    division = Division(both.labels.numpy().astype(np.int64), inside)
    right = (both.classes == both.labels).numpy().astype(np.float64)
    statistics = {
        ("accuracy",): mean_difference(right),
        ("auc_loss", "ks_confidence"): auc_and_ks(-loss(both)),
        ("auc_entropy", "ks_entropy"): auc_and_ks(-entropy(both)[:, 0]),
    }
    found, largest = exchange(
        division, statistics, CENTRES, level=level, shuffles=shuffles, seed=seed
    )
    found["auc_confidence"] = found["auc_loss"]  # p_y is exp(-loss): the same order, the same area
    matched = float((division.weights * right)[~inside].sum())
    return found, largest, 100.0 * matched


def _inside(ua: float, aim: Estimate) -> bool:
    return aim.low - CLOSE <= ua <= aim.high + CLOSE


def _interval(found: Exchanged) -> Estimate:
    return Estimate(
        found.value, max(found.value - found.reach, 0.0), min(found.value + found.reach, 1.0)
    )


def _relative(gap: float, target: Target) -> float:
    """The gap in units of the target's interval on its side, half an example at least."""
    value, low, high = target.accuracy
    width = high - value if gap > 0.0 else value - low
    return abs(gap) / max(width, 50.0 / target.n_forget)


def _reasons(
    ua: float,
    target: Target,
    found: Mapping[str, Exchanged],
    attacks: Mapping[str, Estimate],
    beside: str,
) -> list[str]:
    _, low, high = target.accuracy
    said = []
    if not _inside(ua, target.accuracy):
        side = "above" if ua > high else "below"
        said.append(
            f"Accuracy on the forget set is {ua:.1f} %, {side} the {low:.1f} to {high:.1f} % of a "
            "model that never saw it."
        )
    if not found:
        none = f"There is no example of the forgotten classes in {beside} to compare with."
        return [*said, none]
    shift = found["accuracy"]
    if abs(shift.value - shift.centre) > shift.reach:
        word = "more" if shift.value > 0 else "less"
        said.append(
            f"The model is right on the forget set {100 * abs(shift.value):.1f} points {word} "
            f"often than on {beside} data of the same classes."
        )
    for name, estimate in attacks.items():
        if not estimate.low <= 0.5 <= estimate.high:
            said.append(f"The {name} attack tells forget from {beside}: AUC {estimate}.")
    for name in ("confidence", "entropy"):
        ks = found[f"ks_{name}"]
        if ks.value > ks.limit:
            said.append(
                f"The distributions of the {name} differ: distance {ks.value:.3f}, chance explains "
                f"{ks.limit:.3f}."
            )
    return said
