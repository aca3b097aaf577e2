"""What a protocol will cost, from step times measured on this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from expunge.bench._protocol import Block, Protocol
from expunge.bench._stages import PlannedRun, StageOptions
from expunge.data import (
    ClassForget,
    HardestForget,
    PeopleForget,
    RandomForget,
    load,
    load_corpus,
    parse_scenario,
)
from expunge.engine import StepTimes, measure_step_times, pick_device
from expunge.methods import METHODS, next_token_loss
from expunge.models import MODELS, build_language_model, build_model, inputs_of_model
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
    protocol: Protocol,
    planned: Sequence[PlannedRun],
    store: Store,
    options: StageOptions,
    *,
    measure: bool = True,
) -> ProtocolCost:
    """Count the stages and, with ``measure``, what the missing ones take in time and on disk."""
    blocks = {block.name: block for block in protocol.block}
    kinds = {kind: StageKindCost(kind) for kind in ("initial", "ideal", "reference", "unlearn")}
    seen: set[str] = set()
    paces: dict[str, BlockPace] = {}
    for run in planned:
        for stage in run.stages:
            cost = kinds[stage.kind]
            cost.uses += 1
            if stage.key in seen:
                continue
            seen.add(stage.key)
            cost.stages += 1
            if store.has(stage):
                cost.there += 1
            elif measure:
                block = blocks[run.block]
                if block.name not in paces:
                    paces[block.name] = _pace(block, options, paces)
                pace = paces[block.name]
                cost.seconds += OVERHEAD * _seconds(run, block, stage, pace)
                cost.bytes += _bytes(stage, pace.weights, options)
    configurations = {
        (run.block, run.procedure, run.baseline, run.task.scenario) for run in planned
    }
    return ProtocolCost(
        tuple(kinds.values()),
        len(configurations),
        sum(not baseline for _, _, baseline, _ in configurations),
        len({run.seed for run in planned}),
        {name: pace.times for name, pace in paces.items()},
    )


class BlockPace(NamedTuple):
    """What the steps of a block take, the bytes of its models, and the sizes of its data.

    ``alike`` is what the pace depends on: blocks that share it are timed once.
    """

    times: StepTimes
    weights: int
    train: int
    test: int
    alike: tuple[Any, ...]


def _pace(block: Block, options: StageOptions, known: Mapping[str, BlockPace]) -> BlockPace:
    train, test, channels = _sizes(block, options)
    alike = (block.data, block.model, block.width, *sorted(block.options.items()))
    for pace in known.values():
        if pace.alike == alike:
            return pace._replace(train=train, test=test)
    measure = _measure_texts if block.is_text else _measure_images
    times, weights = measure(block, channels, options)
    return BlockPace(times, weights, train, test, alike)


def _measure_images(block: Block, channels: int, options: StageOptions) -> tuple[StepTimes, int]:
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


def _measure_texts(block: Block, channels: int, options: StageOptions) -> tuple[StepTimes, int]:
    splits = load_corpus(block.data, people=block.limit, unseen=block.test_limit)
    sizes = {"vocabulary": splits.train.tokenizer.size, "context": splits.context}
    chosen: dict[str, Any] = {name: int(value) for name, value in block.options.items()}
    net = build_language_model(block.model, **sizes, **chosen)
    net = net.to(pick_device(options.device, net))
    few = min(block.training.batch_size, TIMED_BATCH, len(splits.train))
    rows = splits.train.tokens[:few], splits.train.labels[:few]
    size = sum(t.numel() * t.element_size() for t in net.state_dict().values())
    return measure_step_times(net, *rows, few, repeat=2, loss=next_token_loss), size


def _sizes(block: Block, options: StageOptions) -> tuple[int, int, int]:
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


def _seconds(run: PlannedRun, block: Block, stage: Stage, pace: BlockPace) -> float:
    """What a missing stage takes, from the pace of a step."""
    times, train, test = pace.times, pace.train, pace.test
    forget = _forgotten(run.task.scenario, train)
    judging = times.inference * (train + test) + ATTACKS * (train + test) / 20_000
    if block.is_text:
        judging = times.inference * test
    if stage.kind == "initial":
        return block.training.epochs * train * times.training
    if stage.kind == "ideal":
        return block.training.epochs * (train - forget) * times.training
    if stage.kind == "reference":
        return 2 * judging
    procedure = run.procedure
    passes = 2 if getattr(procedure.method, "constrained", False) else 1
    teacher = 2 * times.inference if METHODS.bare_name(run.variant.method) == "scrub" else 0.0
    unlearning = procedure.epochs * forget * (passes * times.training + teacher)
    evaluated = len(stage.config["evaluate_at"])
    if stage.config.get("full_scores") == "last":  # before that, no retained data
        return unlearning + judging + (evaluated - 1) * times.inference * (forget + test)
    return unlearning + evaluated * judging


def _bytes(stage: Stage, weights: int, options: StageOptions) -> int:
    if stage.kind in ("initial", "ideal"):
        return 0 if options.keep == "none" else weights
    if stage.kind == "reference":
        return 20_000
    copies = {"none": 0, "last": 1, "all": 1 + len(stage.config["evaluate_at"])}[options.keep]
    return 40_000 + copies * weights
