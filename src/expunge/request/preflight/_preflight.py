"""The preflight: everything that can be known about a request before anything is changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any

import torch
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from expunge._durations import format_duration
from expunge._errors import InvalidInput
from expunge.data import Examples, row_hashes
from expunge.data.text import TextExamples
from expunge.engine import Predictions
from expunge.evaluation import auc_of, confidence
from expunge.evidence import (
    ClassCounts,
    Cost,
    DuplicateCounts,
    Hardness,
    ModelFit,
    PreflightFindings,
    RecordCounts,
)
from expunge.request._forgetting import known_recipe
from expunge.request._ids import RequestedRecords
from expunge.request._job import Job
from expunge.request._predictions import decimals_of, evenly_spaced, predict_records
from expunge.request.loading._load import ModelAndData
from expunge.request.preflight._cost import estimate_cost
from expunge.request.preflight._model_fit import check_model_fit

SAMPLE = 1000
"""Retained examples that models are run on: for accuracy, and for attacks to learn from."""
MIN_VAL = 50
"""Fewer val examples than this say little about unseen data."""
TRAINED_ON_VAL_P = 1e-3
"""The p value below which val is said to look like training data."""
MAX_CLASSES = 12
"""Classes that a terminal lists."""


@dataclass(frozen=True)
class Duplicate:
    """A remaining record of "retain", "val" or "test", and the forgotten record it is equal to.

    Duplicates have the same bytes, whatever their label: they keep in the model what should be
    forgotten.
    """

    forgotten: int
    split: str
    index: int


@dataclass(frozen=True)
class Preflight:
    """The findings, and what is used of them but not written: it describes single records."""

    findings: PreflightFindings
    duplicates: tuple[Duplicate, ...]
    parts: Mapping[str, Examples] = field(default_factory=dict, repr=False)
    """What it was run on: "forget", "val", "test", and a sample of what is retained, "train"."""
    example: tuple[str, str] | None = None
    """Prompt and answer of an unseen text as the model reads them."""

    @property
    def fits(self) -> bool:
        """Whether the model seems to fit these data."""
        return self.findings.fit.fits

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON, with the duplicates one by one."""
        values = self.findings.model_dump(mode="json", exclude_unset=True)
        values["duplicates"]["found"] = [astuple(each) for each in self.duplicates]
        return values if self.example is None else values | {"example": list(self.example)}

    def terminal(self) -> RenderableType:
        """The findings for a terminal of 80 columns, with a few of the duplicates."""
        findings, example = self.findings, self.example
        ids, cost = findings.ids, findings.cost
        accuracies = [
            (
                "to forget" if name == "forget" else name,
                f"{a.value:.1f}",
                f"{a.low:.1f} to {a.high:.1f}",
            )
            for name, a in findings.fit.accuracy.items()
        ]
        blocks = [
            _heading("Does the model fit the data?", "yes" if findings.fit.fits else "NO"),
            _table(("", "accuracy %", "interval"), accuracies),
            _line(findings.hardness.sentence),
        ]
        if example is not None:
            blocks += [
                _heading("What the model reads", "(an unseen record)"),
                _line(f"prompt  {example[0]}"),
                _line(f"answer  {example[1]}"),
            ]
        classes = [
            (row.name, f"{row.forgotten:,}", f"{row.train:,}", f"{100 * row.share:.1f}")
            for row in ids.classes[:MAX_CLASSES]
        ]
        blocks += [
            _heading("What is to be forgotten"),
            _line(
                f"{ids.records:,} of {ids.train:,} training records ({100 * ids.share:.1f} %), "
                f"requested by {ids.asked:,} id{'s' if ids.asked != 1 else ''}"
            ),
            _table(("class", "to forget", "of", "share %"), classes),
        ]
        if len(ids.classes) > MAX_CLASSES:
            blocks.append(_line(f"and {len(ids.classes) - MAX_CLASSES} more classes"))
        some = self.duplicates[:5]
        same = (f"{d.split} {d.index} is the same as train {d.forgotten}" for d in some)
        blocks.append(_heading("Duplicates that remain"))
        blocks += map(_line, [f"{findings.duplicates.exact:,} with the same bytes", *same])
        if in_retain := findings.duplicates.in_retain:
            text = f"In retain: {in_retain:,}. To forget them as well: --include-duplicates."
            blocks.append(_line(text))
        seconds = cost.epoch_seconds
        duration = f"about {format_duration(seconds)}" if seconds >= 0.1 else "less than 0.1 s"
        return Group(
            *blocks,
            _heading("What it costs", cost.advice),
            _line(cost.sentence),
            _line(f"An epoch takes {duration}. {cost.note}"),
            *(Text.assemble(("Warning: ", "bold yellow"), text) for text in findings.warnings),
            *(Text.assemble(("Note: ", "bold"), text) for text in findings.notes),
        )


