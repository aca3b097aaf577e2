"""The tables by name: the paper's, and those that its claims rest on."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports
from expunge._registry import Registry

if TYPE_CHECKING:
    from expunge.bench._results import BenchResult as _Result
    from expunge.bench.tables._rows import make_table as make_table
    from expunge.bench.tables._summary import Summary as _Summary
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)

TABLES: "Registry[Callable[[Iterable[_Result]], list[_Summary]]]" = Registry("table")
for _name in ("table1", "table2", "attacks", "beside"):
    TABLES.declare(_name, f"expunge.bench.paper._tables:{_name}")
TABLES.declare("texts", "expunge.bench.tables._texts:texts")

OF_TEXTS = ("texts",)
"""The tables of language models; all others are of images."""
