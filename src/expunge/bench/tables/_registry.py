"""The tables by name: the paper's, and those that its claims rest on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from expunge._registry import Registry

if TYPE_CHECKING:
    from expunge.bench._records import Record
    from expunge.bench.tables._summary import Summary

TABLES: Registry[Callable[[Iterable[Record]], list[Summary]]] = Registry("table")
TABLES.declare("table1", "expunge.bench.tables._paper:table1")
TABLES.declare("table2", "expunge.bench.tables._paper:table2")
TABLES.declare("attacks", "expunge.bench.tables._claim_tables:attacks")
TABLES.declare("moments", "expunge.bench.tables._claim_tables:moments")
TABLES.declare("epochs", "expunge.bench.tables._claim_tables:epochs")
TABLES.declare("cost", "expunge.bench.tables._claim_tables:cost")
TABLES.declare("beside", "expunge.bench.tables._paper:compared")
TABLES.declare("stops", "expunge.bench.tables._stops:stops")
TABLES.declare("texts", "expunge.bench.tables._texts:texts")

OF_TEXTS = ("texts",)
"""The tables of language models; all others are of images."""


def make_table(name: str, records: Iterable[Record]) -> list[Summary]:
    """A table by name, from the records of its kind; empty where there are none."""
    of_texts = TABLES.name(name) in OF_TEXTS
    return TABLES[name]([record for record in records if record.is_text == of_texts])
