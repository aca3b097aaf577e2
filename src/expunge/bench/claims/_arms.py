"""What tells runs apart: the situation, the arm, the setting."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

from expunge.bench._records import Record
from expunge.bench.runs._settings import arm_label

CONSTRAINED = ("random-label", "neg-grad-plus", "scrub")
"""The methods the paper plugs its add-ons into: SRL, NGPlus, SCRUB."""


class Setting(NamedTuple):
    """The dials of an unlearning run."""

    aggregate: str
    alpha: float | None
    beta: float | None
    lr: float
    batch_size: int
    budget: int


@dataclass(frozen=True)
class Situation:
    """What is unlearned from what. ``block`` is empty unless two blocks would be mistaken."""

    dataset: str
    arch: str
    width: float
    limit: int | None
    scenario: str
    block: str = ""

    @property
    def kind(self) -> str:
        """``random`` or ``class``."""
        return self.scenario.partition(":")[0]


@dataclass(frozen=True)
class Arm:
    """A method with an add-on; ``moments`` is empty where the add-on has none."""

    method: str
    addon: str = "none"
    moments: str = ""

    @property
    def label(self) -> str:
        """``SRL-FOCUS``; moments other than the published ones are named."""
        return arm_label(self.method, self.addon, self.moments)


def situation_of(record: Record) -> Situation:
    """Without its block."""
    return Situation(**{f.name: record[f.name] for f in fields(Situation) if f.name != "block"})


def arm_of(record: Record) -> Arm:
    """Method, add-on and moments."""
    return Arm(record["method"], record["addon"], record["moments"] or "")


def setting_of(record: Record) -> Setting:
    """Aggregation, weights, rate, batches and epochs."""
    return Setting(*(record[name] for name in Setting._fields))
