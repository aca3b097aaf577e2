"""The TOML of protocols: those that are registered by name, any other by its path."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from expunge._errors import DataError, InvalidInput
from expunge._files import is_there
from expunge._registry import Registry

BUILT_IN = (
    "demo",
    "cpu",
    "rivals",
    "paper-mini",
    "paper-eighth",
    "paper-quarter",
    "paper",
    "tofu-mini",
)
"""The protocols that come with the package."""


@dataclass(frozen=True)
class ProtocolFile:
    """The TOML of a registered protocol: anything with ``name`` and ``read_text``."""

    file: Any

    @property
    def description(self) -> str:
        """The comment that the file begins with; a `#` by itself ends a paragraph."""
        lines = self.file.read_text(encoding="utf-8").splitlines()
        comment = itertools.takewhile(lambda line: line.startswith("#"), lines)
        return "\n".join(line.lstrip("# ") for line in comment) or str(self.file.name)


def _adopt_file(name: str, part: Any) -> ProtocolFile:
    """A plug-in's protocol, if it is the path of a file."""
    if not (hasattr(part, "read_text") and part.is_file()):
        raise TypeError(f"it should be the path of a TOML file. (got {part!r})")
    return ProtocolFile(part)


PROTOCOLS: Registry[ProtocolFile] = Registry(
    "protocol", plugins="expunge.protocols", adopt=_adopt_file
)
for _name in BUILT_IN:
    PROTOCOLS.add(_name, ProtocolFile(resources.files(__name__) / f"{_name}.toml"))


def protocol_text(source: str | Path) -> str:
    """The TOML of a protocol."""
    return read_protocol(source)[0]


def read_protocol(source: str | Path) -> tuple[str, str]:
    """The TOML of a protocol, and what messages call its file."""
    if str(source) in PROTOCOLS:
        file = PROTOCOLS[str(source)].file
        return file.read_text(encoding="utf-8"), file.name
    path = Path(source)
    if not (is_there(path) and path.is_file()):
        raise InvalidInput(
            f"There is no protocol {str(source)!r}: give {', '.join(PROTOCOLS)} or a TOML file."
        )
    try:
        return path.read_text(encoding="utf-8"), str(path)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
