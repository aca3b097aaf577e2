"""Tables, one row per example: which column is the label, which the id, which rows are for test.

A table becomes examples in two stages. First its rows are divided into train, val and test; their
inputs are row numbers (:class:`Rows`). Once it is settled which rows are trained on, an encoding is
learnt from those rows alone, and applied to all of them (:mod:`expunge.data._encoding`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from expunge._errors import DataError, InvalidInput
from expunge.data._examples import Examples

SPLIT_NAMES = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "val"),
    **dict.fromkeys(("test", "testing"), "test"),
}
"""What splits are called, and which they are."""
COLUMN_NAMES = {
    "label": ("label", "labels", "target", "class", "y"),
    "id": ("id",),
    "split": ("split",),
}
"""What columns are called, where no option names them."""
MAX_CLASSES = 1000
_PARTS = {"train": "was trained on", "test": "never saw"}
"""What a column of splits has to name, and what the model did with it."""


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length.

    Args:
        source: where they come from, for messages.
        columns: cells by column: numbers, strings, lists, images; None or "" where one is missing.
        lines: the line of each row in its file, if it has lines.
        class_names: of columns that hold numbers of named classes.
        splits: "train", "val" or "test" for each row, if the source is divided already.
        folder: what the paths of images are relative to.
    """

    source: str
    columns: Mapping[str, Sequence[Any]]
    lines: Sequence[int] | None = None
    class_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    splits: Sequence[str] | None = None
    folder: Path = Path()

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def place(self, row: int) -> str:
        """Where a row is, for messages."""
        return f"on line {self.lines[row]}" if self.lines is not None else f"in row {row}"

    def find(self, names: Sequence[str]) -> str | None:
        """The first of ``names`` that is a column, as the table spells it."""
        spelled = {column.lower(): column for column in self.columns}
        return next((spelled[name] for name in names if name in spelled), None)

    def check(self, column: str, right: Iterable[object], rule: str, remedy: str) -> None:
        """Raise unless all rows of a column are ``right``; the error names the first other one."""
        row = next((row for row, is_right in enumerate(right) if not is_right), None)
        if row is not None:
            raise DataError(
                f"{self.source}: the column {column!r} should {rule}. (got "
                f"{shown_cell(self.columns[column][row])[:40]!r} {self.place(row)}) {remedy}"
            )

    def listed(self, options: Mapping[str, Any], option: str) -> tuple[str, ...]:
        """The columns that an option names, joined by +, as the table spells them."""
        given = options.get(option) or ""
        names = [given] if self.find([given.lower()]) else filter(None, given.split("+"))
        found = []
        for name in names:
            column = self.find([name.lower()])
            if column is None:
                raise InvalidInput(
                    f"`{option}` should be a column of {self.source}: {', '.join(self.columns)}. "
                    f"(got {name!r})"
                )
            found.append(column)
        return tuple(found)


@dataclass(frozen=True)
class Roles:
    """What the columns of a table are for: ``inputs`` are encoded as ``kind`` says."""

    label: str
    id: str | None
    split: str | None
    inputs: tuple[str, ...]
    kind: str
    """"vectors", "text", "tokens" or "image"."""
    categories: tuple[str, ...]
    is_regression: bool
    length: int
    vocabulary: int | None


class Rows(Examples):
    """Rows of a table before they are encoded: inputs are row numbers, ``int64`` of shape [N]."""

    noun = "row"

    table: Table
    roles: Roles


def assign_roles(table: Table, options: Mapping[str, Any]) -> Roles:
    """The roles that ``options`` give to columns; by their names where they do not."""

    def one(option: str) -> str | None:
        """The column that an option names, or that is called so."""
        named = table.listed(options, option)
        if len(named) > 1:
            raise InvalidInput(f"`{option}` should be one column. (got {len(named)})")
        return named[0] if named else table.find(COLUMN_NAMES.get(option, ()))

    # Label, id and split are columns of their own.
    label, names = one("label"), one("id")
    split = None if table.splits is not None else one("split")
    if label is None:
        others = ["COLUMN", *(each for each in table.columns if each not in (names, split))]
        raise InvalidInput(
            f"{table.source} should have a column {', '.join(COLUMN_NAMES['label'])}. (got "
            f"{', '.join(table.columns)}) Name the column to predict: label={others[-1]}."
        )
    if label in (names, split):
        raise InvalidInput(
            f"`label` should be a column of its own. (got {label!r}, as id or split)"
        )
    # One option says what the inputs are; without any, they are all other columns.
    given = [kind for kind in ("text", "tokens", "image") if options.get(kind)]
    if len(given) > 1:
        raise InvalidInput(f"Inputs are of one kind: give {' or '.join(given)}, not both.")
    kind = given[0] if given else "vectors"
    if kind == "vectors":
        ignored = {label, names, split, *table.listed(options, "ignore")}
        inputs = tuple(column for column in table.columns if column not in ignored)
        if not inputs:
            raise DataError(f"{table.source} should have columns besides the label. (got none)")
    else:
        inputs = table.listed(options, kind) if kind == "text" else (one(kind) or "",)
        if label in inputs:
            raise InvalidInput(
                f"`{kind}` should leave out the column to predict. (got {label!r} as both) "
                "Name another: label=COLUMN."
            )
    return Roles(
        label,
        names,
        split,
        inputs,
        kind,
        categories=table.listed(options, "categories"),
        is_regression=options.get("task") == "regression",
        length=options.get("length", 256),
        vocabulary=options.get("vocabulary"),
    )


