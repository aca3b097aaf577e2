"""Audit a request: measure the models before and after, and find what speaks against the latter."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import nn

from expunge.evaluation import Predictions
from expunge.request._accuracy import accuracy_interval, decimals_of
from expunge.request._ledger import LedgerEntry
from expunge.request._predictions import predict_once, predict_records
from expunge.request.calibrate._comparison import Comparison, compare, compare_with_test
from expunge.request.calibrate._floors import CheckedSplit, check_floors
from expunge.request.calibrate._power import NEEDED, Power, estimate_power
from expunge.request.calibrate._target import ClassCounts, Target, estimate_target
from expunge.request.evidence._measurements import (
    SplitPredictions,
    measure_attacks,
    measure_metrics,
)
from expunge.request.evidence._sections import (
    AttackRow,
    ComparisonValues,
    EarlierRequest,
    EarlierStatus,
    FloorCheck,
    HeldOutComparison,
    Interval,
    MetricRow,
    PowerCheck,
    Stop,
    TargetInterval,
)
from expunge.request.evidence._verdict import find_objections
from expunge.request.subject._load import Subject


class AuditRules(Protocol):
    """The settings of a job that its audit depends on."""

    @property
    def floor(self) -> float: ...
    @property
    def level(self) -> float: ...
    @property
    def seed(self) -> int: ...


@dataclass(frozen=True)
class Audit:
    """What was measured of the models before and after, and what speaks against the latter.

    ``power`` is known only where everything passed: otherwise it does not matter whether anything
    could have failed.
    """

    target: TargetInterval
    metrics: list[MetricRow]
    attacks: list[AttackRow]
    held_out: Comparison
    floors: list[FloorCheck]
    objections: list[str]
    power: Power | None


def audit_models(
    before: SplitPredictions,
    after: SplitPredictions,
    target: Target,
    *,
    classes: Sequence[str],
    stopped: Stop,
    earlier: Sequence[EarlierRequest],
    rules: AuditRules,
    attacks: Sequence[AttackRow] | None = None,
) -> Audit:
    """Compare both models on every split; the comparison with test data is new to the run.

    ``stopped`` says whether the run satisfied val; ``attacks`` are those on both models, if they
    are known.
    """
    expected = target_interval(target)
    held_out = compare_with_test(
        after.forget, after.val, after.test, target, level=rules.level, seed=rules.seed
    )
    checked: dict[CheckedSplit, tuple[Predictions, Predictions]]
    checked = {"val": (before.val, after.val), "test": (before.test, after.test)}
    if before.forget.of_texts:
        checked["retain"] = before.retain, after.retain
    floors = check_floors(
        classes,
        ClassCounts.of(before.val, before.forget.labels, before.retain.labels),
        checked,
        floor=rules.floor,
        level=rules.level,
    )
    objections = find_objections(stopped, earlier, held_out, floors)
    power = None
    if stopped.status == "achieved" and not objections:
        unseen = {"val": before.val, "test": before.test}
        power = estimate_power(before.forget, unseen, target, level=rules.level, seed=rules.seed)
    return Audit(
        target=expected,
        metrics=measure_metrics(before, after, expected, rules.level),
        attacks=list(attacks or measure_attacks(before, after, rules.level, rules.seed)),
        held_out=held_out,
        floors=floors,
        objections=objections,
        power=power,
    )


def audit_earlier_requests(
    entries: Sequence[LedgerEntry],
    model: nn.Module,
    subject: Subject,
    chosen: Sequence[int],
    rules: AuditRules,
) -> list[EarlierRequest]:
    """The records of earlier requests under the new model: they must stay forgotten."""
    if not entries:
        return []
    train = subject.train
    forgotten = {*chosen}.union(*(entry.indices for entry in entries))
    retained = train.labels[[i for i in range(len(train)) if i not in forgotten]]
    val = predict_once(model, subject.val)
    rows = []
    for entry in entries:
        predictions = predict_records(model, train.subset(list(entry.indices)))
        target = estimate_target(val, predictions.labels, retained, level=rules.level)
        comparison = compare(predictions, val, target, level=rules.level, seed=rules.seed)
        status: EarlierStatus = "was not achieved"
        if entry.unlearned:
            status = "still forgotten" if entry.achieved else "could not be told"
            if comparison.ua > target.accuracy.high:
                status = "exposed again"
        rows.append(
            EarlierRequest(
                number=entry.number,
                records=len(entry.indices),
                ua=Interval.of(accuracy_interval(predictions, rules.level)),
                target=Interval.of(target.accuracy),
                status=status,
            )
        )
    return rows


def target_interval(target: Target) -> TargetInterval:
    """The target as the evidence states it."""
    return TargetInterval(
        **Interval.of(target.accuracy).model_dump(),
        n_val=target.n_val,
        n_forget=target.n_forget,
        notes=list(target.notes),
    )


def power_check(power: Power) -> PowerCheck:
    """The power as the evidence states it."""
    check = PowerCheck(
        power=power.value,
        needed=NEEDED,
        draws=power.draws,
        told_apart=power.told_apart,
        distance=round(power.distance, 2),
        sufficient=power.sufficient,
    )
    if not power.reach:
        return check
    return check.model_copy(update={"auc_limit": significant(0.5 + power.reach)})


def held_out_comparison(comparison: Comparison, records: int) -> HeldOutComparison:
    """The comparison of so many ``records`` with test data as the evidence states it."""
    values, decimals = rounded(comparison.as_dict(), records), decimals_of(records)
    values["attacks"] = {
        name: {end: _round(value, decimals) for end, value in auc.items()}
        for name, auc in values["attacks"].items()
    }
    return HeldOutComparison.model_validate(values)


def rounded(row: Mapping[str, Any], records: int) -> dict[str, Any]:
    """The row with six significant digits; AUCs and means over the records have few decimals."""
    coarse = ComparisonValues.model_fields.keys() - {"ua", "va", "utility", "gap"}
    decimals = decimals_of(records)
    return {
        name: (_round(value, decimals) if name in coarse else significant(value))
        if isinstance(value, float)
        else value
        for name, value in row.items()
    }


def _round(value: float, decimals: int) -> float | None:
    """None for NaN and infinity, which JSON does not have."""
    return round(value, decimals) if math.isfinite(value) else None


def significant(value: float) -> float | None:
    """Six significant digits; None for NaN and infinity, which JSON does not have."""
    return float(f"{value:.6g}") if math.isfinite(value) else None
