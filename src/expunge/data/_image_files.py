"""A column of images: paths relative to the table's folder, or the bytes of files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from expunge._errors import DataError
from expunge.data._folder import GREY, decode_image, read_image_header
from expunge.data._table import Table, is_missing


@dataclass(frozen=True)
class ImageFiles:
    """Images in ``mode`` L or RGB, resized to ``shape`` (height, width): uint8 [N, C, H, W]."""

    column: str
    shape: tuple[int, int]
    mode: str

    @classmethod
    def learn(cls, table: Table, column: str, rows: Sequence[int]) -> ImageFiles:
        """The size of the first training image; RGB unless all training images are grey."""
        heads = [read_image_header(*_reader(table, column, row)) for row in rows]
        grey = all(mode in GREY for mode, _ in heads)
        return cls(column, heads[0][1], "L" if grey else "RGB")

    @property
    def size(self) -> int:
        return 1 if self.mode == "L" else 3

    def encode(self, table: Table, rows: Sequence[int]) -> Tensor:
        pixels = np.empty((len(rows), self.size, *self.shape), np.uint8)
        for at, row in enumerate(rows):
            pixels[at] = decode_image(*_reader(table, self.column, row), self.shape, self.mode)
        return torch.from_numpy(pixels)

    def describe(self) -> list[dict[str, Any]]:
        return [{"column": self.column, "as": "image", "size": list(self.shape), "mode": self.mode}]


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
