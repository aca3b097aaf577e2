"""A preflight of the little world, and what it prints."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from expunge.cli._output import SafeConsole
from expunge.request._ids import resolve_ids
from expunge.request.loading._load import ModelAndData
from expunge.request.preflight._preflight import Preflight, preflight
from tests.unit.request.worlds import job_of


def check(
    loaded: ModelAndData, folder: Path, ids: Sequence[int] = (1, 2, 3, 5, 8), **values: Any
) -> Preflight:
    """The preflight of a request for ``ids``."""
    job = job_of(folder, **values)
    requested = resolve_ids(job, loaded, ids)
    return preflight(loaded, requested, requested.indices, job)


def printed(found: Preflight, width: int = 80) -> str:
    """What a terminal shows."""
    output = io.StringIO()
    console = SafeConsole(file=output, width=width, force_terminal=False, legacy_windows=False)
    console.print(found.terminal())
    return output.getvalue()
