"""A request before anything is unlearned: its records, and what the given model predicts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import torch
from torch import nn

from expunge.data import Examples
from expunge.data.text import TextExamples
from expunge.engine import PredictionCache
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

    ``sample`` is the part of ``retain`` that models are run on, ``before`` what the given one
    predicts. ``cache`` has what the run predicts on the records, which the verdict needs too.
    """

    loaded: ModelAndData
    preflight: Preflight
    to_forget: tuple[int, ...]
    forget: Examples
    retain: Examples
    sample: Examples
    before: SplitPredictions
    cache: PredictionCache = field(default_factory=PredictionCache)

    def predict(self, model: nn.Module) -> SplitPredictions:
        """What another model predicts on the same records."""
        return SplitPredictions(
            forget=predict_records(model, self.forget, self.cache),
            val=predict_records(model, self.loaded.val, self.cache),
            retain=predict_records(model, self.sample),
            test=predict_records(model, self.loaded.test),
        )

    def predict_later(self, model: nn.Module, seed: int) -> SplitPredictions | None:
        """What it predicts after benign steps, on no more examples than attacks need.

        None where nothing can be compared.
        """
        if not self.before.has_test_of_classes:
            return None
        again = after_benign_steps(model, self.retain, lr=benign_rate(model), seed=seed)
        val = self.loaded.val
        return SplitPredictions(
            forget=predict_records(again, self.forget),
            val=predict_records(again, val.subset(evenly_spaced(len(val), SAMPLE))),
            retain=predict_records(again, self.sample),
            test=predict_records(again, self._unseen(seed)),
        )

    def facts_later(self, model: nn.Module, seed: int) -> dict[FactMoment, FactScores]:
        """What it knows of the facts of texts when it is attacked; nothing of other data."""
        forget, unseen, retain = self.forget, self._unseen(seed), self.retain
        if not (
            isinstance(forget, TextExamples)
            and isinstance(unseen, TextExamples)
            and isinstance(retain, TextExamples)
            and self.before.has_test_of_classes
        ):
            return {}
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
    """Divide the data for a request after the ``earlier`` ones; its preflight knows predictions."""
    # The records, with their duplicates if these are included, and what is retained.
    in_retain = [d.index for d in preflight.duplicates if d.split == "retain"]
    added = set(in_retain if include_duplicates else ()) - set(to_forget)
    to_forget = sorted({*to_forget, *added})
    retained = retained_without(loaded, {*earlier, *to_forget})

    # What the given model predicts on them: the preflight knows, unless the parts are others now.
    loaded = with_comparable_answers(loaded, to_forget, earlier)
    train, model, known = loaded.train, loaded.model, preflight.predictions
    forget, sample = train.subset(to_forget), train.subset(sample_of(retained))
    if added or not compares_all_words(loaded):
        parts = {"forget": forget, "train": sample, "val": loaded.val, "test": loaded.test}
        known = {name: predict_records(model, part) for name, part in parts.items()}
    before = SplitPredictions(known["forget"], known["val"], known["train"], known["test"])
    retain = train.subset(retained)
    return Examination(loaded, preflight, tuple(to_forget), forget, retain, sample, before)
