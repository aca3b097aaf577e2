"""What is known before anything is changed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from rich.console import RenderableType

from expunge.evaluation._predict import Predictions
from expunge.evaluation.attacks._features import confidence, entropy
from expunge.request._accuracy import accuracy_interval
from expunge.request._ids import Forgotten
from expunge.request._job import Job
from expunge.request.preflight._cost import Cost, estimate_cost
from expunge.request.preflight._duplicates import Duplicates, find_duplicates
from expunge.request.preflight._features import predict_with_features
from expunge.request.preflight._model_fit import Fit, check_fit
from expunge.request.preflight._terminal import summarise
from expunge.request.preflight._warnings import cautions
from expunge.request.subject._load import Subject

Say = Callable[[str], None]


@dataclass(frozen=True)
class Preflight:
    """The findings, as plain values but for the parts that others use."""

    fit: Fit
    ids: Mapping[str, Any]
    duplicates: Duplicates
    hardness: Mapping[str, Any]
    cost: Cost
    warnings: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether the model seems to know these data."""
        return self.fit.fits

    @property
    def copies_in_retain(self) -> tuple[int, ...]:
        """Training indices of exact copies of forgotten records; near ones need a human eye."""
        return self.duplicates.in_retain()

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "fit": self.fit.as_dict(),
            "ids": dict(self.ids),
            "duplicates": self.duplicates.as_dict(),
            "hardness": dict(self.hardness),
            "cost": self.cost.as_dict(),
            "warnings": list(self.warnings),
            "notes": list(self.notes),
        }

    def terminal(self) -> RenderableType:
        """For a terminal of 80 columns."""
        return summarise(self.as_dict())


def preflight(
    subject: Subject,
    forgotten: Forgotten,
    job: Job,
    *,
    earlier: Collection[int] = (),
    progress: Say = lambda text: None,
) -> Preflight:
    """Look at model, data and ids; nothing is changed.

    ``earlier`` are training records that earlier requests took out of retain; ``progress`` is told
    what is being done.
    """
    progress("looking at the data through the model")
    parts = {"train": subject.train, "val": subject.val, "test": subject.test}
    looks = {name: predict_with_features(subject.model, data) for name, data in parts.items()}
    said = {name: look[0] for name, look in looks.items()}
    progress("checking whether the model fits the data")
    fit = check_fit(subject.model, subject.train, said, subject.classes, level=job.level)
    progress("looking for copies of the records to forget")
    vectors = {name: look[1] for name, look in looks.items()}
    new = [index for index in forgotten.indices if index not in set(earlier)]
    asked = new or list(forgotten.indices)
    copies = find_duplicates(subject, asked, vectors, earlier=earlier, seed=job.seed)
    progress("timing steps")
    retain = len(subject.train) - len({*asked, *earlier})
    cost = estimate_cost(subject, len(asked), retain, job)
    ids = _ids(subject, forgotten, asked)
    return Preflight(
        fit=fit,
        ids=ids,
        duplicates=copies,
        hardness=_hardness(said["train"].take(asked), said["val"], job.level),
        cost=cost,
        warnings=(*fit.reasons, *cautions(subject, forgotten, said, fit, ids, copies, cost)),
        notes=(*subject.notes, *copies.notes),
    )


def _ids(subject: Subject, forgotten: Forgotten, asked: list[int]) -> dict[str, Any]:
    labels = subject.train.labels
    whole = torch.bincount(labels, minlength=len(subject.classes)).tolist()
    gone = torch.bincount(labels[asked], minlength=len(subject.classes)).tolist()
    return {
        "asked": len(forgotten.ids),
        "records": len(asked),
        "earlier": len(forgotten.indices) - len(asked),
        "train": len(subject.train),
        "share": round(len(asked) / len(subject.train), 6),
        "twice": list(forgotten.duplicates),
        "held_out": dict(forgotten.held_out),
        "classes": [
            {"name": name, "forgotten": part, "train": size, "share": round(part / size, 6)}
            for name, part, size in zip(subject.classes, gone, whole, strict=True)
            if part
        ],
    }


def _hardness(forget: Predictions, val: Predictions, level: float) -> dict[str, Any]:
    """Accuracy, confidence and entropy of both, and how well confidence tells them apart."""
    rows: dict[str, Any] = {}
    for name, part in (("forget", forget), ("val", val)):
        rows[name] = {
            "accuracy": {
                k: round(v, 3) for k, v in accuracy_interval(part, level)._asdict().items()
            },
            "confidence": round(float(confidence(part).mean()), 6),
            "entropy": round(float(entropy(part).mean()), 6),
        }
    auc = _above(confidence(forget)[:, 0], confidence(val)[:, 0])
    told = "stand out from" if abs(auc - 0.5) > 0.1 else "look much like"
    rows["auc"] = round(auc, 4)
    rows["sentence"] = (
        f"By confidence, the records to forget {told} val: one of them is surer than one of val "
        f"in {auc:.0%} of pairs (50 % is chance)."
    )
    return rows


def _above(first: Any, second: Any) -> float:
    """P(first > second) + ½ P(equal)."""
    from scipy.stats import mannwhitneyu

    return float(mannwhitneyu(first, second).statistic) / (len(first) * len(second))
