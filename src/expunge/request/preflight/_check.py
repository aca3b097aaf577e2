"""The preflight: everything that can be known about a request before anything is changed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from rich.console import RenderableType

from expunge.engine import Predictions
from expunge.evaluation import auc_of, confidence, entropy
from expunge.evidence import (
    ClassCounts,
    Cost,
    Familiarity,
    Hardness,
    PreflightFindings,
    RecordCounts,
)
from expunge.request._accuracy import accuracy_interval, decimals_of
from expunge.request._ids import RequestedRecords
from expunge.request._job import InputForm, Job
from expunge.request.preflight._cost import estimate_cost
from expunge.request.preflight._duplicates import Duplicates, find_duplicates
from expunge.request.preflight._features import predict_with_features
from expunge.request.preflight._model_fit import check_model_fit
from expunge.request.preflight._terminal import render_preflight
from expunge.request.preflight._warnings import collect_warnings
from expunge.request.subject._load import Subject


@dataclass(frozen=True)
class Preflight:
    """The findings, and what is used of them but not written: it describes single records."""

    findings: PreflightFindings
    duplicates: Duplicates
    correction: tuple[InputForm, str] | None = None
    """How the model should get images beyond doubt, and why, if that is all that is wrong."""
    predictions: Mapping[str, Predictions] = field(default_factory=dict, repr=False)
    """Of the given model, on "train", "val" and "test"."""

    @property
    def fits(self) -> bool:
        """Whether the model seems to fit these data."""
        return self.findings.fit.fits

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON, with the duplicates one by one."""
        values = self.findings.model_dump(mode="json", exclude_unset=True)
        values["duplicates"]["found"] = self.duplicates.listed()
        return values

    def terminal(self) -> RenderableType:
        """The findings for a terminal of 80 columns."""
        return render_preflight(self.findings, self.duplicates)


def preflight(
    subject: Subject,
    requested: RequestedRecords,
    job: Job,
    *,
    earlier: Collection[int] = (),
    progress: Callable[[str], None] = lambda message: None,
    cost: Cost | None = None,
) -> Preflight:
    """Examine model, data and ids; nothing is changed.

    ``earlier`` are training records that earlier requests took out of retain. ``progress`` is
    called with a message before each stage. ``cost`` is measured, unless it is known.
    """
    # One pass over the data gives predictions and features.
    progress("running the model on the data")
    splits = {"train": subject.train, "val": subject.val, "test": subject.test}
    outputs = {split: predict_with_features(subject.model, data) for split, data in splits.items()}
    predictions = {split: output[0] for split, output in outputs.items()}
    vectors = {split: output[1] for split, output in outputs.items()}

    progress("checking whether the model fits the data")
    plain = subject.with_inputs("fractions").model  # takes floats as they are
    fit, correction = check_model_fit(plain, subject.train, predictions, subject.classes)

    progress("looking for duplicates of the records to forget")
    forgotten_before = set(earlier)
    new = [index for index in requested.indices if index not in forgotten_before]
    to_forget = new or list(requested.indices)
    duplicates = find_duplicates(subject, to_forget, vectors, earlier=earlier, seed=job.seed)

    if cost is None:
        progress("timing training steps")
        retain = len(subject.train) - len({*to_forget, *earlier})
        cost = estimate_cost(subject, len(to_forget), retain, job)

    ids = _count_records(subject, requested, to_forget)
    warnings = collect_warnings(
        subject, requested, predictions, fit, ids, duplicates, cost, exact=job.exact
    )
    findings = PreflightFindings(
        fit=fit,
        ids=ids,
        duplicates=duplicates.counts(),
        hardness=_compare_hardness(predictions["train"].take(to_forget), predictions["val"]),
        cost=cost,
        warnings=[*fit.reasons, *warnings],
        notes=[*subject.notes, *duplicates.notes],
    )
    return Preflight(findings, duplicates, correction, predictions)


def _count_records(
    subject: Subject, requested: RequestedRecords, to_forget: list[int]
) -> RecordCounts:
    labels = subject.train.labels
    in_train = torch.bincount(labels, minlength=len(subject.classes)).tolist()
    forgotten = torch.bincount(labels[to_forget], minlength=len(subject.classes)).tolist()
    return RecordCounts(
        asked=len(requested.ids),
        records=len(to_forget),
        earlier=len(requested.indices) - len(to_forget),
        train=len(subject.train),
        share=round(len(to_forget) / len(subject.train), 6),
        twice=requested.repeated,
        skipped=requested.skipped,
        unmapped=requested.unmapped,
        unseen=sum(map(len, requested.unseen.values())),
        classes=[
            ClassCounts(name=name, forgotten=part, train=size, share=round(part / size, 6))
            for name, part, size in zip(subject.classes, forgotten, in_train, strict=True)
            if part
        ],
    )


def _compare_hardness(forget: Predictions, val: Predictions) -> Hardness:
    """Accuracy, confidence and entropy of both, and how well confidence distinguishes them."""
    decimals = decimals_of(len(forget.labels))

    def familiarity(of: Predictions) -> Familiarity:
        values = {"accuracy": accuracy_interval(of), "confidence": float(confidence(of).mean())}
        if not of.of_texts:
            values["entropy"] = float(entropy(of).mean())
        rounded = {k: round(v, decimals) for k, v in values.items() if isinstance(v, float)}
        return Familiarity.model_validate(values | rounded)

    area = round(auc_of(confidence(forget)[:, 0], confidence(val)[:, 0]), decimals)
    verb = "stand out from" if abs(area - 0.5) > 0.1 else "look much like"
    return Hardness(
        forget=familiarity(forget),
        val=familiarity(val),
        auc=area,
        sentence=f"By confidence, the records to forget {verb} val: the model is more confident of "
        f"one of them than of one of val in {area:.0%} of pairs (50 % is chance).",
    )
