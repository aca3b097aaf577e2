"""How the cells of a table become tensors: a rule that is learnt from the training rows alone.

========= ======================================================================================
number    the number itself, float32. Built-in models standardise it by the rows they train on.
category  one column per value that at least two training rows have, and one for all other values
text      words are runs of letters and digits in lower case; the id of a word is
          1 + CRC-32(word) mod (vocabulary - 1), so that nothing of anybody's words is recorded
tokens    the ids as they are
image     the file that a path names, or its bytes, in the size of the first training image
========= ======================================================================================

Id 0 pads a text to the longest one of train; what is longer than ``length`` tokens is cut there.
Missing numbers and categories are refused.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from expunge._errors import DataError
from expunge.data._examples import Examples, ImageSet
from expunge.data._formats import MAX_TOKENS
from expunge.data._table import Rows, Table, as_float, is_finite_number, is_missing, shown_cell

RARE = 2
"""A value that fewer training rows have is not given a column of its own."""
MAX_VALUES = 1000
VOCABULARY = 16_384
"""Ids that words are hashed to."""
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Encoding:
    """A rule that turned rows into tensors: the size of an input, and plain values for a card."""

    size: int
    rule: list[dict[str, Any]]


Encode = Callable[[Sequence[int]], Tensor]
"""From row numbers to inputs [N, ...]."""


def encode_splits(
    train: Rows, val: Rows, test: Rows
) -> tuple[Examples, Examples, Examples, Encoding]:
    """Learn an encoding from ``train``, and apply it to all three."""
    learn = {"text": _learn_words, "tokens": _learn_token_ids, "image": _learn_images}
    encode, encoding = learn.get(train.roles.kind, _learn_vectors)(train)

    def encoded(rows: Rows) -> Examples:
        kind = ImageSet if rows.roles.kind == "image" else Examples
        return kind(encode(rows.inputs.tolist()), rows.labels, rows.classes, rows.names)

    return encoded(train), encoded(val), encoded(test), encoding


# Vectors: numbers and categories, float32 [N, F].


def _learn_vectors(train: Rows) -> tuple[Encode, Encoding]:
    learnt = [_learn_column(train, name) for name in train.roles.inputs]

    def encode(rows: Sequence[int]) -> Tensor:
        return torch.from_numpy(np.concatenate([column(rows) for column, _ in learnt], axis=1))

    rule = [described for _, described in learnt]
    return encode, Encoding(sum(described["width"] for described in rule), rule)


def _learn_column(
    train: Rows, name: str
) -> tuple[Callable[[Sequence[int]], np.ndarray[Any, Any]], dict[str, Any]]:
    """A function that encodes a column [N, width], and its description."""
    table, cells, rows = train.table, train.table.columns[name], train.inputs.tolist()
    table.check(
        name,
        (not is_missing(cell) and str(cell).lower() != "nan" for cell in cells),
        "have no missing values",
        f"Fill it in, or leave the column out: ignore={name}.",
    )
    numbers = name not in train.roles.categories
    if numbers and all(as_float(cells[row]) is not None for row in rows):
        table.check(
            name,
            map(is_finite_number, cells),
            "hold finite numbers, as in train",
            f"If they are categories, say so: categories={name}.",
        )

        def encode_numbers(rows: Sequence[int]) -> np.ndarray[Any, Any]:
            return np.array([[as_float(cells[row])] for row in rows], np.float32).reshape(-1, 1)

        return encode_numbers, {"column": name, "as": "number", "width": 1}
    values = _common_values(table, name, rows)
    position = {value: k for k, value in enumerate(values)}

    def encode_categories(rows: Sequence[int]) -> np.ndarray[Any, Any]:
        chosen = [position.get(shown_cell(cells[row]), len(values)) for row in rows]
        return np.eye(len(values) + 1, dtype=np.float32)[chosen]

    described = {"column": name, "as": "category", "width": len(values) + 1}
    digest = hashlib.sha256("\0".join(values).encode()).hexdigest()
    return encode_categories, described | {"values_sha256": digest}


def _common_values(table: Table, name: str, rows: Sequence[int]) -> list[str]:
    """The values that at least :data:`RARE` training rows have, sorted."""
    cells = table.columns[name]
    counts = Counter(shown_cell(cells[row]) for row in rows)
    common = sorted(value for value, count in counts.items() if count >= RARE)
    if common and len(common) <= MAX_VALUES:
        return common
    odd = next((row for row in rows if as_float(cells[row]) is None), rows[0])
    raise DataError(
        f"{table.source}: the column {name!r} is neither numbers nor categories: {len(counts)} "
        f"different values in {len(rows)} training rows, such as {shown_cell(cells[odd])[:40]!r} "
        f"{table.place(odd)}. Leave it out (ignore={name}), or say what it is (text={name}, "
        f"id={name})."
    )


# Text and token ids, int64 [N, L].


def _learn_words(train: Rows) -> tuple[Encode, Encoding]:
    """Hashes of the words of one or more columns."""
    columns, size = train.roles.inputs, train.roles.vocabulary or VOCABULARY
    cells = train.table.columns

    def read(row: int) -> list[int]:
        return hash_words(" ".join(shown_cell(cells[name][row]) for name in columns), size)

    length = _longest(train, read)
    rule = {"as": "hashed words", "length": length, "vocabulary": size}
    encoding = Encoding(size, [{"column": name} | rule for name in columns])
    return lambda rows: _padded([read(row) for row in rows], length), encoding


def hash_words(text: str, size: int = VOCABULARY) -> list[int]:
    """The ids of the words of a text, each in 1..size-1; equal words have equal ids."""
    words = _WORD.findall(text.lower())
    return [1 + zlib.crc32(word.encode()) % (size - 1) for word in words]


def _learn_token_ids(train: Rows) -> tuple[Encode, Encoding]:
    """A column of token ids: as many as train uses, unless ``vocabulary`` says how many."""
    table, (column,) = train.table, train.roles.inputs
    read = [_as_token_ids(cell) for cell in table.columns[column]]
    table.check(
        column,
        (row is not None for row in read),
        f"hold token ids, whole numbers below {MAX_TOKENS} between blanks or a list of them",
        "Remove the row.",
    )
    ids = [row or [] for row in read]
    length = _longest(train, ids.__getitem__)
    largest = max((max(ids[row], default=0) for row in train.inputs.tolist()), default=0)
    size = train.roles.vocabulary or largest + 1
    table.check(
        column,
        (max(row[:length], default=0) < size for row in ids),
        f"hold token ids below {size}",
        "Say how many there are: vocabulary=N.",
    )
    rule = {"column": column, "as": "token ids", "length": length, "vocabulary": size}
    return lambda rows: _padded([ids[row] for row in rows], length), Encoding(size, [rule])


def _as_token_ids(cell: Any) -> list[int] | None:
    """Token ids, from a list or from numbers between blanks; None if a cell holds none."""
    try:
        ids = [int(part) for part in (cell.split() if isinstance(cell, str) else cell)]
    except (TypeError, ValueError):
        return None
    return ids if all(token in range(MAX_TOKENS) for token in ids) else None


def _longest(train: Rows, read: Callable[[int], list[int]]) -> int:
    """Tokens of the longest training row, and ``length`` at most."""
    longest = max((len(read(row)) for row in train.inputs.tolist()), default=1)
    return max(1, min(train.roles.length, longest))


def _padded(ids: Sequence[Sequence[int]], length: int) -> Tensor:
    rows = [[*row[:length], *[0] * (length - len(row))] for row in ids]
    return torch.tensor(rows, dtype=torch.int64).view(-1, length)


# Images, uint8 [N, C, H, W].


def _learn_images(train: Rows) -> tuple[Encode, Encoding]:
    """The size of the first training image; RGB unless all training images are grey."""
    from expunge.data._folder import common_format, decode_images

    file_of = partial(_image_file, train.table, train.roles.inputs[0])
    size, mode = common_format(map(file_of, train.inputs.tolist()))

    def encode(rows: Sequence[int]) -> Tensor:
        return torch.from_numpy(decode_images([file_of(row) for row in rows], size, mode))

    rule = {"column": train.roles.inputs[0], "as": "image", "size": list(size), "mode": mode}
    return encode, Encoding(1 if mode == "L" else 3, [rule])


def _image_file(table: Table, column: str, row: int) -> tuple[str, Path | bytes]:
    """What messages call an image, and its path or its content."""
    cell = table.columns[column][row]
    if isinstance(cell, dict):  # as the datasets library stores them
        cell = cell.get("bytes") or cell.get("path")
    if isinstance(cell, bytes):
        return f"{table.source}: the image {table.place(row)}", cell
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
    return str(path), path
