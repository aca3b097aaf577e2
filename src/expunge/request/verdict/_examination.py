"""A request before anything is unlearned: its records, and what the given model predicts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import nn

from expunge.data import Examples
from expunge.data.text import TextExamples
from expunge.evaluation import (
    FactMoment,
    FactScores,
    after_benign_steps,
    benign_rate,
    facts_later,
    match_class_mix,
)
from expunge.request._predictions import evenly_spaced, predict_records
from expunge.request.loading._load import ModelAndData
from expunge.request.loading._texts import compares_all_words, with_comparable_answers
from expunge.request.preflight._check import SAMPLE, Preflight, retained_without, sample_of
from expunge.request.verdict._measurements import SplitPredictions

UNSEEN_PER_RECORD = 10
"""Test examples per record after benign steps: all of them would narrow bounds by 5 % at most."""


@dataclass(frozen=True)
class Examination:
    """The model and the data as they are compared, which records are forgotten and which retained.

    ``sample`` is the part of ``retain`` that models are run on.
    """

    loaded: ModelAndData
    preflight: Preflight
    to_forget: tuple[int, ...]
    forget: Examples
    retain: Examples
    sample: Examples

    @cached_property
    def before(self) -> SplitPredictions:
        """What the given model predicts."""
        return self.predict(self.loaded.model)

    def predict(self, model: nn.Module) -> SplitPredictions:
        """What a model predicts on the records, val, the sample and test."""
        return self._predict(model, self.loaded.val, self.loaded.test)

    def _predict(self, model: nn.Module, val: Examples, test: Examples) -> SplitPredictions:
        parts = self.forget, val, self.sample, test
        return SplitPredictions(*(predict_records(model, p, self.loaded.cache) for p in parts))

    def predict_later(self, model: nn.Module, seed: int) -> SplitPredictions | None:
        """What it predicts after benign steps, on no more examples than attacks need.

        None where nothing can be compared.
        """
        if not self.before.has_test_of_classes:
            return None
        again = after_benign_steps(model, self.retain, lr=benign_rate(model), seed=seed)
        val = self.loaded.val
        val = val.subset(evenly_spaced(len(val), SAMPLE))
        return self._predict(again, val, self._unseen(seed))

    def facts_later(self, model: nn.Module, seed: int) -> dict[FactMoment, FactScores]:
        """What it knows of the facts of texts when it is attacked; nothing of other data."""
        parts = (self.forget, self._unseen(seed), self.retain)
        texts = [part for part in parts if isinstance(part, TextExamples)]
        if not texts or not self.before.has_test_of_classes:
            return {}
        forget, unseen, retain = texts
        compared = torch.isin(forget.labels, unseen.labels).nonzero()[:, 0]
        return facts_later(model, forget.subset(compared), unseen, retain, seed=seed)

    def _unseen(self, seed: int) -> Examples:
        """Test examples of the records' class mix."""
        test = self.loaded.test
        alike = match_class_mix(test.labels, self.forget.labels, seed, most=UNSEEN_PER_RECORD)
        return test.subset(alike)


def examine(
    loaded: ModelAndData,
    preflight: Preflight,
    to_forget: Sequence[int],
    earlier: Collection[int],
    *,
    include_duplicates: bool = False,
) -> Examination:
    """Divide the data for a request after the ``earlier`` ones."""
    # The records, with their duplicates if these are included, and what is retained.
    in_retain = [d.index for d in preflight.duplicates if d.split == "retain"]
    added = set(in_retain if include_duplicates else ()) - set(to_forget)
    to_forget = sorted({*to_forget, *added})
    retained = retained_without(loaded, {*earlier, *to_forget})

    # The given model was run on them in the preflight, unless the parts are others now.
    loaded = with_comparable_answers(loaded, to_forget, earlier)
    train, forget, sample = loaded.train, preflight.parts["forget"], preflight.parts["train"]
    if added or not compares_all_words(loaded):
        forget, sample = train.subset(to_forget), train.subset(sample_of(retained))
    retain = train.subset(retained)
    return Examination(loaded, preflight, tuple(to_forget), forget, retain, sample)
