"""Tables, one row per example: which column is the label, which the id, which rows are for test.

A table becomes examples in two stages. First its rows are divided into train, val and test; their
inputs are row numbers (:class:`Rows`). Once it is settled which rows are trained on, an encoding is
learnt from those rows alone, and applied to all of them (:mod:`expunge.data._encoding`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from torch import Tensor

from expunge._errors import DataError, InvalidInput
from expunge.data._examples import Examples, Indices, as_index
from expunge.data._splits import split_off

LABEL_COLUMNS = ("label", "labels", "target", "class", "y")
ID_COLUMNS = ("id",)
SPLIT_COLUMNS = ("split",)
SPLIT_NAMES = {
    "train": ("train", "training"),
    "val": ("val", "valid", "validation", "dev"),
    "test": ("test", "testing"),
}
MAX_CLASSES = 1000

Missing = Literal["refuse", "encode"]
Task = Literal["classification", "regression"]


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

    def column(self, name: str, option: str) -> str:
        """The name of a column, as the table spells it; ``option`` asked for it."""
        for column in self.columns:
            if column.lower() == name.lower():
                return column
        raise InvalidInput(
            f"`{option}` should be a column of {self.source}: {', '.join(self.columns)}. "
            f"(got {name!r})"
        )

    def find(self, names: Sequence[str]) -> str | None:
        """The first of ``names`` that is a column, as the table spells it."""
        spelled = {column.lower(): column for column in self.columns}
        return next((spelled[name] for name in names if name in spelled), None)


@dataclass(frozen=True)
class Roles:
    """What the columns of a table are for: ``inputs`` are encoded as ``kind`` says."""

    label: str
    id: str | None
    split: str | None
    inputs: tuple[str, ...]
    kind: Literal["vectors", "text", "tokens", "image"]
    categories: tuple[str, ...] = ()
    missing: Missing = "refuse"
    task: Task = "classification"
    length: int = 256
    vocabulary: int | None = None


class Rows(Examples):
    """Rows of a table before they are encoded: inputs are row numbers, ``int64`` of shape [N]."""

    noun = "row"

    def __init__(
        self,
        inputs: Tensor,
        labels: Tensor,
        classes: Sequence[str],
        names: Sequence[str] | None,
        table: Table,
        roles: Roles,
    ) -> None:
        super().__init__(inputs, labels, classes, names)
        self.table, self.roles = table, roles

    def subset(self, indices: Indices) -> Self:
        chosen = as_index(indices, len(self))
        names = None if self.names is None else [self.names[i] for i in chosen.tolist()]
        parts = self.inputs[chosen], self.labels[chosen], self.classes, names
        return type(self)(*parts, self.table, self.roles)


def assign_roles(table: Table, options: Mapping[str, Any]) -> Roles:
    """The roles that ``options`` give to columns; by their names where they do not."""
    label = _named(table, options, "label", LABEL_COLUMNS)
    if label is None:
        raise InvalidInput(
            f"{table.source} should have a column {', '.join(LABEL_COLUMNS[:-1])} or "
            f"{LABEL_COLUMNS[-1]}. (got {', '.join(table.columns)}) Name the column to predict: "
            f"label={list(table.columns)[-1]}."
        )
    names = _named(table, options, "id", ID_COLUMNS)
    split = None if table.splits is not None else _named(table, options, "split", SPLIT_COLUMNS)
    if label in (names, split):
        raise InvalidInput(
            f"`label` should be a column of its own. (got {label!r}, as id or split)"
        )
    # One of these says what the inputs are; without any, they are all other columns.
    given = [kind for kind in ("text", "tokens", "image") if options.get(kind)]
    if len(given) > 1:
        raise InvalidInput(f"Inputs are of one kind: give {' or '.join(given)}, not both.")
    if given:
        inputs = _listed(table, options[given[0]], given[0])
        if given[0] != "text" and len(inputs) > 1:
            raise InvalidInput(f"`{given[0]}` should be one column. (got {len(inputs)})")
        if label in inputs:
            raise InvalidInput(
                f"`{given[0]}` should leave out the column to predict. (got {label!r} as both) "
                "Name another: label=COLUMN."
            )
    else:
        ignored = {label, names, split, *_listed(table, options.get("ignore"), "ignore")}
        inputs = tuple(column for column in table.columns if column not in ignored)
        if not inputs:
            raise DataError(f"{table.source} should have columns besides the label. (got none)")
    return Roles(
        label,
        names,
        split,
        inputs,
        given[0] if given else "vectors",  # type: ignore[arg-type]
        _listed(table, options.get("categories"), "categories"),
        options.get("missing", "refuse"),
        options.get("task", "classification"),
        options.get("length", 256),
        options.get("vocabulary"),
    )


def divide_rows(table: Table, roles: Roles) -> tuple[Rows, Rows, Rows | None]:
    """(train, test, val); val is None if nothing says which rows it is.

    If nothing says which rows are for test, a fixed 20 % of every class are; of a regression, of
    all rows.
    """
    if not len(table):
        raise DataError(
            f"{table.source} should hold rows. (got none) Check that it was written to the end."
        )
    splits = table.splits if roles.split is None else _read_splits(table, roles.split)
    in_train = range(len(table))
    if splits is not None:
        in_train = [row for row, split in enumerate(splits) if split == "train"]  # type: ignore[assignment]
    classes: tuple[str, ...] = ()
    if roles.task == "regression":
        labels = _read_numbers(table, roles.label)
    else:
        labels, classes = _read_classes(table, roles.label, in_train)
    names = None
    if roles.id is not None:
        names = [shown_cell(cell) for cell in table.columns[roles.id]]
        nameless = next((row for row, name in enumerate(names) if not name), None)
        if nameless is not None:
            raise DataError(
                f"{table.source}: there should be an id {table.place(nameless)}. (got none in the "
                f"column {roles.id!r}) Give it one, or remove the row."
            )
    everything = Rows(torch.arange(len(table)), labels, classes, names, table, roles)
    if splits is None:
        rest, held = split_off(everything)
        return everything.subset(rest), everything.subset(held), None
    found = np.array(splits)
    train, val, test = (
        everything.subset(np.flatnonzero(found == split)) for split in ("train", "val", "test")
    )
    return train, test, val if len(val) else None


def _named(
    table: Table, options: Mapping[str, Any], option: str, defaults: Sequence[str]
) -> str | None:
    if options.get(option):
        return table.column(options[option], option)
    return table.find(defaults)


def _listed(table: Table, names: str | None, option: str) -> tuple[str, ...]:
    return tuple(table.column(name, option) for name in (names or "").split("+") if name)


def _read_splits(table: Table, column: str) -> list[str]:
    spelled = {name: split for split, names in SPLIT_NAMES.items() for name in names}
    splits = []
    for row, cell in enumerate(table.columns[column]):
        split = spelled.get(shown_cell(cell).lower())
        if split is None:
            raise DataError(
                f"{table.source}: the column {column!r} should say train, val or test. "
                f"(got {shown_cell(cell)!r} {table.place(row)}) If it is something else, name the "
                "column that does: split=COLUMN."
            )
        splits.append(split)
    missing = [split for split in ("train", "test") if split not in splits]
    if missing:
        raise DataError(
            f"{table.source}: some rows should be for {missing[0]}. (the column {column!r} says so "
            "of none) Mark some, or leave the column out of the table: then 20 % are for test."
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
    empty = next((row for row, text in enumerate(shown) if not text), None)
    if empty is not None:
        raise DataError(
            f"{table.source}: there should be a label {table.place(empty)}. (got none in the "
            f"column {column!r}) Remove the row."
        )
    present = {shown[row] for row in in_train}
    if len(present) > min(MAX_CLASSES, max(10, len(in_train) // 2)):
        raise DataError(
            f"{table.source}: the column {column!r} should hold at most {MAX_CLASSES} classes, "
            f"each of several rows. (got {len(present)} different values in {len(in_train)} rows) "
            "Name the column to predict, label=COLUMN; for numbers, add task=regression."
        )
    classes = tuple(sorted(present, key=_by_value))
    number = {name: label for label, name in enumerate(classes)}
    unknown = next((row for row, text in enumerate(shown) if text not in number), None)
    if unknown is not None:
        raise DataError(
            f"{table.source}: every class should occur in train. (got {shown[unknown]!r} "
            f"{table.place(unknown)}, of the column {column!r}) {_remedy_of_unknown(classes)}"
        )
    return torch.tensor([number[text] for text in shown]), classes


def _remedy_of_unknown(classes: Sequence[str]) -> str:
    """What to do about a class that train does not have."""
    if all(as_float(name) is not None for name in classes):
        return "For numbers to predict, add task=regression; else move a row of it into train."
    return "Move a row of it into train, or remove it."


def _read_numbers(table: Table, column: str) -> Tensor:
    values = []
    for row, cell in enumerate(table.columns[column]):
        number = as_float(cell)
        if number is None or not np.isfinite(number):
            raise DataError(
                f"{table.source}: the column {column!r} should hold finite numbers. "
                f"(got {shown_cell(cell)!r} {table.place(row)}) Remove the row or, to predict "
                "classes, leave task=regression out."
            )
        values.append(number)
    return torch.tensor(values, dtype=torch.float32)


def as_float(cell: Any) -> float | None:
    """A cell as a number; None if it is none, or missing.

    >>> [as_float(cell) for cell in ("1.5", "", "a", None, True, 2)]
    [1.5, None, None, None, 1.0, 2.0]
    """
    try:
        return float(cell)
    except (TypeError, ValueError):
        return None


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
