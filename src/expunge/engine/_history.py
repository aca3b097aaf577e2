"""What happened: one row an epoch, one a step."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from expunge.update import Diagnostics

Row = dict[str, float]


@dataclass
class History:
    """The rows of a run.

    ``epochs`` has, for each epoch: ``epoch`` (from 1), ``steps``, ``seconds`` (of the steps alone,
    from the start of the run: RTE), ``processor_seconds`` (the same in processor time, which other
    work on the machine disturbs less), mean ``objective`` and ``constraint`` losses, the mean of
    each diagnostic with ``feasible`` as a share, and whatever callbacks recorded; under loss
    scaling also how many steps were ``skipped`` and the ``loss_scale``. ``steps`` has
    the losses and diagnostics of each step of a constrained run.
    """

    epochs: list[Row] = field(default_factory=list)
    steps: list[Row] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Time spent in steps, RTE."""
        return self.epochs[-1]["seconds"] if self.epochs else 0.0

    def column(self, name: str) -> list[float]:
        """One quantity over the epochs, nan where an epoch does not have it."""
        return [row.get(name, math.nan) for row in self.epochs]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"epochs": self.epochs, "steps": self.steps}


def step_row(losses: tuple[float, float | None], diagnostics: Diagnostics | None) -> Row:
    """One step as plain numbers."""
    objective, constraint = losses
    row: Row = {
        "objective": objective,
        "constraint": math.nan if constraint is None else constraint,
    }
    if diagnostics is not None:
        row |= diagnostics.as_dict() | {"feasible": float(diagnostics.feasible)}
    return row


def mean_row(rows: list[Row]) -> Row:
    """The mean of each quantity over ``rows``; nan where it does not exist."""
    if not rows:  # every step was skipped
        return {}
    return {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}
