"""What a protocol will cost, from step times measured on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from expunge.bench._protocol import ProtocolBlock
from expunge.bench._stages import PlannedRun, StageOptions
from expunge.data import load, load_corpus, parse_scenario
from expunge.data._hardest import HardestForget
from expunge.data._scenario import ClassForget, PeopleForget, RandomForget
from expunge.engine._device import pick_device
from expunge.engine._step_times import StepTimes, measure_step_times
from expunge.methods import METHODS, next_token_loss
from expunge.models import MODELS, build_language_model, build_model
from expunge.models._build import inputs_of_model
from expunge.store import Stage, Store

OVERHEAD = 1.15
"""Reading data, augmentation, checkpoints, the attacks: what step times leave out."""
TOKENS = 64
"""Of a text in a timed step."""
TIMED_BATCH = 32
"""Images of a timed step: an image of a larger batch costs about the same."""
ATTACKS = 3.0
"""Seconds the five attacks take on a set of ten thousand, roughly."""
SCORED_ROWS = 1500
"""Rows of tokens that a language model is scored on, roughly, with the answers it generates."""
SIZES = {
    "digits": (1212, 450, 1),
    "cifar10": (45_000, 10_000, 3),
    "cifar100": (45_000, 10_000, 3),
    "svhn": (65_931, 26_032, 3),
}
"""Training images (without the validation part), test images, channels."""


@dataclass
class StageKindCost:
    """What one kind of stage costs.

    ``uses`` counts how often the plan asks for such a stage, ``stages`` how many different ones
    there are, ``there`` those in the store; ``seconds`` and ``bytes`` are of the missing ones.
    """

    kind: str
    uses: int = 0
    stages: int = 0
    there: int = 0
    seconds: float = 0.0
    bytes: int = 0


@dataclass(frozen=True)
class ProtocolCost:
    """What a protocol costs; ``seconds`` and ``bytes`` are of the stages that are missing."""

    kinds: tuple[StageKindCost, ...]
    configurations: int
    addon_configurations: int
    seeds: int
    paces: dict[str, StepTimes] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Work of all missing stages, with the threads a worker has."""
        return sum(kind.seconds for kind in self.kinds)

    @property
    def bytes(self) -> int:
        """Disk that the missing stages will take."""
        return sum(kind.bytes for kind in self.kinds)


def estimate_cost(
    planned: Sequence[PlannedRun], store: Store, options: StageOptions, *, measure: bool = True
) -> ProtocolCost:
    """Count the stages and, with ``measure``, what the missing ones take in time and on disk."""
    kinds = {kind: StageKindCost(kind) for kind in ("initial", "ideal", "reference", "unlearn")}
    seen: set[str] = set()
    paces: dict[str, StepTimes] = {}
    measured: dict[tuple[Any, ...], tuple[StepTimes, int]] = {}
    weights: dict[str, int] = {}
    sizes: dict[str, tuple[int, int, int]] = {}
    for run in planned:
        for stage in run.stages:
            kind_cost = kinds[stage.kind]
            kind_cost.uses += 1
            if stage.key in seen:
                continue
            seen.add(stage.key)
            kind_cost.stages += 1
            if store.has(stage):
                kind_cost.there += 1
                continue
            if measure:
                block = run.configuration.block
                name = block.name
                if name not in paces:
                    sizes[name] = _sizes(block, options)
                    alike = (block.data, block.model, block.width, *sorted(block.options.items()))
                    if alike not in measured:
                        measured[alike] = _measure(block, sizes[name][2], options)
                    paces[name], weights[name] = measured[alike]
                kind_cost.seconds += OVERHEAD * _seconds(run, stage, paces[name], sizes[name])
                kind_cost.bytes += _bytes(stage, weights[name], options)
    configurations = {
        (chosen.block.name, chosen.procedure, chosen.baseline, run.scenario)
        for run in planned
        for chosen in (run.configuration,)
    }
    return ProtocolCost(
        tuple(kinds.values()),
        len(configurations),
        sum(not baseline for _, _, baseline, _ in configurations),
        len({run.seed for run in planned}),
        paces,
    )


