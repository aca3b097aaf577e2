"""What a protocol will cost, from step times measured on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from expunge.bench._protocol import Block
from expunge.bench._stages import Planned, Where
from expunge.data import load, parse_scenario
from expunge.data._scenario import ClassForget, RandomForget
from expunge.engine._device import pick_device
from expunge.engine._speed import Pace, measure_pace
from expunge.models import build_model
from expunge.store import Stage, Store

OVERHEAD = 1.15
"""Reading data, augmentation, checkpoints, the attacks: what step times leave out."""
PROBE = 32
"""Images of a timed step: an image of a larger batch costs about the same."""
ATTACKS = 3.0
"""Seconds the five attacks take on a set of ten thousand, roughly."""
SIZES = {"digits": (1212, 450, 1), "cifar10": (45_000, 10_000, 3), "svhn": (65_931, 26_032, 3)}
"""Training images (without the validation part), test images, channels."""


@dataclass
class Tally:
    """One kind of stage: how many there are, are needed and are there; what the rest costs."""

    kind: str
    uses: int = 0
    stages: int = 0
    there: int = 0
    seconds: float = 0.0
    bytes: int = 0


@dataclass(frozen=True)
class Estimate:
    """The plan of a protocol in numbers. ``seconds`` and ``bytes`` are of what is missing."""

    kinds: tuple[Tally, ...]
    configurations: int
    addon_configurations: int
    seeds: int
    paces: dict[str, Pace] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Work of all missing stages, on the threads a worker has."""
        return sum(kind.seconds for kind in self.kinds)

    @property
    def bytes(self) -> int:
        """Disk that the missing stages will take."""
        return sum(kind.bytes for kind in self.kinds)


def estimate(
    planned: Sequence[Planned], store: Store, where: Where, *, measure: bool = True
) -> Estimate:
    """Count the stages and, with ``measure``, what the missing ones take in time and on disk."""
    tallies = {kind: Tally(kind) for kind in ("initial", "ideal", "reference", "unlearn")}
    seen: set[str] = set()
    paces: dict[str, Pace] = {}
    weights: dict[str, int] = {}
    sizes: dict[str, tuple[int, int, int]] = {}
    for run in planned:
        for stage in run.stages:
            tally = tallies[stage.kind]
            tally.uses += 1
            if stage.key in seen:
                continue
            seen.add(stage.key)
            tally.stages += 1
            if store.has(stage):
                tally.there += 1
                continue
            if measure:
                name = run.arm.block.name
                if name not in paces:
                    sizes[name] = _sizes(run.arm.block, where)
                    paces[name], weights[name] = _measure(run.arm.block, sizes[name][2], where)
                tally.seconds += OVERHEAD * _seconds(run, stage, paces[name], sizes[name])
                tally.bytes += _bytes(stage, weights[name], where)
    configurations = {
        (run.arm.block.name, run.arm.procedure, run.arm.baseline, run.scenario) for run in planned
    }
    return Estimate(
        tuple(tallies.values()),
        len(configurations),
        sum(not baseline for _, _, baseline, _ in configurations),
        len({run.seed for run in planned}),
        paces,
    )


def _measure(block: Block, channels: int, where: Where) -> tuple[Pace, int]:
    side = 8 if block.data.startswith("digits") else 32
    options: dict[str, Any] = dict(block.options)
    net = build_model(block.model, in_channels=channels, width=block.width, **options)
    net = net.to(pick_device(where.device, net))
    few = min(block.training.batch_size, PROBE)
    images = torch.zeros(few, channels, side, side, dtype=torch.uint8)
    labels = torch.zeros(len(images), dtype=torch.int64)
    size = sum(t.numel() * t.element_size() for t in net.state_dict().values())
    return measure_pace(net, images, labels, few, repeat=2), size


def _sizes(block: Block, where: Where) -> tuple[int, int, int]:
    kind = block.data.partition(":")[0]
    if kind in SIZES:
        train, test, channels = SIZES[kind]
    else:
        splits = load(block.data, where.root)
        train, test, channels = len(splits.train), len(splits.test), splits.train.shape[0]
    train, test = min(train, block.limit or train), min(test, block.test_limit or test)
    return train, test, channels


def _forgotten(scenario: str, train: int) -> int:
    parsed = parse_scenario(scenario)
    if isinstance(parsed, RandomForget):
        return round(parsed.fraction * train)
    if isinstance(parsed, ClassForget):
        return round(parsed.fraction * train / 10)
    return train // 10


def _seconds(run: Planned, stage: Stage, pace: Pace, sizes: tuple[int, int, int]) -> float:
    block = run.arm.block
    train, test, _ = sizes
    forget = _forgotten(run.scenario, train)
    judging = pace.inference * (train + test) + ATTACKS * (train + test) / 20_000
    if stage.kind == "initial":
        return block.training.epochs * train * pace.training
    if stage.kind == "ideal":
        return block.training.epochs * (train - forget) * pace.training
    if stage.kind == "reference":
        return 2 * judging
    method = run.arm.procedure.method
    visits = 2 if getattr(method, "constrained", False) else 1
    a_step = visits * pace.training + (2 * pace.inference if run.arm.method == "scrub" else 0.0)
    evaluations = len(stage.config["evaluate_at"])
    return run.arm.procedure.epochs * forget * a_step + evaluations * judging


def _bytes(stage: Stage, weights: int, where: Where) -> int:
    if stage.kind in ("initial", "ideal"):
        return 0 if where.keep == "none" else weights
    if stage.kind == "reference":
        return 20_000
    copies = {"none": 0, "last": 1, "all": 1 + len(stage.config["evaluate_at"])}[where.keep]
    return 40_000 + copies * weights
