"""The membership attacks and their features by name. Nothing is imported before one is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from expunge._plugins import instance_of
from expunge._registry import Registry

if TYPE_CHECKING:
    from expunge._arrays import Array
    from expunge.engine import Predictions
    from expunge.evaluation.attacks._attack import Attack

PAPER_FIVE = ("correctness", "confidence", "logits", "entropy", "modified-entropy")
"""The features of the paper's five attacks."""
ALIASES = {"modified-entropy": "mix-entropy", "probabilities": "prob"}

FEATURES: Registry[Callable[[Predictions], Array]] = Registry("attack feature")
for _name in (*PAPER_FIVE, "probabilities"):
    _path = f"expunge.evaluation.attacks._features:{_name.replace('-', '_')}"
    FEATURES.declare(_name, _path, alias=ALIASES.get(_name))

ATTACKS: Registry[Attack] = Registry(
    "attack",
    plugins="expunge.attacks",
    adopt=instance_of("expunge.evaluation.attacks._attack:Attack"),
)
ATTACKS.declare("loss", "expunge.evaluation.attacks._population:LossThreshold", arguments=())
for _feature in FEATURES:
    ATTACKS.declare(
        f"svc-{_feature}",
        "expunge.evaluation.attacks._population:SVCAttack",
        arguments=(_feature,),
        about=FEATURES.summary(_feature),
    )
ATTACKS.declare("rmia", "expunge.evaluation.attacks._population:RMIA", arguments=())
