"""JSON that can be read in one way only: no key twice, no NaN and no infinity."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from expunge._errors import DataError
from expunge._files import read_regular

if TYPE_CHECKING:
    from pydantic import BaseModel

Model = TypeVar("Model", bound="BaseModel")


def parse_json(text: str | bytes) -> Any:
    """The values in ``text``, or a ValueError.

    >>> parse_json('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ValueError: the key 'a' is there twice
    """
    try:
        text = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        return json.loads(
            text, object_pairs_hook=_once_each, parse_constant=_no_number, parse_float=_finite
        )
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def read_json(path: Path) -> Any:
    """The values in a file; a file that is not there raises a FileNotFoundError."""
    try:
        return parse_json(read_regular(path))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise DataError(f"{path} is not valid JSON: {error}.") from error


def read_model(path: Path, kind: type[Model]) -> Model:
    """A file as a pydantic model; a file that is not there raises a FileNotFoundError."""
    return as_model(read_json(path), kind, f"{path} cannot be read")


def as_model(values: Any, kind: type[Model], complaint: str) -> Model:
    """Plain values as a pydantic model; an error adds the first field that is wrong."""
    from pydantic import ValidationError

    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise DataError(f"{complaint}: {where}: {first['msg']}.") from error


def to_json_types(value: Any) -> Any:
    """``value`` in the types of JSON: NaN and infinity are null, and what is unknown is text."""
    if isinstance(value, Mapping):
        return {str(name): to_json_types(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json_types(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, bool | int | float | str | None) else str(value)


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise ValueError(f"the key {key!r} is there twice")
        values[key] = value
    return values


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is too large")
    return value
