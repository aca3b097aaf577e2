"""Records laid out in the cells of a pivot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from expunge.bench._records import Record
from expunge.bench.runs._cells import cell_values, is_reference, order, shown, value_at
from expunge.bench.runs._settings import TASK
from expunge.bench.tables._summary import Group, Row
from expunge.evaluation._metrics import Metric

RIVALS = (*TASK, "seed")
"""Rows that differ in one of these are not compared with each other."""

_EVERY = "(every column)"  # of what belongs to all of them: an ideal model at every epoch, say

Key = tuple[Any, ...]
Entry = tuple[Record, int | None]


@dataclass(frozen=True)
class Sheet:
    """``down`` the side the settings of the rows, ``across`` the top that of the columns."""

    records: tuple[Record, ...]
    down: tuple[str, ...]
    across: str
    named: dict[str, Metric]
    epoch: int | None

    @cached_property
    def cells(self) -> dict[Key, dict[Any, list[Entry]]]:
        """Records and epochs by row and column."""
        found: dict[Key, dict[Any, list[Entry]]] = {}
        for record in self.records:
            for row, column, epoch in self._places(record):
                found.setdefault(row, {}).setdefault(column, []).append((record, epoch))
        return found

    @cached_property
    def columns(self) -> dict[str, tuple[Any, str, Metric]]:
        """Of each column its value, its metric's name, and how it is headed and ranked."""
        if self.across == "metric":
            return {name: (_EVERY, name, metric) for name, metric in self.named.items()}
        ((name, metric),) = self.named.items()
        found = dict.fromkeys(c for row in self.cells.values() for c in row if c is not _EVERY)
        return {
            f"{name}@{self.across}={column}": (
                column,
                name,
                replace(metric, label=shown(self.across, column) or "–"),
            )
            for column in sorted(found, key=order(self.across, found))
        }

    def groups(self) -> Iterator[Group]:
        """The references of each task, then the rows that compete on it."""
        ranks = [order(n, (key[i] for key in self.cells)) for i, n in enumerate(self.down)]
        keys = sorted(
            self.cells,
            key=lambda key: [rank(part) for rank, part in zip(ranks, key, strict=False)],
        )
        for task in dict.fromkeys(self._task(key) for key in keys):
            own = [key for key in keys if self._task(key) == task]
            name = ", ".join(filter(None, map(shown, self.down, task))) or "all"
            ideal = self._ideal(own)
            for ranked in (False, True):
                rows = [self._row(key) for key in own if self._is_reference(key) != ranked]
                if rows:
                    yield Group(name, tuple(rows), ranked, ideal)

    def _places(self, record: Record) -> Iterator[tuple[Key, Any, int | None]]:
        """(row, column, epoch) of every cell a record belongs to."""
        fields, reference = {*self.down, self.across}, is_reference(record)
        by_epoch = "epoch" in fields and not reference
        epochs = [row["epoch"] for row in record.evaluated] if by_epoch else [self.epoch]
        everywhere = reference and self.across not in (*RIVALS, "label", "model")
        for epoch in epochs:
            row = tuple(self._field(record, name, epoch) for name in self.down)
            if reference and not fields & {"label", "model"}:
                row = (*row, record["model"])
            column = self._field(record, self.across, epoch)
            yield row, _EVERY if everywhere or self.across == "metric" else column, epoch

    def _field(self, record: Record, name: str, epoch: int | None) -> Any:
        if name == "metric":
            return next(iter(self.named.values())).label
        if name == "epoch":
            return None if is_reference(record) else epoch
        return record.label if name == "label" else record[name]

    def _is_reference(self, key: Key) -> bool:
        return all(is_reference(r) for found in self.cells[key].values() for r, _ in found)

    def _task(self, key: Key) -> Key:
        pairs = zip(self.down, key, strict=False)
        return tuple(part if name in RIVALS else None for name, part in pairs)

    def _row(self, key: Key) -> Row:
        label = ", ".join(filter(None, map(shown, (*self.down, "model"), key))) or "–"
        values = {}
        for name, (column, metric, _) in self.columns.items():
            found = [*self._at(key, column)]
            epoch = found[0][1] if found else None
            values[name] = cell_values([r for r, _ in found], metric, epoch, f"{label}, {name}")
        return Row(label, values)

    def _at(self, key: Key, column: Any) -> Iterator[Entry]:
        for place in dict.fromkeys((column, _EVERY)):
            yield from self.cells[key].get(place, ())

    def _ideal(self, keys: list[Key]) -> Row:
        """The ideal models' values; from the gaps of records where those are not at hand."""
        values = {}
        for name, (column, metric, _) in self.columns.items():
            wanted = (column, _EVERY) if self.across in RIVALS else None
            here = [
                entry
                for key in keys
                for place, found in self.cells[key].items()
                if wanted is None or place in wanted
                for entry in found
            ]
            ideals = {r.key: value_at(r, metric, e) for r, e in here if r["model"] == "ideal"}
            aims = ideals or _from_gaps(here, metric)
            values[name] = tuple(value for value in aims.values() if value is not None)
        return Row("ideal", values)


def _from_gaps(entries: list[Entry], metric: str) -> dict[str, float | None]:
    gap = "rua" if metric == "ua" else f"gap_{metric}"
    found: dict[str, float | None] = {}
    for record, epoch in entries:
        value, distance = value_at(record, metric, epoch), value_at(record, gap, epoch)
        if value is not None and distance is not None:
            found[f"seed {record['seed']}"] = value - distance
    return found
