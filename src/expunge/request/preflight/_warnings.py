"""What a user should hear before going on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from expunge.evaluation._predict import Predictions
from expunge.evaluation.attacks._features import confidence
from expunge.request._ids import Forgotten
from expunge.request.preflight._cost import Cost
from expunge.request.preflight._duplicates import Duplicates
from expunge.request.preflight._model_fit import Fit
from expunge.request.subject._load import Subject

FEW = 50
"""Fewer val examples than this say little about unseen data."""
MANY = 2
"""So many times the near copies that chance gives, and five more, are worth a word."""
SURE = 1e-3
"""The p value below which val is said to look like training data."""


def cautions(
    subject: Subject,
    forgotten: Forgotten,
    said: Mapping[str, Predictions],
    fit: Fit,
    ids: Mapping[str, Any],
    copies: Duplicates,
    cost: Cost,
) -> list[str]:
    """Everything that the user should know before going on."""
    found = [_seen_val(said, fit, subject.held_out)]
    if len(subject.val) < FEW:
        found.append(f"val has {len(subject.val)} examples only: intervals will be wide.")
    outputs, known = said["train"].logits.shape[1], subject.train.num_classes
    if outputs > known:
        found.append(f"The model has {outputs} outputs, but the data {known} classes.")
    if forgotten.duplicates:
        found.append(f"Ids listed more than once, counted once: {len(forgotten.duplicates)}.")
    if held := sum(forgotten.held_out.values()):
        found.append(f"Records of these ids in val or test, with nothing to forget: {held}.")
    found += _whole_classes(ids)
    if copies.exact:
        where = ", ".join(
            f"{copies.count(s)[0]} in {s}" for s in ("retain", "val", "test") if copies.count(s)[0]
        )
        found.append(
            f"Exact copies of records to forget remain: {where}. What stays in retain is not "
            "forgotten: --include-duplicates exact takes those in."
        )
    if len(copies.near) > MANY * copies.expected + 5:
        found.append(
            f"{len(copies.near)} records are nearly the same to the model as ones to forget, "
            f"where chance would give {copies.expected:.0f}. Look at the list: "
            f"--include-duplicates near forgets the {copies.count('retain')[1]} in retain along."
        )
    if cost.advice == "retrain":
        found.append(cost.sentence)
    return [text for text in found if text]


def _whole_classes(ids: Mapping[str, Any]) -> list[str]:
    names = [row["name"] for row in ids["classes"] if row["forgotten"] == row["train"]]
    return [
        f"All training records of the class {name!r} are to be forgotten: the model keeps an "
        "output for it."
        for name in names
    ]


def _seen_val(said: Mapping[str, Predictions], fit: Fit, held_out: str) -> str:
    """Words, if the model is surer of val than of test, as if it had been trained on val."""
    from scipy.stats import mannwhitneyu

    val, test = (confidence(said[name])[:, 0] for name in ("val", "test"))
    surer = float(mannwhitneyu(val, test, alternative="greater").pvalue) < SURE
    if not surer or fit.accuracy["val"].value <= fit.accuracy["test"].value:
        return ""
    source = f" (it was taken out of {held_out})" if held_out else ""
    return (
        f"The model is surer of val{source} than of test, {fit.accuracy['val'].value:.1f} % right "
        f"against {fit.accuracy['test'].value:.1f} %: it may have been trained on val. Give a val "
        "part of data it never saw."
    )