def _measure(block: ProtocolBlock, channels: int, options: StageOptions) -> tuple[StepTimes, int]:
    if block.is_text:
        return _measure_texts(block, options)
    side = 8 if block.data.startswith("digits") else 32
    chosen: dict[str, Any] = dict(block.options)
    net = build_model(block.model, in_channels=channels, width=block.width, **chosen)
    net = net.to(pick_device(options.device, net))
    few = min(block.training.batch_size, TIMED_BATCH)
    inputs = {
        "images": torch.zeros(few, channels, side, side, dtype=torch.uint8),
        "vectors": torch.zeros(few, channels),
        "tokens": torch.zeros(few, TOKENS, dtype=torch.int64),
    }[inputs_of_model(MODELS[block.model])]
    labels = torch.zeros(few, dtype=torch.int64)
    size = sum(t.numel() * t.element_size() for t in net.state_dict().values())
    return measure_step_times(net, inputs, labels, few, repeat=2), size


def _measure_texts(block: ProtocolBlock, options: StageOptions) -> tuple[StepTimes, int]:
    splits = load_corpus(block.data, people=block.limit, unseen=block.test_limit)
    sizes = {"vocabulary": splits.train.tokenizer.size, "context": splits.context}
    chosen: dict[str, Any] = {name: int(value) for name, value in block.options.items()}
    net = build_language_model(block.model, **sizes, **chosen)
    net = net.to(pick_device(options.device, net))
    few = min(block.training.batch_size, TIMED_BATCH, len(splits.train))
    rows = splits.train.tokens[:few], splits.train.labels[:few]
    size = sum(t.numel() * t.element_size() for t in net.state_dict().values())
    return measure_step_times(net, *rows, few, repeat=2, loss=next_token_loss), size


def _sizes(block: ProtocolBlock, options: StageOptions) -> tuple[int, int, int]:
    kind = block.data.partition(":")[0]
    if block.is_text:
        splits = load_corpus(kind, people=block.limit, unseen=block.test_limit)
        return len(splits.train) + len(splits.general), SCORED_ROWS, 0
    if kind in SIZES:
        train, test, channels = SIZES[kind]
    else:
        given = load(block.data, options.root)
        train, test, channels = len(given.train), len(given.test), given.in_channels
    train, test = min(train, block.limit or train), min(test, block.test_limit or test)
    return train, test, channels


def _forgotten(scenario: str, train: int) -> int:
    """How many training images a scenario forgets, roughly."""
    parsed = parse_scenario(scenario)
    if isinstance(parsed, RandomForget | HardestForget | PeopleForget):
        return round(parsed.fraction * train)
    if isinstance(parsed, ClassForget):
        return round(parsed.fraction * train / 10)
    return train // 10


def _seconds(run: PlannedRun, stage: Stage, pace: StepTimes, sizes: tuple[int, int, int]) -> float:
    """What a missing stage takes, from the pace of a step."""
    configuration, block = run.configuration, run.configuration.block
    train, test, _ = sizes
    forget = _forgotten(run.scenario, train)
    judging = pace.inference * (train + test) + ATTACKS * (train + test) / 20_000
    if block.is_text:
        judging = pace.inference * test
    if stage.kind == "initial":
        return block.training.epochs * train * pace.training
    if stage.kind == "ideal":
        return block.training.epochs * (train - forget) * pace.training
    if stage.kind == "reference":
        return 2 * judging
    procedure = configuration.procedure
    passes = 2 if getattr(procedure.method, "constrained", False) else 1
    teacher = 2 * pace.inference if METHODS.bare_name(configuration.method) == "scrub" else 0.0
    unlearning = procedure.epochs * forget * (passes * pace.training + teacher)
    evaluated = len(stage.config["evaluate_at"])
    if stage.config.get("full_scores") == "last":  # before that, no retained data
        return unlearning + judging + (evaluated - 1) * pace.inference * (forget + test)
    return unlearning + evaluated * judging


def _bytes(stage: Stage, weights: int, options: StageOptions) -> int:
    if stage.kind in ("initial", "ideal"):
        return 0 if options.keep == "none" else weights
    if stage.kind == "reference":
        return 20_000
    copies = {"none": 0, "last": 1, "all": 1 + len(stage.config["evaluate_at"])}[options.keep]
    return 40_000 + copies * weights
