"""Registered names of parts: one table per kind, for the library, the command line and the docs."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from expunge._errors import InvalidInput
from expunge._kinds import check_kind
from expunge._lazy import load_object, read_docstring
from expunge._plugins import Plugin, load_plugin, report, usable_plugins

T = TypeVar("T")
_WITH_OPTIONS = re.compile(r"([^()]+)\((.*)\)")


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
    labels and summaries of declared parts cost no import. A name may be followed by options of the
    part in brackets, as ``scrub(gamma=2)``.

    With ``plugins``, a group of entry points, parts of other packages are in the table as well.
    They are looked for when the table is first read; ``adopt(name, part)`` checks one when it is
    imported, with a TypeError that says what is wrong.

    ``others``: what may be given in place of a name, for the error of an unknown one.

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
        others: tuple[str, ...] = (),
    ) -> None:
        self.kind = kind
        self._others = others
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
        """The full name behind a name or an alias, or an error with the nearest suggestion.

        Options stay with it: ``SCRUB(gamma=2)`` is ``scrub(gamma=2)``.
        """
        bare, options = self._split(name)
        return bare + join_options(options)

    def bare_name(self, name: str) -> str:
        """The full name without options."""
        return self._split(name)[0]

    def _split(self, text: str) -> tuple[str, dict[str, Any]]:
        """The full name and the options behind it; what is a name as it stands has none."""
        check_kind(self.kind, str, text)
        name, options = (text, {}) if text.lower() in self._names else split_options(text)
        try:
            return self._names[name.lower()], options
        except KeyError:
            near = difflib.get_close_matches(name.lower(), self._names, n=1, cutoff=0.5)
            known = ", ".join([*sorted(self), *self._others])
            hint = f" Did you mean {near[0]!r}?" if near else f" Known: {known}."
            raise InvalidInput(f"Unknown {self.kind} {name!r}.{hint}") from None

    def label(self, name: str) -> str:
        """The short name that tables and figures print, with the options that were given."""
        bare, options = self._split(name)
        return self._labels[bare] + join_options(options)

    def label_of(self, part: Any) -> str:
        """The label of a registered class, given the class or an instance of it."""
        kind = part if isinstance(part, type) else type(part)
        for name, registered in self.items():
            if registered is kind:
                return self._labels[name]
        return kind.__name__

    def origin(self, name: str) -> str:
        """The package that a plug-in comes from, with its version; empty for built-in parts."""
        plugin = self._origins.get(self.bare_name(name))
        return "" if plugin is None else plugin.package

    @property
    def built_in(self) -> list[str]:
        """The names that no plug-in has brought."""
        return [name for name in self if name not in self._origins]

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
        first = _on_one_line(self._text(name).split("\n\n")[0])
        about = self._abouts.get(self.bare_name(name), "")
        return f"{first.removesuffix('.')}: {about[:1].lower()}{about[1:]}" if about else first

    def note(self, name: str, beginning: str) -> str:
        """The paragraph of a part's docstring that begins with these words, on one line, or "".

        Two of them say more about a part than its summary: "Use it …" what it is for, and
        "Reference: …" where it comes from.
        """
        paragraphs = (_on_one_line(text) for text in self._text(name).split("\n\n"))
        return next((text for text in paragraphs if text.startswith(beginning)), "")

    def _text(self, name: str) -> str:
        part = self._parts[self.bare_name(name)]
        if isinstance(part, _Declared):
            return read_docstring(part.path)
        texts = (getattr(part, name, None) for name in ("description", "definition"))
        return next(filter(None, texts), None) or inspect.getdoc(part) or ""

    def resolve(self, part: Any) -> Any:
        """A part, given itself or the name of a class, with options in brackets if need be."""
        if not isinstance(part, str):
            return part
        kind: Any = self[part]
        name, options = self._split(part)
        known = [field.name for field in dataclasses.fields(kind)] if options else []
        for option in options:
            if option not in known:
                raise InvalidInput(
                    f"The {self.kind} {self._labels[name]} has no option {option!r}. "
                    f"(it has: {', '.join(known) or 'none'})"
                )
        return kind(**options)

    def __getitem__(self, name: str) -> T:
        key = self.bare_name(name)
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
        match = _WITH_OPTIONS.fullmatch(name.strip())
        bare = match[1].strip() if match else name
        return bool({name.lower(), bare.lower()} & self._names.keys())

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)


def _on_one_line(text: str) -> str:
    return " ".join(text.split()).replace("``", "")


def split_options(text: str) -> tuple[str, dict[str, Any]]:
    """A name and the options in brackets behind it: numbers, ``true``, ``false`` or words.

    >>> split_options("SCRUB(gamma=0.5, loss=released)")
    ('SCRUB', {'gamma': 0.5, 'loss': 'released'})
    >>> split_options("SCRUB")
    ('SCRUB', {})
    """
    match = _WITH_OPTIONS.fullmatch(text.strip())
    if match is None:
        return text, {}
    options: dict[str, Any] = {}
    for piece in match[2].split(","):
        name, equals, value = (word.strip() for word in piece.partition("="))
        if not equals or not name.isidentifier() or not value or name in options:
            raise InvalidInput(
                f"Options in brackets should read name(option=value, ...). (got {text!r})"
            )
        options[name] = _plain(value)
    return match[1].strip(), options


def join_options(options: dict[str, Any]) -> str:
    """What :func:`split_options` reads, in the order of the names; empty where there are none."""
    if not options:
        return ""
    words = {True: "true", False: "false"}
    pairs = (
        f"{name}={words[value] if isinstance(value, bool) else value}"
        for name, value in sorted(options.items())
    )
    return f"({','.join(pairs)})"


def _plain(text: str) -> Any:
    """A number or a switch where the text is one, else the text."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
