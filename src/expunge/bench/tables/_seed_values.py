"""The values behind a cell of a table: one per seed, from records that differ in nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from expunge._errors import InvalidInput
from expunge.bench._records import SETTINGS, Record
from expunge.evaluation._metrics import Metric

PROCESSOR = Metric(
    "processor time", "time the unlearning steps kept processors busy", "lower", unit="s"
)
"""A metric beside those of METRICS: ``processor_seconds`` of a record's epochs."""

_ALIKE = (*(name for name in SETTINGS if name not in ("seed", "block")), "block")


def value_at(record: Record, metric: str, epoch: int | None) -> float | None:
    """A metric at an epoch; a reference has one value for all epochs.

    Without an epoch it is the last evaluated one, which a run that diverged did not reach.
    """
    if record.is_reference:
        value = record.value(metric)
    elif epoch is None and record.diverged:
        return None
    else:
        value = record.value(metric, epoch)
    return None if value is None or math.isnan(value) else value


def seed_values(
    records: Iterable[Record], metric: str, epoch: int | None, cell: str
) -> tuple[float, ...]:
    """The values of a metric by ascending seed; ``cell`` names the cell in messages.

    Records that differ in more than their seed raise: their mean would mean nothing.
    """
    by_seed = sorted(records, key=lambda record: record["seed"])
    refuse_varying(by_seed, _ALIKE, cell)
    _refuse_repeated_seeds(by_seed, cell)
    if epoch is None:
        _refuse_different_ends(by_seed, cell)
    values = [value_at(record, metric, epoch) for record in by_seed]
    return tuple(value for value in values if value is not None)


def refuse_varying(records: Sequence[Record], names: Sequence[str], cell: str) -> None:
    """Raise if records differ in one of the settings ``names``, saying in which and what to do."""
    values = {name: list(dict.fromkeys(r[name] for r in records)) for name in names}
    varying = {name: unique for name, unique in values.items() if len(unique) > 1}
    if not varying:
        return
    details = "; ".join(f"{k}: {', '.join(map(plain, v))}" for k, v in varying.items())
    first, unique = next(iter(varying.items()))
    one = next(value for value in unique if value not in (None, ""))
    raise InvalidInput(
        f"{cell} would mix records that differ in {', '.join(varying)}, not only in the seed. "
        f"({details}) Choose with --where {first}={plain(one)}, or add {first} to the rows."
    )


def plain(value: Any) -> str:
    """A setting as text.

    >>> plain(1e-4), plain(None), plain("focus")
    ('0.0001', 'none', 'focus')
    """
    if value is None or value == "":
        return "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _refuse_repeated_seeds(records: Sequence[Record], cell: str) -> None:
    seeds = [record["seed"] for record in records]
    for seed in seeds:
        if seeds.count(seed) > 1:
            raise InvalidInput(
                f"{cell}: seed {seed} appears {seeds.count(seed)} times with equal settings. "
                "Take the records of one protocol, without repetitions."
            )


def _refuse_different_ends(records: Sequence[Record], cell: str) -> None:
    ends = {r.final["epoch"] for r in records if not r.diverged and r.final}
    if len(ends) > 1:
        raise InvalidInput(
            f"{cell}: the last evaluated epoch varies over the seeds. (found "
            f"{', '.join(str(end) for end in sorted(ends))}) Choose an epoch that all of them have."
        )
