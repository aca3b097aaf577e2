"""Free tables: any setting down the side, any setting or the metrics across the top."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from expunge._errors import InvalidInput
from expunge.bench._records import SETTINGS, Record
from expunge.bench.runs._cells import metric_of, refuse_varying, shown, unique
from expunge.bench.runs._settings import TASK
from expunge.bench.tables._paper_values import METRIC_NAMES
from expunge.bench.tables._pivot_cells import Sheet
from expunge.bench.tables._summary import Group, Summary
from expunge.evaluation._metrics import Metric

FIELDS = (*SETTINGS, "label", "epoch", "metric")
"""What rows and columns can be."""


def pivot(
    records: Iterable[Record],
    rows: str = "addon",
    cols: str = "metric",
    metrics: Sequence[str] = METRIC_NAMES,
    epoch: int | None = None,
) -> Summary:
    """Mean ± std over seeds, and over nothing else, for each row and column.

    ``rows`` is a name of :data:`FIELDS` or several with commas, ``cols`` one name; unless that is
    ``metric``, give one metric. ``epoch`` is the last evaluated one unless told. Rows on the same
    data, model and scenario are rivals: the best of them in each column is marked. Initial and
    ideal models are shown on top. Records of a cell that differ in more than the seed raise.
    """
    down, across = _fields(rows, cols)
    named = dict(metric_of(name) for name in metrics)
    _check(down, across, named, epoch)
    records = unique(records)
    if not records:
        raise InvalidInput("There are no records to tabulate.")
    common = [name for name in TASK if name not in (*down, across)]
    refuse_varying(records, common, "The table")
    sheet = Sheet(tuple(records), down, across, named, epoch)
    groups = tuple(sheet.groups())
    said = [text for name in common if (text := shown(name, records[0][name]))]
    said += [] if epoch is None else [f"epoch {epoch}"]
    metric = next(iter(named.values())).label
    return Summary(
        groups,
        tuple(sheet.columns),
        title=("" if across == "metric" else f"{metric}: ") + ", ".join(said),
        notes=_notes(records, groups, sheet),
        columns={name: metric for name, (_, _, metric) in sheet.columns.items()},
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


def _notes(records: list[Record], groups: tuple[Group, ...], sheet: Sheet) -> tuple[str, ...]:
    notes = []
    if lost := [f"{r.label} (seed {r['seed']})" for r in records if r.diverged]:
        notes.append(f"Diverged, and absent from there on: {', '.join(lost)}")
    ideals = [group.ideal for group in groups if group.ideal is not None]
    aims = [name for name, (_, _, m) in sheet.columns.items() if m.direction == "ideal"]
    if any(not ideal.values[name] for ideal in ideals for name in aims):
        notes.append("No mark where close to the ideal model is good and its records are absent")
    return tuple(notes)
