"""Scores as terminal tables."""

from __future__ import annotations

from rich.table import Table

from expunge.evaluation import METRICS, Scores


def scores_table(columns: dict[str, Scores]) -> Table:
    """One row a metric, one column a model."""
    table = Table(box=None, header_style="bold")
    table.add_column("", no_wrap=True)
    for name in columns:
        table.add_column(name, justify="right")
    table.add_column("", no_wrap=True, overflow="ellipsis")
    scores = {name: score.as_dict() for name, score in columns.items()}
    for key in METRICS:
        metric = METRICS[key]
        values = [scores[name].get(key) for name in columns]
        if all(value is None for value in values):
            continue
        shown = ["" if v is None else f"{v:.{metric.decimals}f}" for v in values]
        table.add_row(metric.label, *shown, f"[dim]{metric.definition} ({metric.unit})[/]")
    return table
