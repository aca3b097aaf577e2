"""Parts as plain values and back: what a configuration file or a cache key can hold."""

from __future__ import annotations

import dataclasses
from pkgutil import resolve_name
from typing import Any

from expunge._errors import InvalidInput
from expunge._options import is_implied, stored_as

STORED_NAMES = {"expunge.update.aggregate:Linear": "expunge.update.aggregate:WeightedSum"}
"""Parts that files and keys know by another name than the code: a key must never change."""


def describe(part: Any) -> Any:
    """A frozen dataclass as JSON-able values: its class, and its fields likewise."""
    if part is None or isinstance(part, (bool, int, float, str)):
        return part
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        kind = type(part)
        values = {f: getattr(part, f.name) for f in dataclasses.fields(part)}
        fields = {stored_as(f): describe(v) for f, v in values.items() if not is_implied(f, v)}
        return {"part": _stored_name(kind), "fields": fields}
    if isinstance(part, (list, tuple)):
        return [describe(item) for item in part]
    raise InvalidInput(
        f"A {type(part).__name__} cannot be written down as plain values, so a run with it cannot "
        "be cached or repeated elsewhere. Use a part that is a frozen dataclass."
    )


def _stored_name(kind: type) -> str:
    """A class as files and keys name it: private modules without their underscore."""
    module = kind.__module__
    name = module.replace("._", ".") if module.startswith("expunge.") else module
    name = f"{name}:{kind.__qualname__}"
    return next((stored for stored, now in STORED_NAMES.items() if now == name), name)


def code_of_parts(description: Any) -> list[str]:
    """The classes of other packages that rebuilding a part would import.

    >>> code_of_parts({"part": "shop.methods:Push", "fields": {"loss": {"part": "expunge.x:Y"}}})
    ['shop.methods:Push']
    """
    if isinstance(description, list):
        return [name for item in description for name in code_of_parts(item)]
    if not isinstance(description, dict):
        return []
    part = str(description.get("part"))
    inner = code_of_parts(list(dict(description.get("fields", {})).values()))
    return [*([] if part.startswith("expunge.") else [part]), *inner]


def rebuild(description: Any) -> Any:
    """The part that :func:`describe` wrote down; its module is imported if need be."""
    if isinstance(description, list):
        return [rebuild(item) for item in description]
    if not isinstance(description, dict):
        return description
    stored: str = description["part"]
    module, _, name = STORED_NAMES.get(stored, stored).partition(":")
    if module.startswith("expunge."):
        package, _, leaf = module.rpartition(".")
        module = f"{package}._{leaf}"
    kind: Any = resolve_name(f"{module}:{name}")
    is_part = isinstance(kind, type) and dataclasses.is_dataclass(kind)
    if not is_part or _stored_name(kind) != stored:
        raise InvalidInput(f"{stored} is not a part.")
    names = {stored_as(f): f.name for f in dataclasses.fields(kind)}
    fields = description["fields"].items()
    return kind(**{names.get(key, key): rebuild(value) for key, value in fields})
