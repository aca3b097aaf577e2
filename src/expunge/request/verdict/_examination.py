"""A request before anything is unlearned: its records, and what the given model predicts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from torch import nn

from expunge._errors import InvalidInput
from expunge.data import Examples
from expunge.data.text import TextExamples
from expunge.evaluation import after_benign_steps, benign_rate
from expunge.request._job import IncludeDuplicates
from expunge.request._predictions import keep_predictions, predict_records
from expunge.request.preflight._check import Preflight
from expunge.request.subject._comparable import compares_all_words, with_comparable_answers
from expunge.request.subject._load import Subject
from expunge.request.verdict._measurements import SplitPredictions


@dataclass(frozen=True)
class Examination:
    """The model and the data as they are compared, which records are forgotten and which retained.

    ``before`` is what the given model predicts.
    """

    subject: Subject
    preflight: Preflight
    to_forget: tuple[int, ...]
    forget: Examples
    retain: Examples
    before: SplitPredictions

    def predict(self, model: nn.Module) -> SplitPredictions:
        """What another model predicts on the same records."""
        return SplitPredictions(
            forget=predict_records(model, self.forget),
            val=predict_records(model, self.subject.val),
            retain=predict_records(model, self.retain),
            test=predict_records(model, self.subject.test),
        )

    def predict_relearned(self, model: nn.Module, seed: int) -> SplitPredictions | None:
        """The same after benign steps; they are not taken for texts."""
        if isinstance(self.retain, TextExamples):
            return None
        again = after_benign_steps(model, self.retain, lr=benign_rate(model), seed=seed)
        return self.predict(again)


def examine(
    subject: Subject,
    preflight: Preflight,
    to_forget: Sequence[int],
    earlier: Collection[int],
    include: IncludeDuplicates = "none",
) -> Examination:
    """Divide the data for a request after the ``earlier`` ones; its preflight knows predictions.

    The duplicates to ``include`` are forgotten with the records.
    """
    # The records, with their duplicates, and what is retained.
    duplicates = preflight.duplicates.to_include(include)
    to_forget = sorted({*to_forget, *(duplicate.index for duplicate in duplicates)})
    gone = {*earlier, *to_forget}
    retained = [index for index in range(len(subject.train)) if index not in gone]
    if not retained:
        raise InvalidInput(
            "Some records should be left to retain. (with duplicates, all are to be forgotten) "
            "Leave out --include-duplicates."
        )

    # What the given model predicts on them.
    subject = with_comparable_answers(subject, to_forget, earlier)
    train, model, known = subject.train, subject.model, preflight.predictions
    if not compares_all_words(subject):  # the preflight looks at whole answers
        known = {name: predict_records(model, getattr(subject, name)) for name in known}
    before = SplitPredictions(
        forget=known["train"].take(to_forget),
        val=known["val"],
        retain=known["train"].take(retained),
        test=known["test"],
    )
    forget = train.subset(to_forget)
    keep_predictions(model, forget, before.forget)
    keep_predictions(model, subject.val, before.val)
    return Examination(subject, preflight, tuple(to_forget), forget, train.subset(retained), before)
