"""The metrics: what each is, which way is good, in what unit. Tables and documents read this."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from expunge.registry import Registry

Direction = Literal["ideal", "higher", "lower", "zero", "none"]


@dataclass(frozen=True)
class Metric:
    """A metric's name, definition, direction and unit."""

    label: str
    definition: str
    direction: Direction
    unit: str = "%"
    decimals: int = 2


METRICS: Registry[Metric] = Registry("metric")
METRICS.add("ua", Metric("UA", "accuracy on the forget set", "ideal"))
METRICS.add("ra", Metric("RA", "accuracy on the retain set", "ideal"))
METRICS.add("ta", Metric("TA", "accuracy on the test set", "higher"))
METRICS.add("rua", Metric("rUA", "UA minus the ideal model's UA", "zero", unit="points"))
METRICS.add("fid", Metric("FID", "share of the forget set where model and ideal agree", "higher"))
METRICS.add("rte", Metric("RTE", "time of the unlearning steps alone", "lower", unit="s"))
