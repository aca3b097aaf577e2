"""Initial and ideal models that were trained before: two files, or all of a benchmark's store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from expunge._errors import DataError
from expunge._part_values import rebuild
from expunge.bench._stage_functions import METRICS_FILE, WEIGHTS
from expunge.bench._stages import IDEAL_SEED
from expunge.data import Augment, Division, Splits, divide, load
from expunge.engine._artifact import load_artifact, load_card_data, matching_ideal
from expunge.engine._model_from_config import (
    default_augment,
    restore_from_config,
    sizes_for,
)
from expunge.store import Entry, Store


@dataclass(frozen=True)
class Pair:
    """A model, the one retrained without the forget set, and the data of both."""

    scenario: str
    seed: int
    parts: Division
    initial: nn.Module
    ideal: nn.Module
    augment: Augment | None


def from_files(initial: Path, ideal: Path, data: str | None) -> Iterator[Pair]:
    """The pair in two files of ``expunge train`` and ``expunge retrain``."""
    first, best = load_artifact(initial), load_artifact(ideal)
    scenario, seed = best.card.scenario or "", best.card.scenario_seed or 0
    parts = divide(load_card_data(first.card, data), scenario, seed)
    judge = matching_ideal(best, first.card, parts, scenario, seed)
    assert judge is not None
    yield Pair(scenario, seed, parts, first.model, judge, default_augment(parts.splits))


def from_store(root: Path, data: str) -> Iterator[Pair]:
    """Every pair of a store of ``expunge bench`` that was trained on ``data``, by seed."""
    kind = data.partition(":")[0]
    store = Store(root)
    starts = {_base(entry): entry for entry in store.entries("initial")}
    ends = [entry for entry in store.entries("ideal") if entry.config["data"]["name"] == kind]
    for entry in sorted(ends, key=lambda e: (e.config["scenario"], e.config["scenario_seed"])):
        initial = starts.get(_base(entry))
        if initial is None:
            continue
        splits = _data(initial, data)
        scenario, seed = entry.config["scenario"], int(entry.config["scenario_seed"])
        models = (_model(part.verify(), splits) for part in (initial, entry))
        augment = rebuild(initial.config["augment"])
        yield Pair(scenario, seed, divide(splits, scenario, seed), *models, augment)


def _base(entry: Entry) -> str:
    """What an ideal model has in common with its initial one."""
    config = dict(entry.config)
    names = ("data", "model", "recipe", "augment")
    own = int(config["seed"]) - (IDEAL_SEED if entry.kind == "ideal" else 0)
    return json.dumps({name: config[name] for name in names} | {"seed": own}, sort_keys=True)


def _data(initial: Entry, data: str) -> Splits:
    config: dict[str, Any] = initial.config["data"]
    splits = load(data, val_fraction=config["val_fraction"], limit=config["limit"])
    last = initial.path(METRICS_FILE).read_text(encoding="utf-8").splitlines()[-1]
    if splits.train.fingerprint() != json.loads(last)["fingerprint"]:
        raise DataError(f"{data} are not the data that {initial.title} was trained on.")
    return splits


def _model(entry: Entry, splits: Splits) -> nn.Module:
    return restore_from_config(entry.config["model"] | sizes_for(splits.train), entry.path(WEIGHTS))
