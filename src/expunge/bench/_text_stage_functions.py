"""The work of the stages of a protocol for causal language models: functions that workers call.

Initial models learn all people and the facts that belong to nobody, ideal ones all but the people
to forget. A model unlearns with retained people alone as its constraint; what becomes of the facts
is measured, as TOFU does for world facts.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from torch import nn

from expunge import _tensors as tensors
from expunge import dispatch
from expunge._errors import DataError
from expunge._files import write_text
from expunge.bench._stage_functions import (
    WEIGHTS,
    execution_of,
    read_rows,
    reference_row,
    run_arm,
    write_rows,
    write_trained,
)
from expunge.data import TextDivision, TextSet, TextSplits, divide_texts, load_corpus
from expunge.engine import Callback, Recipe, Run, train
from expunge.engine._model_from_config import fit_weights
from expunge.evaluation import TextIdeal, TextScores, evaluate_text
from expunge.methods import next_token_loss
from expunge.models import build_language_model
from expunge.store import Entry

DEFINITIONS, IDEAL = "definitions.json", "ideal.json"
MOST_RETAINED, MOST_GENERAL = 36, 18
"""Retained and general records that a model is scored on: always the same ones of a scenario."""


def train_initial(context: dispatch.Context) -> None:
    """Train on all people, and on what belongs to nobody."""
    splits = _load(context.config["data"])
    _train(context, splits, splits.train)


def train_ideal(context: dispatch.Context) -> None:
    """Train, from scratch and by the same recipe, without the people to forget."""
    config = context.config
    splits = _load(config["data"])
    _train(
        context, splits, divide_texts(splits, config["scenario"], config["scenario_seed"]).retain
    )


def score_references(context: dispatch.Context) -> None:
    """Score initial and ideal model on a scenario; keep what others are compared with."""
    initial, ideal = context.parents
    division = _division(initial, context.config)
    scorer = TextScorer.of(division, attacks=context.config["attacks"])
    best = _restore(ideal, division.splits)
    expected = TextIdeal.of(best, scorer.score(best), scorer.forget, scorer.unseen)
    scorer = replace(scorer, ideal=expected)
    scores = {
        "initial": scorer.score(_restore(initial, division.splits)),
        "ideal": scorer.score(best),
    }
    rows = [
        reference_row(name, score.as_dict(), initial if name == "initial" else ideal)
        for name, score in scores.items()
    ]
    write_rows(context.folder, rows)
    write_text(context.folder / IDEAL, json.dumps(asdict(expected)))
    write_text(context.folder / DEFINITIONS, json.dumps(scores["initial"].definitions))


def unlearn_arm(context: dispatch.Context) -> None:
    """Unlearn, scoring the model at the epochs of ``evaluate_at``."""
    initial, reference = context.parents
    division = _division(initial, reference.config)
    known = json.loads(reference.path(IDEAL).read_text(encoding="utf-8"))
    scorer = TextScorer.of(division, TextIdeal(**known), attacks=reference.config["attacks"])
    watcher = EpochTextScores(scorer, frozenset(context.config["evaluate_at"]))
    run_arm(
        context,
        _restore(initial, division.splits),
        [watcher],
        forget=division.forget,
        retain=division.retain,
        unseen=division.splits.unseen,
    )
    definitions = reference.path(DEFINITIONS).read_text(encoding="utf-8")
    write_text(context.folder / DEFINITIONS, definitions)


@dataclass
class TextScorer:
    """Scores models on one division of a corpus, on a sample of what they may keep."""

    forget: TextSet
    retain: TextSet
    general: TextSet
    unseen: TextSet
    ideal: TextIdeal | None = None
    attacks: bool = False

    @classmethod
    def of(
        cls, division: TextDivision, ideal: TextIdeal | None = None, *, attacks: bool = False
    ) -> TextScorer:
        """The scorer of a division."""
        splits = division.splits
        return cls(
            division.forget,
            _sample(division.retain, MOST_RETAINED),
            _sample(splits.general, MOST_GENERAL),
            splits.unseen,
            ideal,
            attacks,
        )

    def score(self, model: nn.Module, *, gradients: bool = True) -> TextScores:
        """All metrics; ``gradients`` includes the attack that needs them, if attacks are wanted."""
        return evaluate_text(
            model,
            forget=self.forget,
            retain=self.retain,
            test=self.unseen,
            general=self.general,
            ideal=self.ideal,
            attacks=self.attacks and gradients,
        )


class EpochTextScores(Callback):
    """Adds the scores to the history after each of ``epochs``; gradient norms after the last."""

    def __init__(self, scorer: TextScorer, epochs: Collection[int]) -> None:
        self.scorer, self.epochs = scorer, epochs

    def on_epoch(self, run: Run) -> None:
        if run.epoch in self.epochs:
            last = run.epoch == max(self.epochs)
            run.record(**self.scorer.score(run.model, gradients=last).as_dict())


def _train(context: dispatch.Context, splits: TextSplits, people: TextSet) -> None:
    config = context.config
    data = TextSet([*people.records, *splits.general.records], people.tokenizer)
    model = build_language_model(**_sized(config["model"], splits), seed=int(config["seed"]))
    result = train(
        model,
        data,
        recipe=Recipe(**config["recipe"]),
        loss=next_token_loss,
        execution=execution_of(context),
    )
    write_trained(context, result, splits.train.fingerprint())


def _sized(model: Mapping[str, Any], splits: TextSplits) -> dict[str, Any]:
    sizes = {"vocabulary": splits.train.tokenizer.size, "context": splits.context}
    return dict(model) | sizes


def _load(data: Mapping[str, Any]) -> TextSplits:
    splits = load_corpus(data["name"], people=data["people"], unseen=data["unseen"])
    if splits.train.fingerprint() != data["fingerprint"]:
        raise DataError(f"The corpus {data['name']} has changed since the run was planned.")
    return splits


def _division(initial: Entry, config: Mapping[str, Any]) -> TextDivision:
    splits = _load(initial.config["data"])
    if splits.train.fingerprint() != read_rows(initial)[-1]["fingerprint"]:
        raise DataError("The corpus is not the one that the initial model was trained on.")
    return divide_texts(splits, config["scenario"], config["scenario_seed"])


def _restore(entry: Entry, splits: TextSplits) -> nn.Module:
    model = build_language_model(**_sized(entry.config["model"], splits))
    path = entry.path(WEIGHTS)
    fit_weights(model, tensors.load(path)[0], str(path))
    return model.eval()


def _sample(data: TextSet, most: int) -> TextSet:
    """At most so many records, always the same ones, in their order."""
    order = np.random.default_rng(0).permutation(len(data))[:most]
    return data.subset(np.sort(order))
