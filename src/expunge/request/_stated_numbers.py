"""Whether numbers that were computed again are those that the evidence states."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from expunge.request.evidence._sections import (
    AttackRow,
    EarlierRequest,
    FloorCheck,
    HeldOutComparison,
    Interval,
    MetricRow,
    PowerCheck,
)

POINTS = 0.5
"""Points by which a percentage may differ: another processor rounds differently."""
SHARES = 0.01
"""By how much a number between 0 and 1 may differ, such as an AUC."""
DISTANCES = 0.05
"""By how much a distance in units of what chance explains may differ."""

Value = float | str | bool
When = Literal["before", "after", "target"]


@dataclass(frozen=True)
class Finding:
    """A group of numbers; ``problem`` says what is not as stated, and is empty if all are."""

    claim: str
    problem: str = ""


def check_accuracies(stated: Sequence[MetricRow], found: Sequence[MetricRow]) -> list[Finding]:
    """UA, TA, VA and RA after the request, one by one."""
    values = {row.name: row.after.value for row in found}
    return [
        Finding(
            f"{row.name.upper()} is {values[row.name]:.2f} %, {row.after.value:.2f} % in the "
            "evidence",
            ""
            if abs(values[row.name] - row.after.value) <= POINTS
            else f"{row.name.upper()} comes out as {values[row.name]:.2f} %, not "
            f"{row.after.value:.2f} %.",
        )
        for row in stated
        if row.name in values
    ]


def check_metrics(
    stated: Sequence[MetricRow], found: Sequence[MetricRow], parts: Sequence[When]
) -> Finding:
    """The accuracies with their intervals, and the target of UA."""

    def values(rows: Sequence[MetricRow]) -> dict[str, Value]:
        result: dict[str, Value] = {}
        for row in rows:
            for part in parts:
                interval: Interval | None = getattr(row, part)
                if interval is not None:
                    result |= _interval(f"{row.name.upper()} {part}", interval)
        return result

    claim = f"accuracies and their intervals ({', '.join(parts)})"
    return _compared(claim, values(stated), values(found), POINTS)


def check_attacks(
    stated: Sequence[AttackRow],
    found: Sequence[AttackRow],
    parts: Sequence[Literal["before", "after"]],
) -> Finding:
    """The AUC of every attack with its interval, and what it tells."""
    edge = {
        f"{row.name} {part}"
        for row in found
        for part in parts
        for end in (getattr(row, part).auc.low, getattr(row, part).auc.high)
        if abs(end - 0.5) <= SHARES  # rounding may decide on which side of one half it lies
    }

    def values(rows: Sequence[AttackRow]) -> dict[str, Value]:
        result: dict[str, Value] = {}
        for row in rows:
            for part in parts:
                name, attack = f"{row.name} {part}", getattr(row, part)
                result |= _interval(f"AUC of {name}", attack.auc)
                if name not in edge:
                    result[f"the verdict of {name}"] = attack.verdict
        return result

    claim = f"{len(found)} attacks and their intervals ({', '.join(parts)})"
    return _compared(claim, values(stated), values(found), SHARES)


def check_held_out(stated: HeldOutComparison | None, found: HeldOutComparison) -> Finding:
    """The comparison of forgotten records with test data."""

    def values(comparison: HeldOutComparison) -> dict[str, Value]:
        result: dict[str, Value] = {
            "distance from test data": comparison.distance,
            "distance of the confidences": comparison.confidence_ks,
            "distance of the entropies": comparison.entropy_ks,
            "indistinguishable from test data": comparison.indistinguishable,
            "over-forgotten": comparison.over_forgotten,
        }
        for name, auc in comparison.attacks.items():
            result |= _interval(f"AUC of {name} against test data", auc)
        return result

    claim = "the comparison with test data"
    return _compared(claim, {} if stated is None else values(stated), values(found), DISTANCES)


def check_floors(stated: Sequence[FloorCheck], found: Sequence[FloorCheck]) -> Finding:
    """What every class lost on val and test, and whether it may."""

    def values(checks: Sequence[FloorCheck]) -> dict[str, Value]:
        result: dict[str, Value] = {}
        for check in checks:
            name = f"class {check.name or 'all'} on {check.split}"
            result |= {f"loss of {name}": check.lost, f"least loss of {name}": check.low}
            result |= {f"allowed for {name}": check.allowed, f"{name} broken": check.broken}
        return result

    return _compared("what each class lost", values(stated), values(found), POINTS)


def check_power(stated: PowerCheck | None, found: PowerCheck | None) -> Finding:
    """Whether the tests would have noticed a model that forgot nothing."""

    def values(check: PowerCheck | None) -> dict[str, Value]:
        if check is None:
            return {"power": "not known"}
        return {"power": check.power, "sufficient power": check.sufficient}

    return _compared("the power of the tests", values(stated), values(found), DISTANCES)


def check_earlier(stated: Sequence[EarlierRequest], found: Sequence[EarlierRequest]) -> Finding:
    """What became of the records of earlier requests."""

    def values(rows: Sequence[EarlierRequest]) -> dict[str, Value]:
        result: dict[str, Value] = {}
        for row in rows:
            name = f"request {row.number}"
            result |= _interval(f"accuracy on {name}", row.ua)
            result |= _interval(f"target of {name}", row.target) | {f"status of {name}": row.status}
        return result

    return _compared("the records of earlier requests", values(stated), values(found), POINTS)


def _interval(name: str, interval: Interval) -> dict[str, Value]:
    return {
        name: interval.value,
        f"lower end of {name}": interval.low,
        f"upper end of {name}": interval.high,
    }


def _compared(
    claim: str, stated: Mapping[str, Value], found: Mapping[str, Value], tolerance: float
) -> Finding:
    """All values of the same name agree, numbers within ``tolerance``; none is missing."""
    names = list(dict.fromkeys([*found, *stated]))
    wrong = [name for name in names if not _agree(stated.get(name), found.get(name), tolerance)]
    if not wrong:
        return Finding(f"{claim}: as stated")
    first = wrong[0]
    others = f" {len(wrong) - 1} more differ." if len(wrong) > 1 else ""
    return Finding(
        claim,
        f"{first[0].upper()}{first[1:]} comes out as {_shown(found.get(first))}, not "
        f"{_shown(stated.get(first))}.{others}",
    )


def _agree(stated: Value | None, found: Value | None, tolerance: float) -> bool:
    if isinstance(stated, float) and isinstance(found, float):
        if math.isnan(stated) or math.isnan(found):
            return math.isnan(stated) and math.isnan(found)
        return abs(stated - found) <= tolerance
    return stated == found


def _shown(value: Value | None) -> str:
    return (
        "nothing" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
    )
