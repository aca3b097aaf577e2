"""The stages of a protocol: train an initial model, an ideal one, score both, unlearn.

    initial(data, model, recipe, seed) ──┐
                                         ├─> reference(scenario) ──> unlearn(procedure)
    ideal(..., scenario, seed + 1000) ───┘

An initial model serves every scenario and arm of its seed, an ideal model every arm of its
scenario. ``reference`` scores both once and keeps what the ideal model says of the forget set.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from expunge._part_values import describe
from expunge.bench._protocol import Arm, Block, Protocol, arms_of, augment_of
from expunge.data import load
from expunge.store import Stage

VERSION = 1
HERE = "expunge.bench._stage_functions"
VAL_FRACTION = 0.1
IDEAL_SEED = 1000
"""The ideal model of seed s is trained with seed s + 1000."""


@dataclass(frozen=True)
class Planned:
    """An unlearning run of a protocol, with the stages it hangs on."""

    arm: Arm
    scenario: str
    seed: int
    initial: Stage
    ideal: Stage
    reference: Stage
    unlearn: Stage

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Parents first."""
        return (self.initial, self.ideal, self.reference, self.unlearn)


@dataclass(frozen=True)
class Where:
    """What does not change a result: where the data are, on what device, which weights to keep."""

    root: str | None = None
    device: str = "auto"
    keep: str = "last"

    def options(self) -> dict[str, Any]:
        """As a stage's options."""
        return asdict(self)


def plan(protocol: Protocol, where: Where | None = None) -> list[Planned]:
    """Every unlearning run of a protocol; equal stages are one object."""
    return list(_plan(protocol, where or Where()))


def _plan(protocol: Protocol, where: Where) -> Iterator[Planned]:
    seen: dict[str, Stage] = {}

    def once(stage: Stage) -> Stage:
        return seen.setdefault(stage.key, stage)

    for block in protocol.block:
        data = _data(block, where)
        arms = list(arms_of(block))
        for seed in protocol.seeds:
            initial = once(_initial(block, data, seed, where))
            for scenario in block.scenarios:
                ideal = once(_ideal(block, data, scenario, seed, where))
                reference = once(_reference(protocol, block, scenario, seed, initial, ideal, where))
                for arm in arms:
                    unlearn = once(
                        _unlearn(protocol, arm, scenario, seed, initial, reference, where)
                    )
                    yield Planned(arm, scenario, seed, initial, ideal, reference, unlearn)


def _data(block: Block, where: Where) -> dict[str, Any]:
    """What identifies the data: a name that fixes them, or a fingerprint where it does not."""
    kind = block.data.partition(":")[0]
    known: dict[str, Any] = {"name": kind, "limit": block.limit, "val_fraction": VAL_FRACTION}
    if kind in ("digits", "cifar10", "svhn"):
        return known
    splits = load(block.data, where.root, val_fraction=VAL_FRACTION, limit=block.limit)
    return known | {"fingerprint": splits.train.fingerprint()}


def _base(block: Block, data: dict[str, Any]) -> dict[str, Any]:
    return {
        "data": data,
        "model": {"name": block.model, "width": block.width, **block.options},
        "recipe": asdict(block.training.recipe),
        "augment": describe(augment_of(block)),
    }


def _initial(block: Block, data: dict[str, Any], seed: int, where: Where) -> Stage:
    return Stage(
        "initial",
        _base(block, data) | {"seed": seed},
        run=f"{HERE}:train_initial",
        version=VERSION,
        title=f"{block.name}, seed {seed}: initial",
        options=where.options() | {"data": block.data},
        cost=_cost(block, block.training.epochs),
    )


def _ideal(block: Block, data: dict[str, Any], scenario: str, seed: int, where: Where) -> Stage:
    own = {"seed": seed + IDEAL_SEED, "scenario": scenario, "scenario_seed": seed}
    return Stage(
        "ideal",
        _base(block, data) | own,
        run=f"{HERE}:train_ideal",
        version=VERSION,
        title=f"{block.name}, seed {seed}: ideal without {scenario}",
        options=where.options() | {"data": block.data},
        cost=_cost(block, block.training.epochs),
    )


def _reference(
    protocol: Protocol,
    block: Block,
    scenario: str,
    seed: int,
    initial: Stage,
    ideal: Stage,
    where: Where,
) -> Stage:
    return Stage(
        "reference",
        _judging(protocol, block) | {"scenario": scenario, "scenario_seed": seed},
        parents=(initial, ideal),
        run=f"{HERE}:score_references",
        version=VERSION,
        title=f"{block.name}, seed {seed}: score initial and ideal, {scenario}",
        options=where.options() | {"data": block.data},
        cost=_cost(block, 1),
    )


def _unlearn(
    protocol: Protocol,
    arm: Arm,
    scenario: str,
    seed: int,
    initial: Stage,
    reference: Stage,
    where: Where,
) -> Stage:
    epochs = arm.procedure.epochs
    return Stage(
        "unlearn",
        {
            "procedure": describe(arm.procedure),
            "evaluate_at": [epoch for epoch in protocol.evaluate_at if epoch <= epochs],
            "seed": seed,
        },
        parents=(initial, reference),
        run=f"{HERE}:unlearn_arm",
        version=VERSION,
        title=f"{arm.block.name}, seed {seed}: {arm.label} {arm.moments}".rstrip()
        + f", {scenario}",
        options=where.options() | {"data": arm.block.data},
        cost=_cost(arm.block, 0.2 * epochs),
    )


def _judging(protocol: Protocol, block: Block) -> dict[str, Any]:
    return {"attacks": protocol.attacks, "test_limit": block.test_limit}


def _cost(block: Block, epochs: float) -> float:
    """Roughly proportional to the work; only ratios count."""
    size = {"digits": 1.2, "cifar10": 45.0, "svhn": 66.0}.get(block.data.partition(":")[0], 10.0)
    images = min(size, (block.limit or 1_000_000) / 1000)
    return epochs * images * block.width
