"""The canonical spelling of a configuration, so that equal ones have equal hashes."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from expunge._errors import InvalidInput


def canonical(value: Any, where: str = "config") -> Any:
    """Convert ``value`` to plain JSON values, spelled in one way.

    Tuples become lists and whole floats become ints: ``1``, ``1.0`` and a command line's ``1.``
    are one number. ``True`` is not ``1``. NaN, infinities and anything that JSON does not know are
    refused, in an error that names their place.

    >>> canonical({"lr": 1.0, "ratios": (0.5, 2)})
    {'lr': 1, 'ratios': [0.5, 2]}
    """
    try:
        return _walk(value, where)
    except RecursionError:
        raise InvalidInput(f"`{where}` is nested too deeply, or contains itself.") from None


def _walk(value: Any, where: str) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _string(value, where)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInput(f"`{where}` should be a finite number. (got {value})")
        return int(value) if value.is_integer() else float(value)
    if isinstance(value, Mapping):
        if wrong := [key for key in value if not isinstance(key, str)]:
            raise InvalidInput(f"The keys of `{where}` should be strings. (got {wrong[0]!r})")
        return {_string(k, where): _walk(v, f"{where}.{k}") for k, v in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview, range)):
        return [_walk(item, f"{where}[{index}]") for index, item in enumerate(value)]
    raise InvalidInput(
        f"`{where}` should be made of numbers, strings, booleans, None, lists and mappings. "
        f"(got a {type(value).__name__})"
    )


def _string(value: str, where: str) -> str:
    try:
        return value.encode().decode()  # also turns a string enumeration into its value
    except UnicodeEncodeError:
        raise InvalidInput(f"`{where}` holds text that is not Unicode. (got {value!a})") from None


def freeze(value: Any) -> Any:
    """Make canonical values immutable: mappings read-only, lists as tuples."""
    if isinstance(value, dict):
        return MappingProxyType({key: freeze(item) for key, item in value.items()})
    return tuple(freeze(item) for item in value) if isinstance(value, list) else value


def dumps(value: Any) -> str:
    """The one JSON text of a canonical value."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except ValueError as error:  # an integer with thousands of digits
        raise InvalidInput(f"The configuration cannot be written as JSON: {error}.") from None


def key_of(kind: str, version: int, config: Any, parents: Sequence[str]) -> str:
    """sha256 of what the result depends on: kind, version, canonical config, the parents' keys."""
    return hashlib.sha256(dumps([kind, version, config, list(parents)]).encode()).hexdigest()