def preflight(
    loaded: ModelAndData,
    requested: RequestedRecords,
    to_forget: Sequence[int],
    job: Job,
    *,
    earlier: Collection[int] = (),
    progress: Callable[[str], None] = lambda message: None,
    cost: Cost | None = None,
) -> Preflight:
    """Examine model, data and ids; nothing is changed.

    ``to_forget`` are the ``requested`` records that no earlier request has forgotten, ``earlier``
    the training records that earlier requests took out of retain. ``progress`` is called with a
    message before each stage. ``cost`` is measured, unless it is known.
    """
    # The model on the records, and on the others.
    retained = retained_without(loaded, {*to_forget, *earlier})
    progress("running the model on the data")
    parts = {
        "forget": loaded.train.subset(to_forget),
        "train": loaded.train.subset(sample_of(retained)),
        "val": loaded.val,
        "test": loaded.test,
    }
    predictions = {
        name: predict_records(loaded.model, part, loaded.cache) for name, part in parts.items()
    }

    progress("checking whether the model fits the data")
    plain = loaded.with_inputs("fractions").model  # takes floats as they are
    fit = check_model_fit(plain, parts["train"], predictions, loaded.classes)

    progress("looking for duplicates of the records to forget")
    duplicates = find_duplicates(loaded, to_forget, earlier)

    if cost is None:
        progress("timing training steps")
        cost = estimate_cost(loaded, len(to_forget), len(retained), job)

    ids = _count_records(loaded, requested, to_forget)
    warnings = collect_warnings(loaded, predictions, fit, ids, duplicates)
    if job.trains_again and not job.exact and known_recipe(loaded.card, job) is None:
        warnings.append(
            "It is not known how the model was trained, so it is trained for a few epochs by "
            "defaults, which may be too little. Say it in [recipe] of a job file."
        )
    findings = PreflightFindings(
        fit=fit,
        ids=ids,
        duplicates=DuplicateCounts(
            exact=len(duplicates), in_retain=sum(each.split == "retain" for each in duplicates)
        ),
        hardness=_compare_hardness(predictions["forget"], predictions["val"]),
        cost=cost,
        warnings=[*fit.reasons, *warnings],
        notes=list(loaded.notes),
    )
    example = loaded.val.texts.rendered(0) if isinstance(loaded.val, TextExamples) else None
    return Preflight(findings, duplicates, parts, example)


def find_duplicates(
    loaded: ModelAndData, forgotten: Sequence[int], earlier: Collection[int] = ()
) -> tuple[Duplicate, ...]:
    """Duplicates of the training records ``forgotten`` in the rest of the data.

    ``earlier`` are training records that are out of retain already. Of several forgotten records
    with the same bytes, the first is named.
    """
    in_train = row_hashes(loaded.train)
    first_with = {in_train[index]: index for index in reversed(forgotten)}
    gone = {*forgotten, *earlier}
    remaining = {
        "retain": in_train,
        "val": row_hashes(loaded.val),
        "test": row_hashes(loaded.test),
    }
    return tuple(
        Duplicate(first_with[content], split, index)
        for split, hashes in remaining.items()
        for index, content in enumerate(hashes)
        if content in first_with and not (split == "retain" and index in gone)
    )


def retained_without(
    loaded: ModelAndData, gone: Collection[int], *, with_duplicates: bool = False
) -> list[int]:
    """The training records that are left; ``gone`` may have duplicates that nobody asked for."""
    retained = [index for index in range(len(loaded.train)) if index not in gone]
    if not retained:
        raise InvalidInput(
            "Some records should be left to retain. (with duplicates, none is left) Leave out "
            "--include-duplicates."
            if with_duplicates
            else "Some records should be left to retain. (with earlier requests, none is left) To "
            "forget everything, discard the model."
        )
    return retained


def sample_of(retained: Sequence[int]) -> list[int]:
    """The retained records that models are run on."""
    return [retained[place] for place in evenly_spaced(len(retained), SAMPLE)]


