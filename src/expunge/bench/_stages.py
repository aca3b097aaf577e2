"""The stages of a protocol: train an initial model, an ideal one, score both, unlearn.

    initial(data, model, recipe, seed) ──┐
                                         ├─> reference(scenario) ──> unlearn(procedure)
    ideal(..., scenario, seed + 1000) ───┘

An initial model serves every scenario and arm of its seed, an ideal model every arm of its
scenario. ``reference`` scores both once and keeps what the ideal model says of the forget set. A
protocol may have a second ideal model, trained with seed + 3000: the noise floor.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from expunge._serialisation import describe
from expunge.bench._protocol import (
    Configuration,
    Protocol,
    ProtocolBlock,
    augment_of,
    configurations_of,
)
from expunge.data import load, load_corpus
from expunge.evaluation.text._text_metrics import text_definitions
from expunge.store import Stage

VERSION = 1
FUNCTIONS = "expunge.bench._stage_functions"
TEXT_FUNCTIONS = "expunge.bench._text_stage_functions"
VAL_FRACTION = 0.1
IDEAL_SEEDS = (1000, 3000)
"""The ideal models of seed s are trained with seeds s + 1000 and s + 3000."""


@dataclass(frozen=True)
class PlannedRun:
    """An unlearning run of a protocol, with the stages it depends on."""

    configuration: Configuration
    scenario: str
    seed: int
    reference: Stage
    unlearn: Stage

    @property
    def trained(self) -> tuple[Stage, ...]:
        """The initial model and the ideal ones."""
        return self.reference.parents

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Parents first."""
        return (*self.trained, self.reference, self.unlearn)


@dataclass(frozen=True)
class StageOptions:
    """What does not change a result: where the data are, on what device, which weights to keep."""

    root: str | None = None
    device: str = "auto"
    keep: str = "last"

    def for_block(self, block: ProtocolBlock) -> dict[str, Any]:
        """The options of the stages of a block."""
        return asdict(self) | {"data": block.data}


def plan(protocol: Protocol, options: StageOptions | None = None) -> list[PlannedRun]:
    """Every unlearning run of a protocol; equal stages are one object."""
    return list(_plan(protocol, options or StageOptions()))


def _plan(protocol: Protocol, options: StageOptions) -> Iterator[PlannedRun]:
    seen: dict[str, Stage] = {}

    def once(stage: Stage) -> Stage:
        return seen.setdefault(stage.key, stage)

    for block in protocol.block:
        data, chosen = _data(block, options), options.for_block(block)
        configurations = list(configurations_of(block))
        for seed in protocol.seeds:
            initial = once(_initial(block, data, seed, chosen))
            for scenario in block.scenarios:
                ideals = [
                    once(_ideal(block, data, scenario, seed, offset, chosen))
                    for offset in IDEAL_SEEDS[: protocol.ideals]
                ]
                reference = once(
                    _reference(protocol, block, scenario, seed, (initial, *ideals), chosen)
                )
                for configuration in configurations:
                    unlearn = once(
                        _unlearn(
                            protocol, configuration, scenario, seed, (initial, reference), chosen
                        )
                    )
                    yield PlannedRun(configuration, scenario, seed, reference, unlearn)


def _data(block: ProtocolBlock, options: StageOptions) -> dict[str, Any]:
    """What identifies the data: a name that fixes them, or a fingerprint where it does not."""
    kind = block.data.partition(":")[0]
    if block.is_text:
        splits = load_corpus(kind, people=block.limit, unseen=block.test_limit)
        return {
            "name": kind,
            "people": block.limit,
            "unseen": block.test_limit,
            "fingerprint": splits.train.fingerprint(),
        }
    identity: dict[str, Any] = {"name": kind, "limit": block.limit, "val_fraction": VAL_FRACTION}
    if kind in ("digits", "cifar10", "cifar100", "svhn"):
        return identity
    images = load(block.data, options.root, val_fraction=VAL_FRACTION, limit=block.limit)
    return identity | {"fingerprint": images.train.fingerprint()}


