"""The one grammar of names with options: ``scrub(gamma=2)``, or ``vgg16,width=0.25``.

Options follow a name, or a path, in brackets or behind commas. Both mean the same: a shell takes
commas without quotes, and in lists and tables brackets show what belongs together.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from expunge._errors import InvalidInput

_NAME = r"\s*[A-Za-z_]\w*\s*="
_BRACKETS = re.compile(rf"([^()]+)\(({_NAME}.*)\)")
_OPTION = re.compile(rf",(?={_NAME})")


def split_spec(text: str) -> tuple[str, dict[str, str]]:
    """What stands before the options, and the options as they are written.

    A comma before anything but ``name=`` belongs to what it stands in, such as a path.
    """
    bracketed = _BRACKETS.fullmatch(text.strip())
    base, *pieces = _OPTION.split(",".join(bracketed.groups()) if bracketed else text)
    options: dict[str, str] = {}
    for piece in pieces:
        name, _, value = (word.strip() for word in piece.partition("="))
        if name in options:
            raise InvalidInput(f"The option {name!r} should be given once. (got {text!r})")
        if not value:
            raise InvalidInput(f"The option {name!r} should have a value. (got {text!r})")
        options[name] = value
    return base.strip() if pieces else text, options


def split_part(text: str) -> tuple[str, dict[str, Any]]:
    """The same with numbers and switches as such."""
    base, options = split_spec(text)
    return base, {name: plain_value(value) for name, value in options.items()}


def join_spec(base: str, options: Mapping[str, Any]) -> str:
    """The spec that :func:`split_spec` takes apart, for a shell."""
    return ",".join([base, *(f"{name}={value}" for name, value in options.items())])


def join_part(base: str, options: Mapping[str, Any]) -> str:
    """The same in brackets, in the order of the names: equal parts have equal names."""
    words = {True: "true", False: "false"}
    pairs = (
        f"{name}={words[value] if isinstance(value, bool) else value}"
        for name, value in sorted(options.items())
    )
    return f"{base}({','.join(pairs)})" if options else base


def plain_value(text: str) -> Any:
    """A number or a switch, if ``text`` spells one; else the text itself."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def suggestion(name: str, known: Iterable[str]) -> str:
    """The nearest of the names that there are, or all of them: the end of a message."""
    names = sorted(known)
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    return f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(names) or 'none'}."
