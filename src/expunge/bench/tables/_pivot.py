"""Free tables: any setting down the side, any setting or the metrics across the top."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from expunge._errors import InvalidInput
from expunge.bench._results import Result
from expunge.bench._runs import SETTINGS, TASK_SETTINGS
from expunge.bench.tables._rows import (
    METRIC_NAMES,
    PROCESSOR,
    plain,
    refuse_varying,
    seed_values,
    value_at,
)
from expunge.bench.tables._summary import Row, RowGroup, Summary
from expunge.evaluation import METRICS, Metric
from expunge.methods import METHODS
from expunge.update import ADDONS

FIELDS = (*SETTINGS, "label", "epoch", "metric")
"""What rows and columns can be."""

RIVALS = (*TASK_SETTINGS, "seed")
"""Rows that differ in one of these are not compared with each other."""

_EVERY = "(every column)"  # of what belongs to all of them: an ideal model at every epoch, say

RowKey = tuple[Any, ...]
ResultAt = tuple[Result, int | None]
"""A result and the epoch at which it is read."""


def pivot(
    results: Iterable[Result],
    rows: str = "addon",
    cols: str = "metric",
    metrics: Sequence[str] = METRIC_NAMES,
    epoch: int | None = None,
) -> Summary:
    """Mean ± std over seeds, and over nothing else, for each row and column.

    Rows on the same data, model and scenario are rivals: the best of them in each column is
    marked. Initial and ideal models are shown on top. Results of a cell that differ in more than
    the seed raise.

    Args:
        results: What to tabulate; repetitions of the same run are dropped.
        rows: A name of :data:`FIELDS`, or several with commas.
        cols: One such name; unless it is ``metric``, give one metric.
        metrics: What to show.
        epoch: When to show it (default: the last evaluated epoch).
    """
    down, across = _fields(rows, cols)
    named = dict(_metric(name) for name in metrics)
    _check(down, across, named, epoch)
    unique = list({result.key: result for result in results}.values())
    if not unique:
        raise InvalidInput("There are no results to tabulate.")
    common = [name for name in TASK_SETTINGS if name not in (*down, across)]
    refuse_varying(unique, common, "The table")
    layout = _Layout(tuple(unique), down, across, named, epoch)
    groups = tuple(layout.groups())
    words = [text for name in common if (text := _shown(name, unique[0].settings[name]))]
    words += [] if epoch is None else [f"epoch {epoch}"]
    metric = next(iter(named.values())).label
    return Summary(
        groups,
        tuple(layout.columns),
        title=("" if across == "metric" else f"{metric}: ") + ", ".join(words),
        notes=_notes(unique, groups, layout),
        columns={name: metric for name, (_, _, metric) in layout.columns.items()},
    )


def _fields(rows: str, cols: str) -> tuple[tuple[str, ...], str]:
    down, across = tuple(name.strip() for name in rows.split(",")), cols.strip()
    for name in (*down, across):
        if name not in FIELDS:
            raise InvalidInput(
                f"A table cannot have {name!r} as rows or columns. Known: {', '.join(FIELDS)}."
            )
        if (*down, across).count(name) > 1:
            raise InvalidInput(f"{name!r} should be in the rows or the columns, once.")
    return down, across


def _metric(name: str) -> tuple[str, Metric]:
    """A metric that results may hold: its full name, and what it is."""
    if name == "processor_seconds":
        return name, PROCESSOR
    if name not in METRICS:
        names = ", ".join((*METRICS, "processor_seconds"))
        raise InvalidInput(f"Unknown metric {name!r}. Known: {names}.")
    return METRICS.name(name), METRICS[name]


def _check(down: tuple[str, ...], across: str, named: dict[str, Metric], epoch: int | None) -> None:
    if not named:
        raise InvalidInput("A table should have at least one metric.")
    if across != "metric" and len(named) > 1:
        raise InvalidInput(
            f"With {across} across the top there is room for one metric. (got {', '.join(named)}) "
            "Choose one, or put `metric` across the top."
        )
    if epoch is not None and "epoch" in (*down, across):
        raise InvalidInput(f"The table shows every epoch; leave the epoch out. (got {epoch})")


def _notes(results: list[Result], groups: tuple[RowGroup, ...], layout: _Layout) -> tuple[str, ...]:
    notes = []
    if diverged := [f"{r.label} (seed {r.seed})" for r in results if r.diverged]:
        notes.append(f"Diverged, and absent from there on: {', '.join(diverged)}")
    ideals = [group.ideal for group in groups if group.ideal is not None]
    aims = [name for name, (_, _, m) in layout.columns.items() if m.direction == "ideal"]
    if any(not ideal.values[name] for ideal in ideals for name in aims):
        notes.append("No mark where close to the ideal model is good and its results are absent")
    return tuple(notes)


@dataclass(frozen=True)
class _Layout:
    """Results laid out in the cells of a table.

    ``down`` are the settings that make a row, ``across`` is the one that makes a column.
    """

    results: tuple[Result, ...]
    down: tuple[str, ...]
    across: str
    named: dict[str, Metric]
    epoch: int | None

    @cached_property
    def cells(self) -> dict[RowKey, dict[Any, list[ResultAt]]]:
        """Results and epochs by row and column."""
        cells: dict[RowKey, dict[Any, list[ResultAt]]] = {}
        for result in self.results:
            for row, column, epoch in self._places(result):
                cells.setdefault(row, {}).setdefault(column, []).append((result, epoch))
        return cells

    @cached_property
    def columns(self) -> dict[str, tuple[Any, str, Metric]]:
        """Of each column its value, its metric's name, and how it is headed and ranked."""
        if self.across == "metric":
            return {name: (_EVERY, name, metric) for name, metric in self.named.items()}
        ((name, metric),) = self.named.items()
        values = dict.fromkeys(c for row in self.cells.values() for c in row if c is not _EVERY)
        return {
            f"{name}@{self.across}={value}": (
                value,
                name,
                replace(metric, label=_shown(self.across, value) or "–"),
            )
            for value in sorted(values, key=_sort_key(self.across, values))
        }

    def groups(self) -> Iterator[RowGroup]:
        """The references of each task, then the rows that compete on it."""
        ranks = [_sort_key(n, (key[i] for key in self.cells)) for i, n in enumerate(self.down)]
        keys = sorted(
            self.cells,
            key=lambda key: [rank(part) for rank, part in zip(ranks, key, strict=False)],
        )
        for task in dict.fromkeys(self._task(key) for key in keys):
            rivals = [key for key in keys if self._task(key) == task]
            name = ", ".join(filter(None, map(_shown, self.down, task))) or "all"
            ideal = self._ideal(rivals)
            for ranked in (False, True):
                rows = [self._row(key) for key in rivals if self._is_reference(key) != ranked]
                if rows:
                    yield RowGroup(name, tuple(rows), ranked, ideal)

    def _places(self, result: Result) -> Iterator[tuple[RowKey, Any, int | None]]:
        """(row, column, epoch) of every cell a result belongs to."""
        fields, reference = {*self.down, self.across}, result.is_reference
        by_epoch = "epoch" in fields and not reference
        epochs = [row["epoch"] for row in result.evaluated] if by_epoch else [self.epoch]
        everywhere = reference and self.across not in (*RIVALS, "label", "model")
        for epoch in epochs:
            row = tuple(self._field(result, name, epoch) for name in self.down)
            if reference and not fields & {"label", "model"}:
                row = (*row, result.model)
            column = self._field(result, self.across, epoch)
            yield row, _EVERY if everywhere or self.across == "metric" else column, epoch

    def _field(self, result: Result, name: str, epoch: int | None) -> Any:
        if name == "metric":
            return next(iter(self.named.values())).label
        if name == "epoch":
            return None if result.is_reference else epoch
        return result.label if name == "label" else result.settings[name]

    def _is_reference(self, key: RowKey) -> bool:
        return all(r.is_reference for cell in self.cells[key].values() for r, _ in cell)

    def _task(self, key: RowKey) -> RowKey:
        pairs = zip(self.down, key, strict=False)
        return tuple(part if name in RIVALS else None for name, part in pairs)

    def _row(self, key: RowKey) -> Row:
        label = ", ".join(filter(None, map(_shown, (*self.down, "model"), key))) or "–"
        values = {}
        for name, (column, metric, _) in self.columns.items():
            cell = [*self._at(key, column)]
            epoch = cell[0][1] if cell else None
            values[name] = seed_values([r for r, _ in cell], metric, epoch, f"{label}, {name}")
        return Row(label, values)

    def _at(self, key: RowKey, column: Any) -> Iterator[ResultAt]:
        for place in dict.fromkeys((column, _EVERY)):
            yield from self.cells[key].get(place, ())

    def _ideal(self, keys: list[RowKey]) -> Row:
        """The ideal models' values; from the gaps of runs where there are no results of them."""
        values = {}
        for name, (column, metric, _) in self.columns.items():
            wanted = (column, _EVERY) if self.across in RIVALS else None
            here = [
                entry
                for key in keys
                for place, cell in self.cells[key].items()
                if wanted is None or place in wanted
                for entry in cell
            ]
            ideals = {r.key: value_at(r, metric, e) for r, e in here if r.model == "ideal"}
            aims = ideals or _ideals_from_gaps(here, metric)
            values[name] = tuple(value for value in aims.values() if value is not None)
        return Row("ideal", values)


