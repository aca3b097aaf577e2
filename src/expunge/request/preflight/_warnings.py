"""Warnings that the user should read before a request is carried out."""

from __future__ import annotations

from collections.abc import Mapping

from expunge.engine import Predictions
from expunge.evaluation import confidence
from expunge.evidence import Cost, ModelFit, RecordCounts
from expunge.request._ids import RequestedRecords
from expunge.request.preflight._duplicates import Duplicates
from expunge.request.subject._load import Subject

MIN_VAL = 50
"""Fewer val examples than this say little about unseen data."""
NEAR_FACTOR = 2
"""Near duplicates are worth a warning if there are this many times as many as by chance, plus 5."""
TRAINED_ON_VAL_P = 1e-3
"""The p value below which val is said to look like training data."""


def collect_warnings(
    subject: Subject,
    requested: RequestedRecords,
    predictions: Mapping[str, Predictions],
    fit: ModelFit,
    ids: RecordCounts,
    duplicates: Duplicates,
    cost: Cost,
    *,
    exact: bool = False,
) -> list[str]:
    """All warnings about a request, other than that the model does not fit the data."""
    warnings = []
    # About val and the model.
    if _val_looks_trained_on(predictions, fit):
        warnings.append(_trained_on_val(fit, subject.val_taken_from))
    if len(subject.val) < MIN_VAL:
        warnings.append(f"val has only {len(subject.val)} examples: intervals will be wide.")
    outputs, classes = predictions["train"].logits.shape[1], subject.train.num_classes
    if outputs > classes:
        warnings.append(f"The model has {outputs} outputs, but the data have {classes} classes.")
    # About the ids.
    if requested.repeated:
        warnings.append(f"Ids listed more than once, counted once: {requested.repeated}.")
    if requested.skipped:
        warnings.append(f"Ids without a training record, left out: {requested.skipped}.")
    if requested.unmapped:
        warnings.append(f"Training records that the table maps to no id: {requested.unmapped}.")
    if unseen := sum(map(len, requested.unseen.values())):
        warnings.append(
            f"Records of these ids, or of earlier requests, in val or test: {unseen}. The model "
            "was not trained on them, and nothing is compared with them."
        )
    warnings += [
        f"All training records of the class {row.name!r} are to be forgotten: the model keeps "
        "an output for it."
        for row in ids.classes
        if row.forgotten == row.train
    ]
    # About what remains of the records, and what it costs to forget them.
    if duplicates.exact:
        counts = {split: duplicates.count(split)[0] for split in ("retain", "val", "test")}
        places = ", ".join(f"{count} in {split}" for split, count in counts.items() if count)
        warnings.append(
            f"Exact duplicates of records to forget remain: {places}. What stays in retain is not "
            "forgotten: --include-duplicates exact also forgets those."
        )
    if len(duplicates.near) > NEAR_FACTOR * duplicates.expected + 5:
        warnings.append(
            f"{len(duplicates.near)} records are nearly the same to the model as ones to forget, "
            f"where chance would give {duplicates.expected:.0f}. Look at the list: "
            f"--include-duplicates near also forgets the {duplicates.count('retain')[1]} in retain."
        )
    if cost.advice == "exact" and not exact:
        warnings.append(cost.sentence)
    return warnings


def _val_looks_trained_on(predictions: Mapping[str, Predictions], fit: ModelFit) -> bool:
    """Whether the model is more confident, and more often right, on val than on test."""
    from scipy.stats import mannwhitneyu

    val, test = (confidence(predictions[split])[:, 0] for split in ("val", "test"))
    p_value = float(mannwhitneyu(val, test, alternative="greater").pvalue)
    return p_value < TRAINED_ON_VAL_P and fit.accuracy["val"].value > fit.accuracy["test"].value


def _trained_on_val(fit: ModelFit, val_taken_from: str) -> str:
    source = f" (it was taken out of {val_taken_from})" if val_taken_from else ""
    return (
        f"The model is more confident of val{source} than of test, and right on "
        f"{fit.accuracy['val'].value:.1f} % against {fit.accuracy['test'].value:.1f} %: it may "
        "have been trained on val. Give a val split that it never saw."
    )
