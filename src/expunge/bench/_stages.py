"""The stages of a protocol: train an initial model, an ideal one, score both, unlearn.

    initial(data, model, recipe, seed) ──┐
                                         ├─> reference(scenario) ──> unlearn(procedure)
    ideal(..., scenario, seed + 1000) ───┘

An initial model serves every scenario and variant of its seed, an ideal model every variant of its
scenario. ``reference`` scores both once and keeps what the ideal model says of the forget set. A
protocol may have more ideal models, trained with seed + 3000, + 5000, ...: the noise floor.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from expunge._serialisation import describe
from expunge.bench._protocol import Block, Protocol, augment_of, variants_of
from expunge.bench._results import MAX_IDEALS, BenchRun
from expunge.data import load, load_corpus
from expunge.engine import Procedure
from expunge.evaluation import text_definitions
from expunge.store import Stage

VERSION = 1
FUNCTIONS = "expunge.bench._stage_functions"
VAL_FRACTION = 0.1
IDEAL_SEED_OFFSETS = range(1000, 1000 + 2000 * MAX_IDEALS, 2000)
"""The ideal models of seed s are trained with seeds s + 1000, s + 3000, and so on."""
RUNS = {
    "initial": "train_model",
    "ideal": "train_model",
    "reference": "score_references",
    "unlearn": "unlearn_variant",
}
"""The function that does the work of each kind of stage."""


def plan(
    protocol: Protocol, *, root: str | None = None, device: str = "auto", keep: str = "last"
) -> list[BenchRun]:
    """Every unlearning run of a protocol; the options after it do not change results."""
    seen: dict[str, Stage] = {}

    def once(stage: Stage) -> Stage:
        return seen.setdefault(stage.key, stage)

    runs = []
    for block in protocol.block:
        options = {"root": root, "device": device, "keep": keep, "data": block.data}
        stages, tried = _BlockStages(protocol, block, options), list(variants_of(block))
        for seed, scenario in itertools.product(block.seeds, block.scenarios):
            initial = once(stages.initial(seed))
            offsets = IDEAL_SEED_OFFSETS[: block.ideals]
            ideals = [once(stages.ideal(scenario, seed, offset)) for offset in offsets]
            reference = once(stages.reference(scenario, seed, (initial, *ideals)))
            for variant, procedure in tried:
                run = replace(variant, scenario=scenario, seed=seed)
                stage = once(stages.unlearn(run, procedure, (initial, reference)))
                runs.append(replace(run, stage=stage))
    return runs


class _BlockStages:
    """The stages of one block."""

    def __init__(self, protocol: Protocol, block: Block, options: dict[str, Any]) -> None:
        self.protocol, self.block, self.options = protocol, block, options
        width: dict[str, Any] = {} if block.is_text else {"width": block.width}
        sizes = {k: int(v) for k, v in block.options.items()} if block.is_text else block.options
        self.training = {
            "data": _data(block, options["root"]),
            "model": {"name": block.model, **width, **sizes},
            "recipe": block.training.recipe.as_dict(),
            "augment": describe(augment_of(block)),
        }

    def initial(self, seed: int) -> Stage:
        epochs = self.block.training.epochs
        return self._stage("initial", self.training | {"seed": seed}, seed, "initial", epochs)

    def ideal(self, scenario: str, seed: int, offset: int) -> Stage:
        seeds = {"seed": seed + offset, "scenario": scenario, "scenario_seed": seed}
        title, epochs = f"ideal without {scenario}", self.block.training.epochs
        return self._stage("ideal", self.training | seeds, seed, title, epochs)

    def reference(self, scenario: str, seed: int, parents: tuple[Stage, ...]) -> Stage:
        protocol, block = self.protocol, self.block
        config = {
            "attacks": protocol.attacks,
            "test_limit": block.test_limit,
            "scenario": scenario,
            "scenario_seed": seed,
            **({"metrics": block.metrics} if block.metrics else {}),
            **({"definitions": text_definitions()} if block.is_text else {}),
        }
        title = f"score initial and ideal, {scenario}"
        return self._stage("reference", config, seed, title, 1, parents)

    def unlearn(self, run: BenchRun, procedure: Procedure, parents: tuple[Stage, ...]) -> Stage:
        epochs, full_scores = procedure.epochs, self.block.full_scores
        steps = self.block.evaluate_steps
        config = {
            "procedure": describe(procedure),
            "evaluate_at": sorted({e for e in self.protocol.evaluate_at if e < epochs} | {epochs}),
            "seed": run.seed,
            **({} if full_scores == "every" else {"full_scores": full_scores}),
            **({"evaluate_steps": sorted(set(steps))} if steps else {}),
        }
        title = f"{run.label}, {run.scenario}"
        return self._stage("unlearn", config, run.seed, title, 0.2 * epochs, parents)

    def _stage(
        self,
        kind: str,
        config: dict[str, Any],
        seed: int,
        title: str,
        epochs: float,
        parents: tuple[Stage, ...] = (),
    ) -> Stage:
        """A stage that takes about as long as ``epochs`` of training."""
        return Stage(
            kind,
            config,
            parents,
            run=f"{FUNCTIONS}:{RUNS[kind]}",
            version=VERSION,
            title=f"{self.block.name}, seed {seed}: {title}",
            options=self.options,
            cost=self._cost(epochs),
        )

    def _cost(self, epochs: float) -> float:
        """Roughly proportional to the work; only ratios count."""
        block = self.block
        if block.is_text:
            return 0.1 * epochs
        sizes = {"digits": 1.2, "cifar10": 45.0, "cifar100": 45.0, "svhn": 66.0}
        size = sizes.get(block.dataset, 10.0)
        return epochs * min(size, (block.limit or 1_000_000) / 1000) * block.width


def _data(block: Block, root: str | None) -> dict[str, Any]:
    """What identifies the data: a name that fixes them, or a fingerprint where it does not."""
    kind = block.dataset
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
    images = load(block.data, root, val_fraction=VAL_FRACTION, limit=block.limit)
    return identity | {"fingerprint": images.train.fingerprint()}
