"""What models predict on the records of a request and on the rest, and what is measured of it."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from expunge.data import Examples
from expunge.data.text import TextExamples
from expunge.evaluation import (
    FactMoment,
    FactScores,
    Predictions,
    after_benign_steps,
    attack_facts,
    benign_rate,
    exposure_of,
    match_class_mix,
    scaled_confidence,
)
from expunge.evidence import ClassRow, ExposureCounts, MetricRow
from expunge.request._predictions import FEW, accuracy_interval, evenly_spaced, predict_records
from expunge.request.loading._load import ModelAndData
from expunge.request.loading._texts import compares_all_words, with_comparable_answers
from expunge.request.preflight._preflight import SAMPLE, Preflight, retained_without, sample_of

EXPOSED, AVOIDED = 0.99, 0.01
"""A record stands out if more than this fraction of unseen data scores lower, or less."""
UNSEEN_PER_RECORD = 10
"""Test examples per record after benign steps: all of them would narrow bounds by 5 % at most."""
EXPOSURE_EDGES = (0.0, AVOIDED, 0.1, 0.5, 0.9, EXPOSED, 1.0)


@dataclass(frozen=True)
class RequestPredictions:
    """One model's predictions on every split; of retained data, on a sample."""

    forget: Predictions
    val: Predictions
    retain: Predictions
    test: Predictions

    def matched(self, seed: int) -> tuple[Predictions, Predictions]:
        """Forgotten and test data of the same class mix, as far as there are enough."""
        forget, test = self.forget, self.test
        if self.has_test_of_classes:
            forget = forget.take(torch.isin(forget.labels, test.labels).nonzero()[:, 0])
            test = test.take(match_class_mix(test.labels, forget.labels, seed, most=math.inf))
        return forget, test

    @property
    def has_test_of_classes(self) -> bool:
        """Whether test has any example of the forgotten classes."""
        return bool(torch.isin(self.test.labels, self.forget.labels).any())


@dataclass(frozen=True)
class RequestData:
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
    def before(self) -> RequestPredictions:
        """What the given model predicts."""
        return self.predict(self.loaded.model)

    def predict(self, model: nn.Module) -> RequestPredictions:
        """What a model predicts on the records, val, the sample and test."""
        return self._predict(model, self.loaded.val, self.loaded.test)

    def _predict(self, model: nn.Module, val: Examples, test: Examples) -> RequestPredictions:
        parts = self.forget, val, self.sample, test
        return RequestPredictions(*(predict_records(model, p, self.loaded.cache) for p in parts))

    def predict_after_benign_steps(self, model: nn.Module, seed: int) -> RequestPredictions | None:
        """What it predicts after benign steps, on no more examples than attacks need.

        None where nothing can be compared.
        """
        if not self.before.has_test_of_classes:
            return None
        again = after_benign_steps(model, self.retain, lr=benign_rate(model), seed=seed)
        val = self.loaded.val
        val = val.subset(evenly_spaced(len(val), SAMPLE))
        return self._predict(again, val, self._unseen(seed))

    def attack_facts(self, model: nn.Module, seed: int) -> dict[FactMoment, FactScores]:
        """What it knows of the facts of texts when it is attacked; nothing of other data."""
        parts = (self.forget, self._unseen(seed), self.retain)
        texts = [part for part in parts if isinstance(part, TextExamples)]
        if not texts or not self.before.has_test_of_classes:
            return {}
        forget, unseen, retain = texts
        compared = torch.isin(forget.labels, unseen.labels).nonzero()[:, 0]
        return attack_facts(model, forget.subset(compared), unseen, retain, seed=seed)

    def _unseen(self, seed: int) -> Examples:
        """Test examples of the records' class mix."""
        test = self.loaded.test
        alike = match_class_mix(test.labels, self.forget.labels, seed, most=UNSEEN_PER_RECORD)
        return test.subset(alike)


def divide_for_request(
    loaded: ModelAndData,
    preflight: Preflight,
    to_forget: Sequence[int],
    earlier: Collection[int],
    *,
    include_duplicates: bool = False,
) -> RequestData:
    """Divide the data for a request after the ``earlier`` ones."""
    # The records, with their duplicates if these are included, and what is retained.
    in_retain = [d.index for d in preflight.duplicates if d.split == "retain"]
    added = set(in_retain if include_duplicates else ()) - set(to_forget)
    to_forget = sorted({*to_forget, *added})
    retained = retained_without(loaded, {*earlier, *to_forget}, with_duplicates=bool(added))

    # The given model was run on them in the preflight, unless the parts are others now.
    loaded = with_comparable_answers(loaded, to_forget, earlier)
    train, forget, sample = loaded.train, preflight.parts["forget"], preflight.parts["train"]
    if added or not compares_all_words(loaded):
        forget, sample = train.subset(to_forget), train.subset(sample_of(retained))
    retain = train.subset(retained)
    return RequestData(loaded, preflight, tuple(to_forget), forget, retain, sample)


def measure_metrics(
    before: RequestPredictions,
    after: RequestPredictions,
    later: RequestPredictions | None,
    seed: int,
) -> list[MetricRow]:
    """The headline accuracies before and after; of the records also later and of unseen data."""
    texts = before.forget.of_texts
    what = "Answer tokens predicted: " if texts else "Accuracy on "
    of_all = "" if texts else "the "
    size = f"{len(before.retain.labels):,}"
    ua_later = None if later is None else accuracy_interval(later.forget)
    unseen = accuracy_interval(after.matched(seed)[1]) if after.has_test_of_classes else None

    def row(name: str, split: str, label: str, explain: str) -> MetricRow:
        return MetricRow(
            name=name,
            label=f"{what}{label}",
            unit="%",
            direction="target" if name == "ua" else "higher",
            before=accuracy_interval(getattr(before, split)),
            after=accuracy_interval(getattr(after, split)),
            after_benign_steps=ua_later if name == "ua" else None,
            target=unseen if name == "ua" else None,
            explain=explain,
        )

    ua = (
        "If the model is right more often than on unseen data alike, it still remembers the "
        "records; if it is right less often, it avoids them."
    )
    ra = f"What the model still knows of the records it may keep, by {size} of them."
    return [
        row("ua", "forget", f"{of_all}forgotten data", ua),
        row("ta", "test", "test data", "What the model is worth on data that decided nothing."),
        row("va", "val", "validation data", "More data that the model never saw."),
        row("ra", "retain", f"{of_all}retained data", ra),
    ]


def measure_classes(
    classes: Sequence[str], forgotten: Tensor, before: Predictions, after: Predictions
) -> list[ClassRow]:
    """Accuracy on test per class, before and after, and how many records of it were forgotten."""
    rows = []
    for label, name in enumerate(classes):
        members = before.labels == label
        size = int(members.sum())
        gone = int((forgotten == label).sum())
        rights = (said.right[members].mean() for said in (before, after))
        old, new = (100.0 * float(right) if size else None for right in rights)
        rows.append(ClassRow(name=name, forgotten=gone, test=size, before=old, after=new))
    return rows


def count_exposure(before: RequestPredictions, after: RequestPredictions) -> ExposureCounts | None:
    """How many forgotten records stand where among test data; None if they are few."""
    if len(before.forget.labels) < FEW:  # a bin would describe a single one
        return None
    counts = []
    for each in (before, after):
        forget, test = (scaled_confidence(p.logits, p.labels) for p in (each.forget, each.test))
        counts.append(np.histogram(exposure_of(forget, test), EXPOSURE_EDGES)[0].tolist())
    return ExposureCounts(edges=list(EXPOSURE_EDGES), before=counts[0], after=counts[1])
