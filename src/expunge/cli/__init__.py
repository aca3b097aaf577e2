"""The command line: parse, call, print."""

from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports

if TYPE_CHECKING:
    from expunge.cli._main import main as main
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
