"""Texts in the stages of a protocol for causal language models: data, models and scores.

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
from expunge.bench._stage_functions import DEFINITIONS, WEIGHTS
from expunge.data import TextDivision, TextSet, TextSplits, divide_texts, load_corpus
from expunge.engine import Callback, Execution, Recipe, Result, Run, fit_weights, train
from expunge.evaluation import TextIdeal, TextScores, evaluate_text
from expunge.methods import next_token_loss
from expunge.models import build_language_model
from expunge.store import Entry

IDEAL = "ideal.json"
MOST_RETAINED, MOST_GENERAL = 36, 18
"""Retained and general records that a model is scored on: always the same ones of a scenario."""


class Texts:
    """The :class:`~expunge.bench._stage_functions.Material` of causal language models."""

    def load(self, data: Mapping[str, Any], options: Mapping[str, Any]) -> TextSplits:
        splits = load_corpus(data["name"], people=data["people"], unseen=data["unseen"])
        if splits.train.fingerprint() != data["fingerprint"]:
            raise DataError(f"The corpus {data['name']} has changed since the run was planned.")
        return splits

    def divide(self, splits: TextSplits, config: Mapping[str, Any]) -> TextDivision:
        return divide_texts(splits, config["scenario"], config["scenario_seed"])

    def train(
        self, config: Mapping[str, Any], splits: TextSplits, data: TextSet, execution: Execution
    ) -> Result:
        data = TextSet([*data.records, *splits.general.records], data.tokenizer)
        model = build_language_model(**_sized(config["model"], splits), seed=execution.seed)
        recipe = Recipe(**config["recipe"])
        return train(model, data, recipe=recipe, loss=next_token_loss, execution=execution)

    def restore(self, entry: Entry, splits: TextSplits) -> nn.Module:
        model = build_language_model(**_sized(entry.config["model"], splits))
        path = entry.path(WEIGHTS)
        fit_weights(model, tensors.load(path)[0], str(path))
        return model.eval()

    def score(
        self, context: dispatch.Context, models: Mapping[str, nn.Module], division: TextDivision
    ) -> dict[str, Mapping[str, float]]:
        scorer = TextScorer.of(division, attacks=context.config["attacks"])
        best = models["ideal"]
        expected = TextIdeal.of(best, scorer.score(best), scorer.forget, scorer.unseen)
        scorer = replace(scorer, ideal=expected)
        scores = {name: scorer.score(model) for name, model in models.items()}
        write_text(context.folder / IDEAL, json.dumps(asdict(expected)))
        write_text(context.folder / DEFINITIONS, json.dumps(scores["initial"].definitions))
        return {name: each.as_dict() for name, each in scores.items()}

    def unlearning(
        self, context: dispatch.Context, division: TextDivision
    ) -> tuple[list[Callback], dict[str, Any]]:
        reference = context.parents[1]
        known = json.loads(reference.path(IDEAL).read_text(encoding="utf-8"))
        scorer = TextScorer.of(division, TextIdeal(**known), attacks=reference.config["attacks"])
        definitions = reference.path(DEFINITIONS).read_text(encoding="utf-8")
        write_text(context.folder / DEFINITIONS, definitions)
        data = {
            "forget": division.forget,
            "retain": division.retain,
            "unseen": division.splits.unseen,
        }
        return [EpochTextScores(scorer, frozenset(context.config["evaluate_at"]))], data


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


def _sized(model: Mapping[str, Any], splits: TextSplits) -> dict[str, Any]:
    sizes = {"vocabulary": splits.train.tokenizer.size, "context": splits.context}
    return dict(model) | sizes


def _sample(data: TextSet, most: int) -> TextSet:
    """At most this many records, always the same ones, in their order."""
    order = np.random.default_rng(0).permutation(len(data))[:most]
    return data.subset(np.sort(order))