def _ideals_from_gaps(cell: list[ResultAt], metric: str) -> dict[str, float | None]:
    """The ideal model's value by seed: a run's value minus its distance from the ideal's."""
    gap = "rua" if metric == "ua" else f"gap_{metric}"
    ideals: dict[str, float | None] = {}
    for result, epoch in cell:
        value, distance = value_at(result, metric, epoch), value_at(result, gap, epoch)
        if value is not None and distance is not None:
            ideals[f"seed {result.seed}"] = value - distance
    return ideals


def _shown(name: str, value: Any) -> str:
    """A setting as a table prints it: the paper's short names, numbers with what they are."""
    if value is None or value == "":
        return ""
    registry: Any = {"method": METHODS, "addon": ADDONS}.get(name)
    if registry is not None and value in registry:
        return str(registry.label(value))
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return f"{name.replace('_', ' ')} {plain(value)}" if is_number else str(value)


def _sort_key(name: str, values: Iterable[Any]) -> Callable[[Any], float]:
    """How to sort a setting: numbers by size, parts as they are registered, else as they come."""
    unique = list(dict.fromkeys(values))
    registered: list[Any] = {"method": list(METHODS), "addon": list(ADDONS)}.get(name, [])
    ranks = {value: float(rank) for rank, value in enumerate([*registered, *unique][::-1])}
    last = len(registered) + len(unique)

    def rank(value: Any) -> float:
        if value is None or value == "":
            return -math.inf
        if isinstance(value, (int, float)):
            return float(value)
        return last - ranks[value]

    return rank
