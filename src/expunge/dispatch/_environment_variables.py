"""Environment variables for what is loaded or started in a block."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

POOLS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Libraries with thread pools of their own read these when they are loaded."""


@contextmanager
def variables(values: Mapping[str, str]) -> Iterator[None]:
    """Set those that the user has not set, and take them back at the end.

    >>> with variables({"EXPUNGE_EXAMPLE": "1"}):
    ...     os.environ["EXPUNGE_EXAMPLE"]
    '1'
    >>> "EXPUNGE_EXAMPLE" in os.environ
    False
    """
    unset = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(unset)
    try:
        yield
    finally:
        for name in unset:
            os.environ.pop(name, None)
