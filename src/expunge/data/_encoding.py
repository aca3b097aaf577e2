"""How the rows of a table become tensors: a rule that is learnt from the training rows alone.

========= ======================================================================================
number    the number itself, float32. Built-in models standardise it by the rows they train on.
category  one column per value that at least two training rows have, and one for all other values
text      words are runs of letters and digits in lower case; the id of a word is
          1 + CRC-32(word) mod (vocabulary - 1), so that nothing of anybody's words is recorded
tokens    the ids as they are
image     the file that a path names, or its bytes, in the size of the first training image
========= ======================================================================================

Id 0 pads a text to the longest one of train; what is longer than ``length`` tokens is cut there.
Missing numbers and categories are refused, unless ``missing=encode``: then a missing number is the
mean of the training rows, with a column that says so where training rows miss it, and a missing
category is a value of its own.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from expunge._errors import DataError
from expunge.data._examples import Examples
from expunge.data._formats import MAX_TOKENS
from expunge.data._table import Rows, Table, as_float, is_missing, shown_cell

RARE = 2
"""A value that fewer training rows have is not given a column of its own."""
MAX_VALUES = 1000
VOCABULARY = 16_384
"""Ids that words are hashed to."""
_WORD = re.compile(r"[^\W_]+")


class Encoding(Protocol):
    """A rule that turns rows into tensors."""

    @property
    def size(self) -> int:
        """Columns of a vector, token ids there are, or channels of an image."""

    def encode(self, table: Table, rows: Sequence[int]) -> Tensor:
        """The inputs of ``rows``, [N, ...]."""

    def describe(self) -> list[dict[str, Any]]:
        """The rule in plain values, without anything that rows say: for the card of a model."""


def encode_splits(
    train: Rows, val: Rows, test: Rows
) -> tuple[Examples, Examples, Examples, Encoding]:
    """Learn an encoding from ``train``, and apply it to all three."""
    encoding = learn_encoding(train.table, train)
    made = [_encoded(part, encoding) for part in (train, val, test)]
    return made[0], made[1], made[2], encoding


def _encoded(rows: Rows, encoding: Encoding) -> Examples:
    from expunge.data._images import ImageSet

    inputs = encoding.encode(rows.table, rows.inputs.tolist())
    images = inputs.ndim == 4 and inputs.dtype == torch.uint8
    return (ImageSet if images else Examples)(inputs, rows.labels, rows.classes, rows.names)


def learn_encoding(table: Table, train: Rows) -> Encoding:
    """The encoding that the roles of a table ask for, learnt from the rows in ``train``."""
    roles, rows = train.roles, train.inputs.tolist()
    if roles.kind == "text":
        return WordHashes.learn(table, roles.inputs, rows, roles.length, roles.vocabulary)
    if roles.kind == "tokens":
        return TokenIds.learn(table, roles.inputs[0], rows, roles.length, roles.vocabulary)
    if roles.kind == "image":
        return ImageFiles.learn(table, roles.inputs[0], rows)
    columns = tuple(
        Column.learn(table, name, rows, roles.missing == "encode", name in roles.categories)
        for name in roles.inputs
    )
    return Vectors(columns)


@dataclass(frozen=True)
class Column:
    """How one column of a table is encoded.

    ``values`` are the categories with a column of their own. ``mean`` stands for missing numbers;
    None if they are refused. ``flagged``: one more column says where a number is missing.
    """

    name: str
    kind: Literal["number", "category"]
    values: tuple[str, ...] = ()
    mean: float | None = None
    flagged: bool = False
    encodes_missing: bool = False

    @classmethod
    def learn(
        cls, table: Table, name: str, rows: Sequence[int], encode_missing: bool, category: bool
    ) -> Column:
        """The encoding of a column, from the cells in ``rows``."""
        cells = [table.columns[name][row] for row in rows]
        if not encode_missing:
            _refuse_missing(table, name)
        present = [cell for cell in cells if not _is_missing_number(cell)]
        numbers = [as_float(cell) for cell in present]
        if not category and numbers and None not in numbers:
            mean = float(np.mean(np.array(numbers, dtype=np.float64)))
            flagged = encode_missing and len(present) < len(cells)
            return cls(name, "number", (), mean, flagged, encode_missing)
        return cls(name, "category", _values(table, name, rows), None, False, encode_missing)

    @property
    def width(self) -> int:
        """Columns that this one becomes."""
        return 1 + self.flagged if self.kind == "number" else len(self.values) + 1

    def encode(self, table: Table, rows: Sequence[int]) -> np.ndarray[Any, np.dtype[np.float32]]:
        """[N, width]."""
        cells = table.columns[self.name]
        made = np.zeros((len(rows), self.width), np.float32)
        if self.kind == "category":
            position = {value: k for k, value in enumerate(self.values)}
            for at, row in enumerate(rows):
                made[at, position.get(shown_cell(cells[row]), len(self.values))] = 1.0
            return made
        for at, row in enumerate(rows):
            number = None if _is_missing_number(cells[row]) else as_float(cells[row])
            if number is None and not _is_missing_number(cells[row]):
                raise _no_number(table, self.name, row)
            if number is not None and not np.isfinite(np.float32(number)):
                raise _no_number(table, self.name, row)
            made[at, 0] = self.mean if number is None else number
            if self.flagged:
                made[at, 1] = number is None
        return made


@dataclass(frozen=True)
class Vectors:
    """All columns side by side, float32 [N, F]."""

    columns: tuple[Column, ...]

    @property
    def size(self) -> int:
        return sum(column.width for column in self.columns)

    def encode(self, table: Table, rows: Sequence[int]) -> Tensor:
        return torch.from_numpy(
            np.concatenate([column.encode(table, rows) for column in self.columns], axis=1)
        )

    def describe(self) -> list[dict[str, Any]]:
        return [
            {"column": column.name, "as": column.kind, "width": column.width}
            | ({"values_sha256": _hash(column.values)} if column.kind == "category" else {})
            for column in self.columns
        ]


@dataclass(frozen=True)
class WordHashes:
    """Hashes of the words of one or more columns, int64 [N, L]."""

    columns: tuple[str, ...]
    length: int
    size: int

    @classmethod
    def learn(
        cls,
        table: Table,
        columns: tuple[str, ...],
        rows: Sequence[int],
        length: int,
        vocabulary: int | None,
    ) -> WordHashes:
        """As long as the longest text in ``rows``, and ``length`` at most."""
        size = VOCABULARY if vocabulary is None else vocabulary
        made = cls(columns, length, size)
        longest = max((len(made._ids(table, row)) for row in rows), default=1)
        return cls(columns, max(1, min(length, longest)), size)

    def encode(self, table: Table, rows: Sequence[int]) -> Tensor:
        return _padded([self._ids(table, row)[: self.length] for row in rows], self.length)

    def _ids(self, table: Table, row: int) -> list[int]:
        text = " ".join(shown_cell(table.columns[name][row]) for name in self.columns)
        return hash_words(text, self.size)

    def describe(self) -> list[dict[str, Any]]:
        rule = {"as": "hashed words", "length": self.length, "vocabulary": self.size}
        return [{"column": name} | rule for name in self.columns]


@dataclass(frozen=True)
class TokenIds:
    """A column of token ids, as lists or as numbers between blanks, int64 [N, L]."""

    column: str
    length: int
    size: int

    @classmethod
    def learn(
        cls, table: Table, column: str, rows: Sequence[int], length: int, vocabulary: int | None
    ) -> TokenIds:
        """As many ids as the training rows use, unless ``vocabulary`` says how many there are."""
        ids = [_read_ids(table, column, row) for row in rows]
        largest = max((max(row, default=0) for row in ids), default=0)
        longest = max((len(row) for row in ids), default=1)
        return cls(column, max(1, min(length, longest)), vocabulary or largest + 1)

    def encode(self, table: Table, rows: Sequence[int]) -> Tensor:
        ids = []
        for row in rows:
            tokens = _read_ids(table, self.column, row)[: self.length]
            if tokens and max(tokens) >= self.size:
                raise DataError(
                    f"{table.source}: token ids should be below {self.size}. (got {max(tokens)} "
                    f"{table.place(row)}) Say how many there are: vocabulary=N."
                )
            ids.append(tokens)
        return _padded(ids, self.length)

    def describe(self) -> list[dict[str, Any]]:
        rule = {"as": "token ids", "length": self.length, "vocabulary": self.size}
        return [{"column": self.column} | rule]


@dataclass(frozen=True)
class ImageFiles:
    """Images in ``mode`` L or RGB, resized to ``shape`` (height, width): uint8 [N, C, H, W]."""

    column: str
    shape: tuple[int, int]
    mode: str

    @classmethod
    def learn(cls, table: Table, column: str, rows: Sequence[int]) -> ImageFiles:
        """The size of the first training image; RGB unless all training images are grey."""
        from expunge.data._folder import GREY, read_image_header

        heads = [read_image_header(*_reader(table, column, row)) for row in rows]
        grey = all(mode in GREY for mode, _ in heads)
        return cls(column, heads[0][1], "L" if grey else "RGB")

    @property
    def size(self) -> int:
        return 1 if self.mode == "L" else 3

    def encode(self, table: Table, rows: Sequence[int]) -> Tensor:
        from expunge.data._folder import decode_image

        pixels = np.empty((len(rows), self.size, *self.shape), np.uint8)
        for at, row in enumerate(rows):
            pixels[at] = decode_image(*_reader(table, self.column, row), self.shape, self.mode)
        return torch.from_numpy(pixels)

    def describe(self) -> list[dict[str, Any]]:
        return [{"column": self.column, "as": "image", "size": list(self.shape), "mode": self.mode}]


def hash_words(text: str, size: int = VOCABULARY) -> list[int]:
    """The ids of the words of a text, each in 1..size-1; equal words have equal ids.

    >>> hash_words("Good, good wine!", 100) == hash_words("good GOOD wine", 100)
    True
    """
    words = _WORD.findall(text.lower())
    return [1 + zlib.crc32(word.encode()) % (size - 1) for word in words]


def _padded(ids: Sequence[Sequence[int]], length: int) -> Tensor:
    made = torch.zeros(len(ids), length, dtype=torch.int64)
    for at, row in enumerate(ids):
        made[at, : len(row)] = torch.tensor(row, dtype=torch.int64)
    return made


def _read_ids(table: Table, column: str, row: int) -> list[int]:
    cell = table.columns[column][row]
    parts = cell.split() if isinstance(cell, str) else cell
    try:
        ids = [int(part) for part in parts]
    except (TypeError, ValueError):
        ids = [-1]
    if any(token not in range(MAX_TOKENS) for token in ids):
        raise DataError(
            f"{table.source}: the column {column!r} should hold token ids, whole numbers below "
            f"{MAX_TOKENS} between blanks or a list of them. (got {str(cell)[:40]!r} "
            f"{table.place(row)})"
        )
    return ids


def _reader(table: Table, column: str, row: int) -> tuple[str, Any]:
    """What an image is called in messages, and a function that gives its bytes."""
    cell = table.columns[column][row]
    if isinstance(cell, dict):  # as the datasets library stores them
        cell = cell.get("bytes") or cell.get("path")
    if isinstance(cell, bytes):
        return f"{table.source}: the image {table.place(row)}", lambda: cell
    if is_missing(cell) or not isinstance(cell, str):
        raise DataError(
            f"{table.source}: there should be an image {table.place(row)}. (got none in the column "
            f"{column!r})"
        )
    path = table.folder / Path(cell).expanduser()
    if not path.is_file():
        raise DataError(
            f"{table.source}: there is no file {path}, which the column {column!r} names "
            f"{table.place(row)}. Paths are relative to the folder of the table."
        )
    return str(path), path.read_bytes


def _values(table: Table, name: str, rows: Sequence[int]) -> tuple[str, ...]:
    """The values that at least :data:`RARE` training rows have, sorted."""
    counts = Counter(shown_cell(table.columns[name][row]) for row in rows)
    kept = tuple(sorted(value for value, count in counts.items() if count >= RARE))
    if kept and len(kept) <= MAX_VALUES:
        return kept
    odd = next((row for row in rows if as_float(table.columns[name][row]) is None), None)
    example = "" if odd is None else f", such as {shown_cell(table.columns[name][odd])[:40]!r} "
    example += "" if odd is None else table.place(odd)
    raise DataError(
        f"{table.source}: the column {name!r} is neither numbers nor categories: {len(counts)} "
        f"different values in {len(rows)} training rows{example}. Leave it out (ignore={name}), or "
        f"say what it is (text={name}, id={name})."
    )


def _refuse_missing(table: Table, name: str) -> None:
    rows = [row for row, cell in enumerate(table.columns[name]) if _is_missing_number(cell)]
    if rows:
        raise DataError(
            f"{table.source}: the column {name!r} should have no missing values. (got {len(rows)} "
            f"of {len(table)}, the first {table.place(rows[0])}) Fill them in, leave it out "
            f"(ignore={name}), or encode what is missing (missing=encode)."
        )


def _is_missing_number(cell: Any) -> bool:
    return is_missing(cell) or (isinstance(cell, str) and cell.lower() == "nan")


def _no_number(table: Table, name: str, row: int) -> DataError:
    return DataError(
        f"{table.source}: the column {name!r} should hold finite numbers, as in train. "
        f"(got {shown_cell(table.columns[name][row])[:40]!r} {table.place(row)}) If they are "
        f"categories, say so: categories={name}."
    )


def _hash(values: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(values).encode()).hexdigest()
