"""The TOML of protocols: built-in ones by name, any other by its path."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from expunge._errors import DataError, InvalidInput
from expunge._files import is_there

BUILT_IN = ("demo", "cpu", "rivals", "paper-quarter", "paper", "tofu-mini")
"""The protocols that come with the package."""


def protocol_text(source: str | Path) -> str:
    """The TOML of a protocol."""
    return read_protocol(source)[0]


def read_protocol(source: str | Path) -> tuple[str, str]:
    """The TOML of a protocol, and what messages call its file."""
    if str(source) in BUILT_IN:
        name = f"{source}.toml"
        return (resources.files(__name__) / name).read_text(encoding="utf-8"), name
    path = Path(source)
    if not (is_there(path) and path.is_file()):
        raise InvalidInput(
            f"There is no protocol {str(source)!r}: give {', '.join(BUILT_IN)} or a TOML file."
        )
    try:
        return path.read_text(encoding="utf-8"), str(path)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