def divide_rows(table: Table, roles: Roles) -> tuple[Rows, Rows | None, Rows | None]:
    """(train, test, val): as a column says; all are train if none does."""
    if not len(table):
        raise DataError(
            f"{table.source} should hold rows. (got none) Check that it was written to the end."
        )
    splits = table.splits if roles.split is None else _read_splits(table, roles.split)
    trained = ["train"] * len(table) if splits is None else splits
    classes: tuple[str, ...] = ()
    if roles.is_regression:
        cells = table.columns[roles.label]
        remedy = "Remove the row or, to predict classes, leave task=regression out."
        table.check(roles.label, map(is_finite_number, cells), "hold finite numbers", remedy)
        labels = torch.tensor([as_float(cell) for cell in cells], dtype=torch.float32)
    else:
        in_train = [row for row, split in enumerate(trained) if split == "train"]
        labels, classes = _read_classes(table, roles.label, in_train)
    names = None
    if roles.id is not None:
        names = [shown_cell(cell) for cell in table.columns[roles.id]]
        table.check(roles.id, names, "name every row", "Give it a name, or remove the row.")
    everything = Rows(torch.arange(len(table)), labels, classes, names)
    everything.table, everything.roles = table, roles
    if splits is None:
        return everything, None, None
    found = np.array(splits)
    train, val, test = (
        everything.subset(np.flatnonzero(found == split)) for split in ("train", "val", "test")
    )
    return train, test if len(test) else None, val if len(val) else None


def _read_splits(table: Table, column: str) -> list[str]:
    splits = [SPLIT_NAMES.get(shown_cell(cell).lower(), "") for cell in table.columns[column]]
    remedy = "If it is something else, name the column that does: split=COLUMN."
    table.check(column, splits, "say train, val or test", remedy)
    missing = [split for split in _PARTS if split not in splits]
    if missing:
        raise DataError(
            f"{table.source}: some rows should be for {missing[0]}. (the column {column!r} says so "
            f"of none) Mark those that the model {_PARTS[missing[0]]}."
        )
    return splits


def _read_classes(
    table: Table, column: str, in_train: Sequence[int]
) -> tuple[Tensor, tuple[str, ...]]:
    """Labels [N] and the names of classes: sorted, numbers by their value."""
    cells = table.columns[column]
    if column in table.class_names:
        return torch.tensor([int(cell) for cell in cells]), table.class_names[column]
    shown = [shown_cell(cell) for cell in cells]
    table.check(column, shown, "have a label in every row", "Remove the row.")
    present = {shown[row] for row in in_train}
    if len(present) > min(MAX_CLASSES, max(10, len(in_train) // 2)):
        raise DataError(
            f"{table.source}: the column {column!r} should hold at most {MAX_CLASSES} classes, "
            f"each of several rows. (got {len(present)} different values in {len(in_train)} rows) "
            "Name the column to predict, label=COLUMN; for numbers, add task=regression."
        )
    table.check(
        column,
        (text in present for text in shown),
        "hold classes that occur in train",
        "Move a row of it into train, or remove it; for numbers to predict, add task=regression.",
    )
    classes = tuple(sorted(present, key=_by_value))
    number = {name: label for label, name in enumerate(classes)}
    return torch.tensor([number[text] for text in shown]), classes


def as_float(cell: Any) -> float | None:
    """A cell as a number; None if it is not one, or missing."""
    try:
        return float(cell)
    except (TypeError, ValueError):
        return None


def is_finite_number(cell: Any) -> bool:
    """Whether a cell is a number that float32 can hold."""
    number = as_float(cell)
    return number is not None and abs(number) <= float(np.finfo(np.float32).max)


def is_missing(cell: Any) -> bool:
    """Whether there is nothing in a cell: "", None or NaN."""
    return cell is None or cell == "" or (isinstance(cell, float) and cell != cell)


def shown_cell(cell: Any) -> str:
    """A cell as text: whole numbers without a fraction, nothing for a missing one."""
    if is_missing(cell):
        return ""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell)


def _by_value(name: str) -> tuple[int, float, str]:
    number = as_float(name)
    return (1, 0.0, name) if number is None else (0, number, name)
