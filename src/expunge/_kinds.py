"""Kinds of values: what the annotations of a function or a part promise, checked at the call."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import numbers
import os
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, cast, get_args, get_origin

from expunge._errors import InvalidInput

NUMBERS: dict[Any, tuple[Any, str]] = {
    int: (numbers.Integral, "a whole number"),
    float: (numbers.Real, "a number"),
    bool: (bool, "True or False"),
}
WORDS = {
    "builtins.str": "a string",
    "builtins.dict": "a dict",
    "collections.abc.Callable": "a function",
    "collections.abc.Mapping": "a dict",
    "pathlib.Path": "a path",
    "torch.Tensor": "a tensor",
    "torch.nn.modules.module.Module": "a torch.nn.Module",
    "torch.utils.data.dataset.Dataset": "a map-style Dataset",
    "expunge.update._addons.Addon": "an add-on",
    "expunge.update._moments.Moments": "moments",
}
"""Kinds by their full names, so that nothing has to be imported to describe them."""
NOTHING: Any = types.NoneType


@dataclass(frozen=True)
class Range:
    """Numbers between ``low`` and ``high``, in an annotation; ``ends`` as in ``[0, 1)``."""

    low: float
    high: float = math.inf
    ends: str = "()"

    def __contains__(self, value: Any) -> bool:
        above = self.low <= value if self.ends[0] == "[" else self.low < value
        return bool(above and (value <= self.high if self.ends[1] == "]" else value < self.high))

    def in_words(self, kind: Any) -> str:
        """What messages call such numbers, of the kind ``int`` or ``float``."""
        if kind is int:
            most = f" and at most {self.high}" if self.high < math.inf else ""
            return f"a whole number, at least {self.low}{most}"
        if self.high < math.inf:
            return f"in {self.ends[0]}{self.low:g}, {self.high:g}{self.ends[1]}"
        if self.low == -math.inf:
            return "finite"
        if self.ends[0] == "(":
            return "positive and finite"
        return "finite and " + (f"at least {self.low:g}" if self.low else "not negative")


Finite = Annotated[float, Range(-math.inf)]
Positive = Annotated[float, Range(0)]
NotNegative = Annotated[float, Range(0, ends="[)")]
Fraction = Annotated[float, Range(0, 1)]
Count = Annotated[int, Range(1, ends="[)")]
NaturalNumber = Annotated[int, Range(0, ends="[)")]
SEEDS = range(2**63)
"""What every random generator here takes."""
CHECKED_ITEMS = 100
"""Of a long list, this many items are checked."""


def check_arguments(function: Any, arguments: Mapping[str, Any]) -> None:
    """Raise unless the ``arguments`` of a call are of the kinds that ``function`` declares.

    What users call begins with ``check_arguments(name_of_it, locals())``. In ``Annotated[kind,
    note]``, the note is what messages call the kind, or the :class:`Range` of a number. Annotations
    that cannot be resolved at run time are left alone.
    """
    for name, kind in _kinds_of(function).items():
        if name in arguments:
            check_kind(name, kind, arguments[name])


def check_fields(part: Any) -> None:
    """Raise unless the fields of a dataclass are of the kinds that it declares."""
    names = [item.name for item in dataclasses.fields(part)]
    check_arguments(type(part), {name: getattr(part, name) for name in names})


@dataclass(frozen=True)
class Part:
    """A frozen dataclass whose fields are checked when it is made: its ``repr`` is what it does."""

    def __post_init__(self) -> None:
        check_fields(self)


def check_kind(name: str, kind: Any, value: Any) -> None:
    """Raise unless ``value`` is of ``kind``, an annotation; ``name`` is for the message."""
    misfit = _find_misfit(kind, value)
    if misfit is None:
        if name == "seed" and isinstance(value, int) and value not in SEEDS:
            raise InvalidInput(f"`seed` should be a whole number in 0..2**63-1. (got {value})")
        return
    wanted, wrong, of_list = misfit
    what, call = f"Each of `{name}`" if of_list else f"`{name}`", ""
    if isinstance(wrong, type):
        classes = [get_origin(each) or each for each in _alternatives(wanted)]
        if any(isinstance(each, type) and issubclass(wrong, each) for each in classes):
            call = f" Call it: {wrong.__name__}()."
    raise InvalidInput(f"{what} should be {_in_words(wanted)}. (got {shown(wrong)}){call}")


def _find_misfit(kind: Any, value: Any) -> tuple[Any, Any, bool] | None:
    """A kind, a value that is not of it, and whether that is an item; None if everything fits."""
    whole = (kind, value, False)
    alternatives = _alternatives(kind)
    if len(alternatives) > 1:
        misfits = [_find_misfit(each, value) for each in alternatives]
        if None in misfits:
            return None
        return next((each for each in misfits if each and each[2]), whole)
    if get_origin(kind) is Annotated:
        base, note = get_args(kind)
        if misfit := _find_misfit(base, value):
            return whole if isinstance(note, str) else misfit
        return whole if isinstance(note, Range) and value not in note else None
    if _is_collection(get_origin(kind)):
        items = _items(kind, value)
        if items is None:
            return whole
        return next(((*item, True) for item in items if _find_misfit(*item)), None)
    return None if _is_instance(kind, value) else whole


def _is_instance(kind: Any, value: Any) -> bool:
    """Whether ``value`` is what an annotation says that has no parts."""
    plain = get_origin(kind) or kind
    if isinstance(plain, TypeVar):
        return plain.__bound__ is None or _find_misfit(plain.__bound__, value) is None
    if plain in (None, NOTHING):
        return value is None
    if plain in NUMBERS:  # a switch is not a number
        return isinstance(value, NUMBERS[plain][0]) and isinstance(value, bool) == (plain is bool)
    if plain is Literal:
        return isinstance(value, str | bool) and value in get_args(kind)
    if plain is Callable:
        return callable(value)
    if plain is Path:
        return isinstance(value, os.PathLike)
    if not isinstance(plain, type):
        return True
    if _full_name(plain) == "torch.utils.data.dataset.Dataset":
        return is_map_style(value)
    try:
        return isinstance(value, plain)
    except TypeError:  # a protocol that is not for run time
        return True


def is_map_style(data: Any) -> bool:
    """Whether ``data`` can be read by index: a Dataset, or a list of examples."""
    streams = any(base.__name__ == "IterableDataset" for base in type(data).__mro__)
    others = isinstance(data, type | str | bytes | Mapping)
    return hasattr(data, "__getitem__") and not (streams or others)


def shown(value: Any) -> str:
    """A value as messages show it: short ones in full, of others the type."""
    if isinstance(value, type):
        return value.__name__
    plain = value is None or isinstance(value, str | numbers.Number)
    return repr(value) if plain and len(repr(value)) <= 80 else type(value).__name__


@functools.cache
def _kinds_of(owner: Any) -> dict[str, Any]:
    """The annotations of a function or class that can be resolved."""
    kinds = {}
    for part in reversed(owner.__mro__) if isinstance(owner, type) else (inspect.unwrap(owner),):
        names = getattr(part, "__globals__", None) or vars(sys.modules[part.__module__])
        for name, kind in inspect.get_annotations(part).items():
            with suppress(NameError, AttributeError, TypeError):
                kinds[name] = eval(kind, dict(names)) if isinstance(kind, str) else kind
    return kinds


def _alternatives(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (typing.Union, types.UnionType) else (kind,)


def _is_collection(plain: Any) -> bool:
    """Whether a class is a list, a dict or the like."""
    known = getattr(plain, "__module__", "") in ("builtins", "collections.abc")
    return known and isinstance(plain, type) and issubclass(plain, Iterable)


def _items(kind: Any, value: Any) -> list[tuple[Any, Any]] | None:
    """The kind and value of each of the first items; None if ``value`` is not such a collection."""
    plain, of = cast("Any", get_origin(kind)), get_args(kind)
    # Text is a list of strings at most, a dict is not a list, and a list may stand for a tuple.
    text = isinstance(value, str | bytes | bytearray | memoryview) and of[0] is not str
    if text or (isinstance(value, Mapping) and not issubclass(plain, Mapping)):
        return None
    if issubclass(plain, tuple) and of[-1] is not Ellipsis:
        whole = isinstance(value, tuple | list) and len(value) == len(of)
        return list(zip(of, value, strict=True)) if whole else None
    if not isinstance(value, (tuple, list) if issubclass(plain, tuple) else plain):
        return None
    items: Any = value.values() if isinstance(value, Mapping) else value
    item_kind = of[-1] if issubclass(plain, Mapping) else of[0]
    known = islice(items, CHECKED_ITEMS) if isinstance(items, Collection) else ()
    return [(item_kind, item) for item in known]


def _in_words(kind: Any) -> str:
    """What a message calls a kind: "a Recipe, or None"."""
    alternatives = _alternatives(kind)
    if len(alternatives) > 1:
        names = ["a name"] if str in alternatives and Path not in alternatives else []
        others = [_in_words(each) for each in alternatives if each not in (str, NOTHING)]
        *most, last = dict.fromkeys([*names, *others])
        known = f"{', '.join(most)} or {last}" if most else last
        return known + (", or None" if NOTHING in alternatives else "")
    plain = get_origin(kind) or kind
    if plain is Annotated:
        base, note = get_args(kind)
        return note.in_words(base) if isinstance(note, Range) else str(note)
    if plain is Literal:
        choices = [str(each) for each in get_args(kind)]
        return f"one of {', '.join(choices)}" if len(choices) > 1 else f'"{choices[0]}"'
    if plain in NUMBERS:
        return NUMBERS[plain][1]
    if _full_name(plain) in WORDS:
        return WORDS[_full_name(plain)]
    if _is_collection(plain):
        of = get_args(kind)
        sized = issubclass(plain, tuple) and of and of[-1] is not Ellipsis
        return f"a list of {len(of)}" if sized else "a list"
    name = plain.__name__
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def _full_name(kind: Any) -> str:
    return f"{kind.__module__}.{getattr(kind, '__qualname__', '')}"
