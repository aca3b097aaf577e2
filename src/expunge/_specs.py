"""Names with options in one string: ``csv:people.csv,label=income`` or ``vgg16,width=0.25``."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from expunge._errors import InvalidInput
from expunge._options import Option

_OPTION = re.compile(r",(?=[A-Za-z_]\w*=)")


def split_spec(text: str, known: Collection[str] | None = None) -> tuple[str, dict[str, str]]:
    """A spec without its options, and the options by name.

    With ``known`` names, a comma before anything else belongs to what it stands in, such as a path.

    >>> split_spec("csv:a,b.csv,label=income,id=person", {"label", "id"})
    ('csv:a,b.csv', {'label': 'income', 'id': 'person'})
    >>> split_spec("vgg16,width=0.25")
    ('vgg16', {'width': '0.25'})
    """
    base, *parts = _OPTION.split(text)
    options: dict[str, str] = {}
    for part in parts:
        name, _, value = part.partition("=")
        if known is not None and name not in known:
            if options:
                raise InvalidInput(unknown_option(name, known))
            base = f"{base},{part}"
        elif name in options:
            raise InvalidInput(f"The option {name!r} should be given once. (got {text!r})")
        else:
            options[name] = value
    return base, options


def unknown_option(name: str, known: Iterable[str]) -> str:
    """A message about an option that does not exist, with the nearest one or all of them."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(names) or 'none'}."
    return f"Unknown option {name!r}. {hint}"


def unknown_options_in(text: str, known: Iterable[str]) -> str:
    """The same for the first option in ``text``, which was taken for a part of a path; or ""."""
    parts = _OPTION.split(text)[1:]
    return unknown_option(parts[0].partition("=")[0], known) if parts else ""


def join_spec(base: str, options: Mapping[str, Any]) -> str:
    """The spec that :func:`split_spec` takes apart."""
    return ",".join([base, *(f"{name}={value}" for name, value in options.items())])


def read_option(option: Option, text: str) -> Any:
    """The value of an option that was written as ``text``, checked against its range.

    >>> read_option(Option("length", int, 256, "Tokens.", at_least=1), "64")
    64
    """
    value: Any = text
    if not text:
        raise InvalidInput(f"`{option.name}` should have a value, like {option.name}=NAME.")
    if option.type is int:
        value = int(text) if text.isascii() and text.lstrip("-").isdigit() else text
    option.check(value)
    return value


def plain_value(text: str) -> Any:
    """A number or a switch, if ``text`` spells one; else the text itself.

    >>> [plain_value(text) for text in ("3", "0.5", "true", "gelu")]
    [3, 0.5, True, 'gelu']
    """
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
