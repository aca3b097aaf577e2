"""Models to make deletion requests of, what to forget, and the models retrained without it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from expunge import _tensors as tensors
from expunge._errors import DataError
from expunge._serialisation import rebuild
from expunge.bench._stage_functions import METRICS_FILE, WEIGHTS
from expunge.bench._stages import IDEAL_SEEDS
from expunge.data import Splits, load, parse_scenario
from expunge.engine import Recipe
from expunge.engine._model_from_config import (
    restore_from_config,
    sizes_for,
    train_from_config,
)
from expunge.store import Entry, Store

DIGITS = {
    "model": {"name": "small-cnn", "width": 0.5},
    "recipe": {"epochs": 60, "batch_size": 32, "lr": 0.05, "schedule": "one-cycle"},
    "augment": None,
}
"""A small CNN that knows the few digits it is trained on by heart."""
DIGITS_LIMIT = 200
DIGITS_SETS = (
    "random:0.05",
    "random:0.1",
    "random:0.2",
    "random:0.3",
    "random:0.5",
    "class:3",
    "class:8:0.5",
    "class:5:0.3",
)
SMALL_SETS = ("random:0.01", "records:150", "person:12", "person:60")
"""Sets that share one retrained model, which saw none of them: together they are a few percent."""
IMAGE_SETS = ("random:0.1", *SMALL_SETS, "class:3:0.4", "class:3", "second:0.05")
CLASS = 3
"""The class that records, and most of a person's records, are of."""


@dataclass(frozen=True, eq=False)
class World:
    """A trained model with its data, and a folder where retrained models are kept."""

    name: str
    seed: int
    splits: Splits
    config: dict[str, Any]
    initial: nn.Module
    folder: Path
    stored_ideal: Entry | None = None
    """The model of a benchmark's store that was retrained without ``random:0.1``."""

    @property
    def recipe(self) -> Recipe:
        """How the models are trained."""
        return Recipe(**self.config["recipe"])

    def forget_set(self, scenario: str) -> list[int]:
        """The training records that a scenario names, sorted."""
        train, labels = self.splits.train, self.splits.train.labels
        kind, _, size = scenario.partition(":")
        if kind == "records":
            return _draw((labels == CLASS).nonzero()[:, 0], int(size), self.seed)
        if kind == "person":  # two of three records of one class, the others of the next
            first, second = ((labels == c).nonzero()[:, 0] for c in (CLASS, CLASS + 1))
            count = 2 * int(size) // 3
            own = _draw(first, count, self.seed + int(size))
            return sorted(own + _draw(second, int(size) - count, self.seed + int(size)))
        if kind == "second":  # after random:0.1
            before = set(self.forget_set("random:0.1"))
            rest = [i for i in range(len(train)) if i not in before]
            count = round(float(size) * len(train))
            return sorted(np.random.default_rng(self.seed + 1).permutation(rest)[:count].tolist())
        return sorted(int(i) for i in parse_scenario(scenario).pick(train, self.seed).forget)

    def left_out(self, scenario: str) -> list[int]:
        """What the model to compare with was not trained on: the forget set, or more."""
        names = SMALL_SETS if scenario in SMALL_SETS else (scenario,)
        names = ("random:0.1", scenario) if scenario.startswith("second:") else names
        return sorted({i for name in names for i in self.forget_set(name)})

    def ideal(self, left_out: Sequence[int], again: int = 0) -> nn.Module:
        """The model retrained without ``left_out``; ``again`` for independent ones.

        It is trained once and kept; a killed training resumes.
        """
        stored = self.stored_ideal
        if stored is not None and not again and list(left_out) == self.forget_set("random:0.1"):
            return restore_from_config(
                self.config["model"] | sizes_for(self.splits), stored.path(WEIGHTS)
            )
        gone = set(left_out)
        retain = self.splits.train.subset(
            [i for i in range(len(self.splits.train)) if i not in gone]
        )
        seed = self.seed + IDEAL_SEEDS[0] * (1 + again)
        content = json.dumps([self.name, self.config, seed, list(left_out)], sort_keys=True)
        path = self.folder / f"{hashlib.sha256(content.encode()).hexdigest()[:16]}.safetensors"
        if not path.is_file():
            checkpoint = path.with_suffix(".checkpoint")
            model = train_from_config(
                self.config["model"] | sizes_for(self.splits),
                retain,
                recipe=self.recipe,
                augment=rebuild(self.config["augment"]),
                seed=seed,
                checkpoint=checkpoint,
                progress=False,
            ).model
            tensors.save(path, model.state_dict(), {"left_out": str(len(left_out))})
            checkpoint.unlink(missing_ok=True)
        return restore_from_config(self.config["model"] | sizes_for(self.splits), path)


def digits_world(seed: int, folder: Path) -> World:
    """Few digits to train on, so that they are memorised; many to validate on."""
    splits = load("digits", limit=DIGITS_LIMIT, val_fraction=0.3, seed=seed)
    empty = World("digits", seed, splits, DIGITS, nn.Identity(), folder)
    initial = empty.ideal([], again=-1)
    return World("digits", seed, splits, DIGITS, initial, folder)


def stored_worlds(root: Path, data: str, folder: Path) -> Iterator[World]:
    """Every initial model in a store of ``expunge bench`` that was trained on ``data``, by seed."""
    kind = data.partition(":")[0]
    store = Store(root)
    ideals = {_base(entry): entry for entry in store.entries("ideal") if _is_random(entry)}
    starts = [entry for entry in store.entries("initial") if entry.config["data"]["name"] == kind]
    for entry in sorted(starts, key=lambda e: (e.config["data"]["limit"] or 0, e.config["seed"])):
        splits = _load(entry, data)
        size = entry.config["data"]["limit"] or "all"
        initial = restore_from_config(
            entry.config["model"] | sizes_for(splits), entry.verify().path(WEIGHTS)
        )
        config = {name: entry.config[name] for name in ("model", "recipe", "augment")}
        seed = int(entry.config["seed"])
        yield World(
            f"{kind}-{size}", seed, splits, config, initial, folder, ideals.get(_base(entry))
        )


def _draw(members: Tensor, count: int, seed: int) -> list[int]:
    drawn = np.random.default_rng(seed).permutation(members.numpy())[:count]
    return sorted(int(i) for i in drawn)


def _is_random(entry: Entry) -> bool:
    return bool(entry.config["scenario"] == "random:0.1")


def _base(entry: Entry) -> str:
    """What an ideal model has in common with its initial one."""
    config = dict(entry.config)
    names = ("data", "model", "recipe", "augment")
    own = int(config["seed"]) - (IDEAL_SEEDS[0] if entry.kind == "ideal" else 0)
    return json.dumps({name: config[name] for name in names} | {"seed": own}, sort_keys=True)


def _load(initial: Entry, data: str) -> Splits:
    config: dict[str, Any] = initial.config["data"]
    splits = load(data, val_fraction=config["val_fraction"], limit=config["limit"])
    last = initial.path(METRICS_FILE).read_text(encoding="utf-8").splitlines()[-1]
    if splits.train.fingerprint() != json.loads(last)["fingerprint"]:
        raise DataError(f"{data} are not the data that {initial.title} was trained on.")
    return splits
