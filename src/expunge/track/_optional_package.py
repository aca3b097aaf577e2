"""Optional packages, imported when they are needed."""

from __future__ import annotations

import importlib
from typing import Any

from expunge._errors import InvalidInput


def need(module: str, *, extra: str) -> Any:
    """The module, or an error that says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InvalidInput(
            f"The tracker `{extra}` needs packages that are not here. (cannot import {module}; "
            f"pip install 'expunge[{extra}]')"
        ) from error
