"""Registered names of parts: one table per kind, for the library, the command line and the docs."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from expunge._errors import InvalidInput
from expunge._lazy import load_object, read_docstring
from expunge._plugins import Plugin, load_plugin, report, usable_plugins

T = TypeVar("T")


@dataclass(frozen=True)
class _Declared:
    """A part that has not been imported: ``"package.module:name"``, of a plug-in or built in.

    ``arguments``: the part is what the class at ``path`` makes of them.
    """

    path: str
    plugin: Plugin | None = None
    arguments: tuple[Any, ...] | None = None


class Registry(Generic[T]):
    """A table from names to parts, with aliases, in any case.

    A part is either added itself or declared by where it is, and then imported on first use: names,
    labels and summaries of declared parts cost no import.

    With ``plugins``, a group of entry points, parts of other packages are in the table as well.
    They are looked for when the table is first read; ``adopt(name, part)`` checks one when it is
    imported, with a TypeError that says what is wrong.

    >>> colours: Registry[int] = Registry("colour")
    >>> colours.add("dark-red", 1, alias="DR")
    >>> colours["dr"], colours["Dark-Red"], list(colours)
    (1, 1, ['dark-red'])
    >>> colours["dark-rad"]
    Traceback (most recent call last):
    expunge._errors.InvalidInput: Unknown colour 'dark-rad'. Did you mean 'dark-red'?
    >>> constants: Registry[float] = Registry("constant")
    >>> constants.declare("pi", "math:pi")
    >>> constants["pi"]
    3.141592653589793
    """

    def __init__(
        self,
        kind: str,
        plugins: str | None = None,
        adopt: Callable[[str, Any], T] | None = None,
    ) -> None:
        self.kind = kind
        self.group = plugins
        self._adopt = adopt
        self._unread = plugins is not None
        self._all_parts: dict[str, T | _Declared] = {}
        self._labels: dict[str, str] = {}
        self._all_names: dict[str, str] = {}
        self._abouts: dict[str, str] = {}
        self._origins: dict[str, Plugin] = {}

    @property
    def _parts(self) -> dict[str, T | _Declared]:
        self._read_plugins()
        return self._all_parts

    @property
    def _names(self) -> dict[str, str]:
        self._read_plugins()
        return self._all_names

    def _read_plugins(self) -> None:
        """Declare the plug-ins, the first time; one whose name is taken is reported."""
        if not self._unread:
            return
        self._unread = False
        for plugin in usable_plugins(self.group or ""):
            try:
                self._register(plugin.name, _Declared(plugin.path, plugin), None)
                self._origins[plugin.name] = plugin
            except InvalidInput as error:
                report(plugin, str(error).rstrip("."))

    def add(self, name: str, part: T, alias: str | None = None) -> None:
        """Register ``part`` under ``name``; ``alias`` is the short name that tables print."""
        self._register(name, part, alias)

    def declare(
        self,
        name: str,
        path: str,
        alias: str | None = None,
        *,
        arguments: tuple[Any, ...] | None = None,
        about: str = "",
    ) -> None:
        """Register the part at ``path``, ``"package.module:name"``, to be imported on first use.

        With ``arguments``, the part is an instance that the class there makes of them; ``about``
        ends its summary, to tell it from others of the class.
        """
        self._register(name, _Declared(path, arguments=arguments), alias)
        self._abouts[name] = about

    def _register(self, name: str, part: T | _Declared, alias: str | None) -> None:
        for key in {name, alias or name}:
            if key.lower() in self._all_names:
                raise InvalidInput(f"The {self.kind} name {key!r} is taken already.")
        self._all_parts[name] = part
        self._labels[name] = alias or name
        for key in {name, alias or name}:
            self._all_names[key.lower()] = name

    def remove(self, name: str) -> None:
        """Remove ``name`` and its alias (for tests and plug-ins that come and go)."""
        del self._all_parts[name], self._labels[name]
        self._all_names = {key: value for key, value in self._all_names.items() if value != name}
        self._origins.pop(name, None)

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
        for name, registered in self.items():
            if registered is kind:
                return self._labels[name]
        return kind.__name__

    def origin(self, name: str) -> str:
        """The package that a plug-in comes from, with its version; empty for built-in parts."""
        plugin = self._origins.get(self.name(name))
        return "" if plugin is None else plugin.package

    def items(self) -> Iterator[tuple[str, T]]:
        """Every name with its part; a plug-in that cannot be imported is reported and left out."""
        for name in list(self):
            try:
                part = self[name]
            except InvalidInput as error:
                if name not in self._origins:
                    raise
                report(self._origins[name], error.__cause__)
                continue
            yield name, part

    def summary(self, name: str) -> str:
        """The first paragraph of a part's docstring or its ``description``, on one line."""
        part = self._parts[self.name(name)]
        about = self._abouts.get(self.name(name), "")
        if isinstance(part, _Declared):
            text = read_docstring(part.path)
        else:
            texts = (getattr(part, name, None) for name in ("description", "definition"))
            text = next(filter(None, texts), None) or inspect.getdoc(part) or ""
        first = " ".join(text.split("\n\n")[0].split()).replace("``", "")
        return f"{first.removesuffix('.')}: {about}" if about else first

    def resolve(self, part: Any) -> Any:
        """A part, given itself or the name of a class that can be made without arguments."""
        if not isinstance(part, str):
            return part
        kind: Any = self[part]
        return kind()

    def __getitem__(self, name: str) -> T:
        key = self.name(name)
        part = self._parts[key]
        if isinstance(part, _Declared):
            part = self._parts[key] = self._load(key, part)
        return part

    def _load(self, name: str, declared: _Declared) -> T:
        if declared.plugin is None:
            part = load_object(declared.path)
            return cast(T, part if declared.arguments is None else part(*declared.arguments))
        try:
            return cast(T, load_plugin(declared.plugin, self._adopt))
        except TypeError as error:
            raise InvalidInput(
                f"The {self.kind} {name!r} is a plug-in of {declared.plugin.package} that cannot "
                f"be used: {error}. Mend or uninstall it."
            ) from error

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)
