"""Which records make one cell of a table: those that differ in nothing but the seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from expunge._errors import InvalidInput
from expunge.bench._records import SETTINGS, Record
from expunge.evaluation import METRICS
from expunge.evaluation._metrics import Metric
from expunge.methods import METHODS
from expunge.update import ADDONS

PROCESSOR = Metric(
    "processor time", "time the unlearning steps kept processors busy", "lower", unit="s"
)
"""Beside those of METRICS, what a record's epochs hold: ``processor_seconds``."""

_ALIKE = (*(name for name in SETTINGS if name not in ("seed", "block")), "block")


def metric_of(name: str) -> tuple[str, Metric]:
    """A metric that records may hold: its full name, and what it is."""
    if name == "processor_seconds":
        return name, PROCESSOR
    if name not in METRICS:
        known = ", ".join((*METRICS, "processor_seconds"))
        raise InvalidInput(f"Unknown metric {name!r}. Known: {known}.")
    return METRICS.name(name), METRICS[name]


def unique(records: Iterable[Record]) -> list[Record]:
    """The records without repetitions of the same run."""
    found: dict[str, Record] = {}
    for record in records:
        found.setdefault(record.key, record)
    return list(found.values())


def is_reference(record: Record) -> bool:
    """Whether it is an initial or ideal model, which has no epochs of unlearning."""
    return bool(record["model"] != "unlearned")


def value_at(record: Record, metric: str, epoch: int | None) -> float | None:
    """A metric at an epoch; a reference has one value for all.

    Without an epoch it is the last evaluated one, which a run that diverged did not reach.
    """
    if is_reference(record):
        value = record.value(metric)
    elif epoch is None and record.diverged:
        return None
    else:
        value = record.value(metric, epoch)
    return None if value is None or math.isnan(value) else value


def cell_values(
    records: Sequence[Record], metric: str, epoch: int | None, where: str
) -> tuple[float, ...]:
    """The values of a cell over the seeds, by seed; ``where`` names the cell in messages."""
    refuse_mixture(records, where, epoch)
    values = [value_at(r, metric, epoch) for r in sorted(records, key=lambda r: r["seed"])]
    return tuple(value for value in values if value is not None)


def refuse_mixture(records: Sequence[Record], where: str, epoch: int | None = None) -> None:
    """Raise if records differ in more than their seed: such a mean would mean nothing."""
    refuse_varying(records, _ALIKE, where)
    seeds = [record["seed"] for record in records]
    for seed in seeds:
        if seeds.count(seed) > 1:
            raise InvalidInput(
                f"{where}: seed {seed} is there {seeds.count(seed)} times with equal settings. "
                "Take the records of one protocol, without repetitions."
            )
    ends = {r.final["epoch"] for r in records if not r.diverged and r.final}
    if epoch is None and len(ends) > 1:
        raise InvalidInput(
            f"{where}: the last evaluated epoch varies over the seeds. (found "
            f"{', '.join(str(end) for end in sorted(ends))}) Choose an epoch that all of them have."
        )


def refuse_varying(records: Iterable[Record], names: Sequence[str], where: str) -> None:
    """Raise if records differ in a setting of ``names``, saying which and what to do."""
    records = list(records)
    found = {name: list(dict.fromkeys(r[name] for r in records)) for name in names}
    varying = {name: values for name, values in found.items() if len(values) > 1}
    if not varying:
        return
    said = "; ".join(f"{k}: {', '.join(map(plain, v))}" for k, v in varying.items())
    first, values = next(iter(varying.items()))
    one = next(value for value in values if value not in (None, ""))
    raise InvalidInput(
        f"{where} would mix records that differ in {', '.join(varying)}, not only in the seed. "
        f"({said}) Choose with --where {first}={plain(one)}, or add {first} to the rows."
    )


def plain(value: Any) -> str:
    """A setting as text."""
    if value is None or value == "":
        return "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def shown(name: str, value: Any) -> str:
    """A setting as a table prints it: the paper's short names, numbers with what they are."""
    if value is None or value == "":
        return ""
    registry: Any = {"method": METHODS, "addon": ADDONS}.get(name)
    if registry is not None and value in registry:
        return str(registry.label(value))
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return f"{name.replace('_', ' ')} {plain(value)}" if is_number else str(value)


def order(name: str, values: Iterable[Any]) -> Callable[[Any], float]:
    """How to sort a setting: numbers by size, parts as they are listed, else as they come."""
    found = list(dict.fromkeys(values))
    listed: list[Any] = {"method": list(METHODS), "addon": list(ADDONS)}.get(name, [])
    ranks = {value: float(rank) for rank, value in enumerate([*listed, *found][::-1])}
    last = len(listed) + len(found)

    def rank(value: Any) -> float:
        if value is None or value == "":
            return -math.inf
        if isinstance(value, (int, float)):
            return float(value)
        return last - ranks[value]

    return rank
