"""Registered names of parts: one table per kind, for the library, the command line and the docs."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pkgutil import resolve_name
from typing import Any, Generic, TypeVar, cast

from expunge._errors import InvalidInput
from expunge._kinds import check_kind
from expunge._lazy import read_docstring
from expunge._plugins import package_of, path_of, report, usable_plugins
from expunge._specs import join_part, split_part, split_spec, suggestion

T = TypeVar("T")


@dataclass
class _Entry:
    """A part with the short name that tables print, and where it comes from."""

    label: str
    part: Any = None
    path: str = ""  # imported from there on first use; empty once it is imported
    arguments: tuple[Any, ...] | None = None  # the part is what the class there makes of them
    about: str = ""  # ends its summary
    plugin: EntryPoint | None = None


class Registry(Generic[T]):
    """A table from names to parts, with aliases, in any case.

    A part is either added itself or declared by where it is, and then imported on first use. A name
    may be followed by options of the part, as ``scrub(gamma=2)``. With ``plugins``, a group of
    entry points, parts of other packages are in the table as well; ``adopt(name, part)`` checks
    one, with a TypeError that says what is wrong. ``others`` may be given in place of a name, for
    messages.
    """

    def __init__(
        self,
        kind: str,
        plugins: str | None = None,
        adopt: Callable[[str, Any], T] | None = None,
        others: tuple[str, ...] = (),
    ) -> None:
        self.kind = kind
        self.group = plugins
        self._adopt = adopt
        self._others = others
        self._unread = plugins is not None
        self._table: dict[str, _Entry] = {}

    @property
    def _entries(self) -> dict[str, _Entry]:
        """The table, with the plug-ins; one whose name is taken is reported."""
        if self._unread:
            self._unread = False
            for plugin in usable_plugins(self.group or ""):
                entry = _Entry(plugin.name, path=path_of(plugin), plugin=plugin)
                try:
                    self._register(plugin.name, entry)
                except InvalidInput as error:
                    report(plugin, str(error).rstrip("."))
        return self._table

    def add(self, name: str, part: T, alias: str | None = None) -> None:
        """Register ``part`` under ``name``; ``alias`` is the short name that tables print."""
        self._register(name, _Entry(alias or name, part))

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
        self._register(name, _Entry(alias or name, None, path, arguments, about))

    def _register(self, name: str, entry: _Entry) -> None:
        taken = _full_names(self._table)
        for key in (name, entry.label):
            if key.lower() in taken:
                raise InvalidInput(f"The {self.kind} name {key!r} is taken already.")
        self._table[name] = entry

    def remove(self, name: str) -> None:
        """Remove ``name`` and its alias (for tests and plug-ins that come and go)."""
        del self._table[name]

    def name(self, name: str) -> str:
        """The full name behind a name or an alias, with its options, or an error."""
        return join_part(*self._split(name))

    def bare_name(self, name: str) -> str:
        """The full name without options."""
        return self._split(name)[0]

    def _split(self, text: str) -> tuple[str, dict[str, Any]]:
        """The full name and the options behind it; what is a name as it stands has none."""
        check_kind(self.kind, str, text)
        names = _full_names(self._entries)
        name, options = (text, {}) if text.lower() in names else split_part(text)
        if name.lower() in names:
            return names[name.lower()], options
        hint = suggestion(name, names)
        if hint.startswith("Known"):
            hint = f"Known: {', '.join([*sorted(self), *self._others])}."
        raise InvalidInput(f"Unknown {self.kind} {name!r}. {hint}")

    def label(self, name: str) -> str:
        """The short name that tables and figures print, with the options that were given."""
        bare, options = self._split(name)
        return join_part(self._entries[bare].label, options)

    def label_of(self, part: Any) -> str:
        """The label of a registered class, given the class or an instance of it."""
        kind = part if isinstance(part, type) else type(part)
        for name, registered in self.items():
            if registered is kind:
                return self._entries[name].label
        return kind.__name__

    def origin(self, name: str) -> str:
        """The package that a plug-in comes from, with its version; empty for built-in parts."""
        plugin = self._entries[self.bare_name(name)].plugin
        return "" if plugin is None else package_of(plugin)

    @property
    def built_in(self) -> list[str]:
        """The names that no plug-in has brought."""
        return [name for name, entry in self._entries.items() if entry.plugin is None]

    def items(self) -> Iterator[tuple[str, T]]:
        """Every name with its part; a plug-in that cannot be imported is reported and left out."""
        for name, entry in list(self._entries.items()):
            try:
                part = self[name]
            except InvalidInput as error:
                if entry.plugin is None:
                    raise
                report(entry.plugin, error.__cause__)
                continue
            yield name, part

    def summary(self, name: str) -> str:
        """The first paragraph of a part's docstring or its ``description``, on one line."""
        first = _on_one_line(self._text(name).split("\n\n")[0])
        about = self._entries[self.bare_name(name)].about
        return f"{first.removesuffix('.')}: {about[:1].lower()}{about[1:]}" if about else first

    def note(self, name: str, beginning: str) -> str:
        """The paragraph of a part's docstring that begins so ("Use it", "Reference:"), or ""."""
        paragraphs = (_on_one_line(text) for text in self._text(name).split("\n\n"))
        return next((text for text in paragraphs if text.startswith(beginning)), "")

    def _text(self, name: str) -> str:
        entry = self._entries[self.bare_name(name)]
        if entry.path:
            return read_docstring(entry.path)
        texts = (getattr(entry.part, field, None) for field in ("description", "definition"))
        return next(filter(None, texts), None) or inspect.getdoc(entry.part) or ""

    def resolve(self, part: Any) -> Any:
        """A part, given itself or the name of a class, with options if need be."""
        if not isinstance(part, str):
            return part
        kind: Any = self[part]
        name, options = self._split(part)
        known = [field.name for field in dataclasses.fields(kind)] if options else []
        if unknown := [option for option in options if option not in known]:
            raise InvalidInput(
                f"The {self.kind} {self._entries[name].label} has no option {unknown[0]!r}. "
                f"(it has: {', '.join(known) or 'none'})"
            )
        return kind(**options)

    def __getitem__(self, name: str) -> T:
        key = self.bare_name(name)
        entry = self._entries[key]
        if entry.path:
            entry.part, entry.path = self._load(key, entry), ""
        return cast(T, entry.part)

    def _load(self, name: str, entry: _Entry) -> Any:
        if entry.plugin is None:
            part = resolve_name(entry.path)
            return part if entry.arguments is None else part(*entry.arguments)
        try:
            part = resolve_name(entry.path)
            return part if self._adopt is None else self._adopt(name, part)
        except Exception as error:  # the code is somebody else's
            why = f"{error}" if type(error) is TypeError else f"{type(error).__name__}: {error}"
            raise InvalidInput(
                f"The {self.kind} {name!r} is a plug-in of {package_of(entry.plugin)} that cannot "
                f"be used: {why}. Fix or uninstall it."
            ) from error

    def __contains__(self, name: str) -> bool:
        return bool({name.lower(), split_spec(name)[0].lower()} & _full_names(self._entries).keys())

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def _full_names(entries: dict[str, _Entry]) -> dict[str, str]:
    """Names and aliases in lower case, with the name that each stands for."""
    return {key.lower(): name for name, each in entries.items() for key in (name, each.label)}


def _on_one_line(text: str) -> str:
    return " ".join(text.split()).replace("``", "")
