"""Texts in the stages of a protocol for causal language models: data, models and scores.

Initial models learn all people and the facts that belong to nobody, ideal ones all but the people
to forget. A model unlearns with retained people alone as its constraint; what becomes of the facts
is measured, as TOFU does for world facts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
from torch import nn

from expunge import _tensors as tensors
from expunge import dispatch
from expunge._errors import DataError
from expunge._files import write_text
from expunge.bench._stage_functions import DEFINITIONS, WEIGHTS
from expunge.data import TextDivision, TextSet, TextSplits, divide_texts, load_corpus
from expunge.engine import (
    Callback,
    Execution,
    PredictionCache,
    Recipe,
    Result,
    Run,
    load_checked_weights,
    train,
)
from expunge.evaluation import TextIdeal, TextScores, evaluate_text
from expunge.methods import next_token_loss
from expunge.models import build_language_model
from expunge.store import Entry

IDEAL = "ideal.json"
MOST_RETAINED, MOST_GENERAL = 36, 18
"""Retained and general records that a model is scored on: always the same ones of a scenario."""


class Texts:
    """What causal language models are trained on, and how they are scored; as for ``Images``."""

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
        load_checked_weights(model, tensors.load(path)[0], str(path))
        return model.eval()

    def score(
        self, context: dispatch.Context, models: Mapping[str, nn.Module], division: TextDivision
    ) -> dict[str, Mapping[str, float]]:
        best, attacks = models["ideal"], context.config["attacks"]
        cache = PredictionCache()
        first = text_scorer(division)(best, attacks=attacks, cache=cache)
        expected = TextIdeal.of(first)
        scorer = text_scorer(division, expected)
        scores = {
            name: scorer(model, attacks=attacks, cache=cache) for name, model in models.items()
        }
        write_text(context.folder / IDEAL, json.dumps(asdict(expected)))
        write_text(context.folder / DEFINITIONS, json.dumps(scores["initial"].definitions))
        return {name: each.as_dict() for name, each in scores.items()}

    def unlearn_arguments(
        self, context: dispatch.Context, division: TextDivision
    ) -> tuple[list[Callback], dict[str, Any]]:
        reference = context.parents[1]
        known = json.loads(reference.path(IDEAL).read_text(encoding="utf-8"))
        scorer = text_scorer(division, TextIdeal(**known))
        epochs, attacks = frozenset(context.config["evaluate_at"]), reference.config["attacks"]
        definitions = reference.path(DEFINITIONS).read_text(encoding="utf-8")
        write_text(context.folder / DEFINITIONS, definitions)
        data = {
            "forget": division.forget,
            "retain": division.retain,
            "unseen": division.splits.unseen,
        }
        return [EpochTextScores(scorer, epochs, attacks=attacks)], data


def text_scorer(
    division: TextDivision, ideal: TextIdeal | None = None
) -> Callable[..., TextScores]:
    """:func:`~expunge.evaluation.evaluate_text` on a division, with a sample of what may stay."""
    return partial(
        evaluate_text,
        forget=division.forget,
        retain=_sample(division.retain, MOST_RETAINED),
        test=division.splits.unseen,
        general=_sample(division.splits.general, MOST_GENERAL),
        ideal=ideal,
    )


class EpochTextScores(Callback):
    """Adds the scores to the history after each of ``epochs``; gradient norms after the last."""

    def __init__(
        self, scorer: Callable[..., TextScores], epochs: Collection[int], *, attacks: bool
    ) -> None:
        self.scorer, self.epochs, self.attacks = scorer, epochs, attacks

    def on_epoch(self, run: Run) -> None:
        if run.epoch in self.epochs:
            attacks = self.attacks and run.epoch == max(self.epochs)
            run.record(**self.scorer(run.model, attacks=attacks).as_dict())


def _sized(model: Mapping[str, Any], splits: TextSplits) -> dict[str, Any]:
    sizes = {"vocabulary": splits.train.tokenizer.size, "context": splits.context}
    return dict(model) | sizes


def _sample(data: TextSet, most: int) -> TextSet:
    """At most this many records, always the same ones, in their order."""
    order = np.random.default_rng(0).permutation(len(data))[:most]
    return data.subset(np.sort(order))
