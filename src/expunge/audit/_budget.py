"""The strongest attack that fits a budget, from step times measured on this machine."""

from __future__ import annotations

import math
from dataclasses import dataclass

from expunge.engine import Procedure, Recipe

SHADOWS = (64, 32, 16, 8)
REFERENCES = (4, 2, 1)
OVERHEAD = 1.15
"""Factor for what step times leave out: start of workers, augmentation, evaluation."""


@dataclass(frozen=True)
class AttackChoice:
    """The attack to run: U-LiRA with shadow models, RMIA with reference models, or neither."""

    shadows: int
    references: int
    seconds: float
    words: str


@dataclass(frozen=True)
class Workload:
    """Sizes that decide the cost of one shadow or reference model."""

    recipe: Recipe
    procedure: Procedure
    forget: int
    retain: int
    share: float = 0.5

    @property
    def training(self) -> int:
        """Examples processed in one training."""
        return self.recipe.epochs * (round(self.share * self.retain) + self.forget)

    @property
    def unlearning(self) -> int:
        """Examples processed in one unlearning: forget and retain batches, in pairs."""
        return 2 * self.procedure.epochs * self.forget


def choose_attack(
    budget: float, example: float, load: Workload, *, workers: int, ideal: bool
) -> AttackChoice:
    """The strongest attack that fits ``budget`` seconds.

    ``example`` is the seconds per example of a training step with all threads; ``workers`` side by
    side share them, so the work of all models adds up whatever their number.
    """
    one = OVERHEAD * example * (load.training + load.unlearning)
    waves = {n: math.ceil(n / workers) * workers / n for n in (*SHADOWS, *REFERENCES)}
    for count in SHADOWS:
        seconds = one * count * waves[count]
        if seconds <= budget:
            return AttackChoice(count, 0, seconds, f"U-LiRA with {count} shadow models")
    reference = OVERHEAD * example * load.recipe.epochs * round(load.share * load.retain)
    for count in REFERENCES:
        seconds = reference * count * waves[count]
        if seconds <= budget:
            return AttackChoice(0, count, seconds, f"RMIA with {count} reference models")
    least = one * SHADOWS[-1] * waves[SHADOWS[-1]]
    words = (
        "RMIA with the ideal model as its reference" if ideal else "the population attacks alone"
    )
    return AttackChoice(0, 0, 0.0, f"{words}; U-LiRA would take about {least / 60:.0f} min")
