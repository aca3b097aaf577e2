"""The tables by name: the paper's, and those that its claims rest on."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from expunge._registry import Registry

if TYPE_CHECKING:
    from expunge.bench._results import BenchResult
    from expunge.bench.tables._summary import Summary

TABLES: "Registry[Callable[[Iterable[BenchResult]], list[Summary]]]" = Registry("table")
for _name in ("table1", "table2", "attacks", "beside"):
    TABLES.declare(_name, f"expunge.bench.paper._tables:{_name}")
TABLES.declare("texts", "expunge.bench.tables._texts:texts")

OF_TEXTS = ("texts",)
"""The tables of language models; all others are of images."""


def make_table(name: str, results: "Iterable[BenchResult]") -> "list[Summary]":
    """A table by name, from the results of its kind; empty where there are none."""
    of_texts = TABLES.name(name) in OF_TEXTS
    return TABLES[name]([result for result in results if result.is_text == of_texts])
