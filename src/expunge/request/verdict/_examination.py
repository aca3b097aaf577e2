"""A request before anything is unlearned: its records, and what the given model predicts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from torch import nn

from expunge.data import Examples
from expunge.evaluation import after_benign_steps, benign_rate, match_class_mix
from expunge.request._predictions import evenly_spaced, keep_predictions, predict_records
from expunge.request.preflight._check import SAMPLE, Preflight, retained_without, sample_of
from expunge.request.subject._load import Subject
from expunge.request.subject._texts import compares_all_words, with_comparable_answers
from expunge.request.verdict._measurements import SplitPredictions

UNSEEN_PER_RECORD = 10
"""Test examples per record after benign steps: all of them would narrow bounds by 5 % at most."""


@dataclass(frozen=True)
class Examination:
    """The model and the data as they are compared, which records are forgotten and which retained.

    ``sample`` is the part of ``retain`` that models are run on, ``before`` what the given one
    predicts.
    """

    subject: Subject
    preflight: Preflight
    to_forget: tuple[int, ...]
    forget: Examples
    retain: Examples
    sample: Examples
    before: SplitPredictions

    def predict(self, model: nn.Module) -> SplitPredictions:
        """What another model predicts on the same records."""
        return SplitPredictions(
            forget=predict_records(model, self.forget),
            val=predict_records(model, self.subject.val),
            retain=predict_records(model, self.sample),
            test=predict_records(model, self.subject.test),
        )

    def predict_relearned(self, model: nn.Module, seed: int) -> SplitPredictions | None:
        """What it predicts after benign steps, on no more examples than attacks need.

        None where nothing can be compared.
        """
        if not self.before.has_test_of_classes:
            return None
        again = after_benign_steps(model, self.retain, lr=benign_rate(model), seed=seed)
        val, test = self.subject.val, self.subject.test
        unseen = match_class_mix(test.labels, self.forget.labels, seed, most=UNSEEN_PER_RECORD)
        return SplitPredictions(
            forget=predict_records(again, self.forget),
            val=predict_records(again, val.subset(evenly_spaced(len(val), SAMPLE))),
            retain=predict_records(again, self.sample),
            test=predict_records(again, test.subset(unseen)),
        )


def examine(
    subject: Subject,
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
    retained = retained_without(subject, {*earlier, *to_forget})

    # What the given model predicts on them: the preflight knows, unless the parts are others now.
    subject = with_comparable_answers(subject, to_forget, earlier)
    train, model, known = subject.train, subject.model, preflight.predictions
    forget, sample = train.subset(to_forget), train.subset(sample_of(retained))
    if added or not compares_all_words(subject):
        parts = {"forget": forget, "train": sample, "val": subject.val, "test": subject.test}
        known = {name: predict_records(model, part) for name, part in parts.items()}
    keep_predictions(model, forget, known["forget"])  # methods that read the records need them
    before = SplitPredictions(known["forget"], known["val"], known["train"], known["test"])
    retain = train.subset(retained)
    return Examination(subject, preflight, tuple(to_forget), forget, retain, sample, before)
