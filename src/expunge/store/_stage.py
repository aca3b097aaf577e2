"""A stage: one piece of long work, described so that its result can be found again."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from expunge._errors import InvalidInput
from expunge._kinds import NotNegative, check_fields

_KIND = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_RUN = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


@dataclass(frozen=True, eq=False, repr=False)
class Stage:
    """One piece of long work, and everything that its result depends on.

    ``kind``, ``version`` (bump it when the meaning of the stage changes), ``config`` and the
    parents make the ``key``; ``run``, ``title``, ``options`` (device, threads) and ``cost`` (any
    unit, only ratios count) do not. Two stages are equal when their keys are.

    ``run`` names a function, ``"package.module:function"``, that a worker imports and calls with a
    :class:`~expunge.dispatch.Context`. It receives ``config`` in its canonical spelling, where
    whole floats are ints (see :func:`canonical`), so that its result depends on nothing but the
    key.

    >>> base = Stage("train", {"lr": 0.1, "epochs": 3}, run="my.work:train")
    >>> same = Stage("train", {"epochs": 3.0, "lr": 0.1}, run="my.work:train", title="again")
    >>> base == same, base == Stage("train", {"lr": 0.2, "epochs": 3}, run="my.work:train")
    (True, False)
    """

    kind: str
    config: Mapping[str, Any]
    parents: tuple[Stage, ...] = ()
    run: str = field(kw_only=True)
    version: int = field(default=1, kw_only=True)
    title: str = field(default="", kw_only=True)
    options: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    cost: NotNegative = field(default=1.0, kw_only=True)
    key: str = field(init=False, default="")

    def __post_init__(self) -> None:
        check_fields(self)
        if not _KIND.fullmatch(self.kind):
            raise InvalidInput(
                f"`kind` should be lower-case words joined by hyphens. (got {self.kind!r})"
            )
        if not _RUN.fullmatch(self.run):
            raise InvalidInput(f"`run` should be 'package.module:function'. (got {self.run!r})")
        config = canonical(self.config)
        parents = tuple(self.parents)
        assign = object.__setattr__  # the dataclass is frozen
        assign(self, "key", key_of(self.kind, self.version, config, [p.key for p in parents]))
        assign(self, "config", freeze(config))
        assign(self, "options", freeze(canonical(self.options, "options")))
        assign(self, "parents", parents)
        assign(self, "title", self.title or f"{self.kind} {self.key[:8]}")

    def __getstate__(self) -> dict[str, Any]:
        """What is sent to a worker: plain values, and the parents without parents of their own."""
        plain = {"config": canonical(self.config), "options": canonical(self.options, "options")}
        return vars(self) | plain | {"parents": tuple(each._alone() for each in self.parents)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        frozen = {name: freeze(state[name]) for name in ("config", "options")}
        vars(self).update(state | frozen)

    def _alone(self) -> Stage:
        stage = object.__new__(Stage)
        vars(stage).update(vars(self) | {"parents": ()})
        return stage

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, Stage) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"Stage({self.kind!r}, key={self.key[:12]!r}, title={self.title!r})"


# The canonical spelling of a configuration, so that equal ones have equal hashes.


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