def _count_records(
    loaded: ModelAndData, requested: RequestedRecords, to_forget: Sequence[int]
) -> RecordCounts:
    labels = loaded.train.labels
    in_train = torch.bincount(labels, minlength=len(loaded.classes)).tolist()
    forgotten = torch.bincount(labels[list(to_forget)], minlength=len(loaded.classes)).tolist()
    return RecordCounts(
        asked=len(requested.ids),
        records=len(to_forget),
        earlier=len(requested.indices) - len(to_forget),
        train=len(loaded.train),
        share=round(len(to_forget) / len(loaded.train), 6),
        twice=requested.repeated,
        skipped=requested.skipped,
        unmapped=requested.unmapped,
        left_out=sum(map(len, requested.left_out.values())),
        classes=[
            ClassCounts(name=name, forgotten=part, train=size, share=round(part / size, 6))
            for name, part, size in zip(loaded.classes, forgotten, in_train, strict=True)
            if part
        ],
    )


def _compare_hardness(forget: Predictions, val: Predictions) -> Hardness:
    """How well confidence distinguishes them."""
    area = auc_of(confidence(forget)[:, 0], confidence(val)[:, 0])
    area = round(area, decimals_of(len(forget.labels)))
    verb = "stand out from" if abs(area - 0.5) > 0.1 else "look much like"
    return Hardness(
        auc=area,
        sentence=f"By confidence, the records to forget {verb} val: the model is more confident of "
        f"one of them than of one of val in {100 * area:.0f} % of pairs (50 % is chance).",
    )


def collect_warnings(
    loaded: ModelAndData,
    predictions: Mapping[str, Predictions],
    fit: ModelFit,
    ids: RecordCounts,
    duplicates: Sequence[Duplicate],
) -> list[str]:
    """All warnings about a request, other than that the model does not fit the data."""
    warnings = []
    # About val and the model.
    if _val_looks_trained_on(predictions, fit):
        warnings.append(
            f"The model is more confident of val than of test, and right on "
            f"{fit.accuracy['val'].value:.1f} % against {fit.accuracy['test'].value:.1f} %: it may "
            "have been trained on val. Give a val split that it never saw."
        )
    if len(loaded.val) < MIN_VAL:
        warnings.append(f"val has only {len(loaded.val)} examples: intervals will be wide.")
    outputs, classes = predictions["train"].logits.shape[1], loaded.train.num_classes
    if outputs > classes:
        warnings.append(f"The model has {outputs} outputs, but the data have {classes} classes.")
    # About the ids.
    if ids.twice:
        warnings.append(f"Ids listed more than once, counted once: {ids.twice}.")
    if ids.skipped:
        warnings.append(f"Ids without a training record, left out: {ids.skipped}.")
    if ids.unmapped:
        warnings.append(f"Training records that the table maps to no id: {ids.unmapped}.")
    if ids.left_out:
        warnings.append(
            f"Records of these ids, or of earlier requests, in val or test: {ids.left_out}. The "
            "model was not trained on them, and nothing is compared with them."
        )
    warnings += [
        f"All training records of the class {row.name!r} are to be forgotten: the model keeps "
        "an output for it."
        for row in ids.classes
        if row.forgotten == row.train
    ]
    # About what remains of the records.
    if duplicates:
        counts = Counter(duplicate.split for duplicate in duplicates)
        places = ", ".join(f"{count} in {split}" for split, count in counts.items())
        warnings.append(
            f"Duplicates of records to forget remain: {places}. What stays in retain is not "
            "forgotten: --include-duplicates also forgets those."
        )
    return warnings


def _val_looks_trained_on(predictions: Mapping[str, Predictions], fit: ModelFit) -> bool:
    """Whether the model is more confident, and more often right, on val than on test."""
    from scipy.stats import mannwhitneyu

    val, test = (confidence(predictions[split])[:, 0] for split in ("val", "test"))
    p_value = float(mannwhitneyu(val, test, alternative="greater").pvalue)
    return p_value < TRAINED_ON_VAL_P and fit.accuracy["val"].value > fit.accuracy["test"].value


# On a terminal: text and small tables, for a console that prints no control characters.


def _heading(title: str, answer: str = "") -> RenderableType:
    return Text.assemble((title, "bold"), (f"  {answer}" if answer else ""))


def _line(text: str) -> RenderableType:
    return Padding(Text(text), (0, 0, 0, 2))


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> RenderableType:
    table = Table(box=None, header_style="dim", pad_edge=True)
    table.add_column(columns[0], no_wrap=True, max_width=28)
    for name in columns[1:]:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    return table
