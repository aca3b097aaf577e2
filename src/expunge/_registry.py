"""Names for parts: one table a kind, for the library, the command line and the documents."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from expunge._errors import InvalidInput

T = TypeVar("T")


class Registry(Generic[T]):
    """A table from names to parts, with aliases, in any case.

    >>> colours: Registry[int] = Registry("colour")
    >>> colours.add("dark-red", 1, alias="DR")
    >>> colours["dr"], colours["Dark-Red"], list(colours)
    (1, 1, ['dark-red'])
    >>> colours["dark-rad"]
    Traceback (most recent call last):
    expunge._errors.InvalidInput: Unknown colour 'dark-rad'. Did you mean 'dark-red'?
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._parts: dict[str, T] = {}
        self._labels: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def add(self, name: str, part: T, alias: str | None = None) -> None:
        """Register ``part`` under ``name``; ``alias`` is the short name that tables print."""
        for key in {name, alias or name}:
            if key.lower() in self._names:
                raise InvalidInput(f"The {self.kind} name {key!r} is taken already.")
        self._parts[name] = part
        self._labels[name] = alias or name
        for key in {name, alias or name}:
            self._names[key.lower()] = name

    def remove(self, name: str) -> None:
        """Forget ``name`` and its alias (for tests and plug-ins that come and go)."""
        del self._parts[name], self._labels[name]
        self._names = {key: value for key, value in self._names.items() if value != name}

    def name(self, name: str) -> str:
        """The full name behind a name or an alias, or an error with the nearest suggestion."""
        try:
            return self._names[name.lower()]
        except KeyError:
            near = difflib.get_close_matches(name.lower(), self._names, n=1, cutoff=0.5)
            hint = f" Did you mean {near[0]!r}?" if near else f" Known: {', '.join(sorted(self))}."
            raise InvalidInput(f"Unknown {self.kind} {name!r}.{hint}") from None

    def label(self, name: str) -> str:
        """The short name that tables and figures print."""
        return self._labels[self.name(name)]

    def label_of(self, part: Any) -> str:
        """The label of a registered class, given the class or an instance of it."""
        kind = part if isinstance(part, type) else type(part)
        for name, known in self._parts.items():
            if known is kind:
                return self._labels[name]
        return kind.__name__

    def resolve(self, part: Any) -> Any:
        """A part, given itself or the name of a class that can be made without arguments."""
        if not isinstance(part, str):
            return part
        kind: Any = self[part]
        return kind()

    def __getitem__(self, name: str) -> T:
        return self._parts[self.name(name)]

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)
