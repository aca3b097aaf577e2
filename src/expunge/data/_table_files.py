"""Tables from CSV and Parquet files, and from the datasets library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from expunge._errors import DataError
from expunge._lazy import import_extra
from expunge.data._csv_file import read_table
from expunge.data._table import SPLIT_NAMES, Rows, Table, assign_roles, divide_rows

Parts = tuple[Rows, Rows | None, Rows | None]
"""Train; test and val if the table says which rows they are."""


def load_csv(path: Path, **options: Any) -> Parts:
    """The rows of a CSV file with a header (or TSV, if its name ends in .tsv)."""
    names, rows = read_table(path)
    if unnamed := [number for number, name in enumerate(names) if not name]:
        raise DataError(
            f"{path}: every column should have a name. (column {1 + unnamed[0]} has none) A table "
            "that pandas wrote has its index there: write it with index=False."
        )
    columns = {name: [row[k] for _, row in rows] for k, name in enumerate(names)}
    lines = [line for line, _ in rows]
    return _parts(Table(str(path), columns, lines, folder=path.parent), options)


def load_parquet(path: Path, **options: Any) -> Parts:
    """The rows of a Parquet file, or of a folder of them."""
    parquet = import_extra("pyarrow.parquet", "parquet", "Parquet files")
    try:
        content = parquet.read_table(path)
        columns = {name: content.column(name).to_pylist() for name in content.column_names}
    except Exception as error:  # the parser fails in too many ways to list on a damaged file
        raise DataError(
            f"{path} cannot be read as a Parquet file: {_sentence(error)} Get a fresh copy of it."
        ) from error
    return _parts(Table(str(path), columns, folder=_folder_of(path)), options)


def load_hf(path: Path, **options: Any) -> Parts:
    """A dataset that ``datasets`` saved to disk, or one that its ``load_dataset`` finds."""
    library = import_extra("datasets", "hf", "datasets of the Hugging Face library")
    try:
        if path.is_dir() and any(path.glob("*.json")):
            loaded = library.load_from_disk(str(path))
        else:
            loaded = library.load_dataset(str(path))
    except Exception as error:  # not there, no network, damaged, or in need of code of its own
        raise DataError(
            f"The datasets library cannot load {path}: {type(error).__name__}: {_sentence(error)} "
            "Save the dataset with its save_to_disk(FOLDER), and give that folder."
        ) from error
    return _parts(_from_hf(library, loaded, path), options)


def _from_hf(library: Any, loaded: Any, path: Path) -> Table:
    by_name = dict(loaded) if isinstance(loaded, library.DatasetDict) else {"": loaded}
    unknown = [name for name in by_name if name and name not in SPLIT_NAMES]
    if unknown and not {"train", "test"} <= {SPLIT_NAMES.get(name) for name in by_name}:
        raise DataError(
            f"{path} should have the splits train, test and possibly validation. "
            f"(got {', '.join(by_name)})"
        )
    parts = {name: part for name, part in by_name.items() if name not in unknown}
    first = next(iter(parts.values()))
    columns: dict[str, list[Any]] = {name: [] for name in first.column_names}
    splits: list[str] = []
    for name, part in parts.items():
        for column, feature in part.features.items():
            if isinstance(feature, library.Image):
                part = part.cast_column(column, library.Image(decode=False))
        for column in columns:
            columns[column] += list(part[column])
        splits += [SPLIT_NAMES.get(name, "")] * len(part)
    classes = {
        column: tuple(feature.names)
        for column, feature in first.features.items()
        if isinstance(feature, library.ClassLabel)
    }
    divided = splits if len(parts) > 1 else None
    return Table(str(path), columns, class_names=classes, splits=divided, folder=_folder_of(path))


def _parts(table: Table, options: dict[str, Any]) -> Parts:
    return divide_rows(table, assign_roles(table, options))


def _sentence(error: Exception) -> str:
    """What a library says, with one full stop."""
    return f"{str(error).rstrip(' .')}."


def _folder_of(path: Path) -> Path:
    return path if path.is_dir() else path.parent
