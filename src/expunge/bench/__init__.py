"""Experiments over several seeds, their tables and figures."""

from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports

if TYPE_CHECKING:
    from expunge.bench._demo import Demo as Demo
    from expunge.bench._demo import run_demo as run_demo
    from expunge.bench.tables._summary import Group as Group
    from expunge.bench.tables._summary import Row as Row
    from expunge.bench.tables._summary import Summary as Summary
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