def _functions(block: ProtocolBlock) -> str:
    """The module that has the work of a block's stages."""
    return TEXT_FUNCTIONS if block.is_text else FUNCTIONS


def _training(block: ProtocolBlock, data: dict[str, Any]) -> dict[str, Any]:
    """What initial and ideal models have in common."""
    options: dict[str, Any] = {"width": block.width} | block.options
    if block.is_text:  # whose width is a number of features
        options = {name: int(value) for name, value in block.options.items()}
    return {
        "data": data,
        "model": {"name": block.model, **options},
        "recipe": block.training.recipe.as_dict(),
        "augment": describe(augment_of(block)),
    }


def _initial(
    block: ProtocolBlock, data: dict[str, Any], seed: int, options: dict[str, Any]
) -> Stage:
    return Stage(
        "initial",
        _training(block, data) | {"seed": seed},
        run=f"{_functions(block)}:train_initial",
        version=VERSION,
        title=f"{block.name}, seed {seed}: initial",
        options=options,
        cost=_cost(block, block.training.epochs),
    )


def _ideal(
    block: ProtocolBlock,
    data: dict[str, Any],
    scenario: str,
    seed: int,
    offset: int,
    options: dict[str, Any],
) -> Stage:
    seeds = {"seed": seed + offset, "scenario": scenario, "scenario_seed": seed}
    return Stage(
        "ideal",
        _training(block, data) | seeds,
        run=f"{_functions(block)}:train_ideal",
        version=VERSION,
        title=f"{block.name}, seed {seed}: ideal without {scenario}",
        options=options,
        cost=_cost(block, block.training.epochs),
    )


def _reference(
    protocol: Protocol,
    block: ProtocolBlock,
    scenario: str,
    seed: int,
    parents: tuple[Stage, ...],
    options: dict[str, Any],
) -> Stage:
    return Stage(
        "reference",
        {
            "attacks": protocol.attacks,
            "test_limit": block.test_limit,
            "scenario": scenario,
            "scenario_seed": seed,
            **({"metrics": list(protocol.metrics)} if protocol.metrics else {}),
            **({"definitions": text_definitions()} if block.is_text else {}),
        },
        parents=parents,
        run=f"{_functions(block)}:score_references",
        version=VERSION,
        title=f"{block.name}, seed {seed}: score initial and ideal, {scenario}",
        options=options,
        cost=_cost(block, 1),
    )


def _unlearn(
    protocol: Protocol,
    configuration: Configuration,
    scenario: str,
    seed: int,
    parents: tuple[Stage, Stage],
    options: dict[str, Any],
) -> Stage:
    block, epochs = configuration.block, configuration.procedure.epochs
    full_scores = block.full_scores or protocol.full_scores
    arm = f"{configuration.label} {configuration.moments}".rstrip()
    return Stage(
        "unlearn",
        {
            "procedure": describe(configuration.procedure),
            "evaluate_at": [epoch for epoch in protocol.evaluate_at if epoch <= epochs],
            "seed": seed,
            **({} if full_scores == "every" else {"full_scores": full_scores}),
        },
        parents=parents,
        run=f"{_functions(block)}:unlearn_arm",
        version=VERSION,
        title=f"{block.name}, seed {seed}: {arm}, {scenario}",
        options=options,
        cost=_cost(block, 0.2 * epochs),
    )


def _cost(block: ProtocolBlock, epochs: float) -> float:
    """Roughly proportional to the work; only ratios count."""
    if block.is_text:
        return 0.1 * epochs
    sizes = {"digits": 1.2, "cifar10": 45.0, "cifar100": 45.0, "svhn": 66.0}
    size = sizes.get(block.data.partition(":")[0], 10.0)
    images = min(size, (block.limit or 1_000_000) / 1000)
    return epochs * images * block.width
