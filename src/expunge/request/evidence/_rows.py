"""What a request can show: the numbers behind the verdict, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from expunge.evaluation import Predictions, Views
from expunge.evaluation._over_forgetting import over_forgetting
from expunge.evaluation.attacks._roc import Estimate
from expunge.request._accuracy import accuracy_interval

FORMAT = 1
MOST_SCORES = 10_000
"""Of one split, in the histograms."""


@dataclass(frozen=True)
class Seen:
    """What one model says of the forgotten data, of val, and of what is retained."""

    forget: Predictions
    val: Predictions
    retain: Predictions
    test: Predictions

    @property
    def views(self) -> Views:
        """For attacks: they learn from val, and tell forgotten data from test data, which no
        decision of the run has looked at."""
        return Views(forget=self.forget, test=self.test, retain=self.retain, val=self.val)


def accuracy(predictions: Predictions, level: float) -> dict[str, float]:
    """The share of right predictions in percent, with its interval."""
    return plain(accuracy_interval(predictions, level))


def plain(estimate: Estimate) -> dict[str, float]:
    """An estimate as a dict, rounded to what is worth keeping."""
    names = ("value", "low", "high")
    return {name: round(float(v), 6) for name, v in zip(names, estimate, strict=True)}


def warnings_of(after: Seen, seed: int) -> list[str]:
    """Signs of over-forgetting, in words."""
    return [str(finding) for finding in over_forgetting(after.views, seed=seed)]


def score_lists(before: Seen, after: Seen) -> dict[str, Any]:
    """Confidence in the true label of forgotten, unseen and retained data, for histograms."""

    def confidences(seen: Seen) -> dict[str, list[float]]:
        return {
            "forget": _confidence(seen.forget),
            "val": _confidence(seen.val),
            "retain": _confidence(seen.retain),
        }

    return {
        "name": "confidence in the true label",
        "before": confidences(before),
        "after": confidences(after),
    }


def _confidence(predictions: Predictions) -> list[float]:
    chosen = _thin(len(predictions.labels))
    p = torch.softmax(predictions.logits[chosen].double(), dim=1)
    own = p.gather(1, predictions.labels[chosen][:, None])[:, 0]
    return [round(value, 4) for value in own.tolist()]


def _thin(count: int) -> Tensor:
    """All indices, or an even choice of them where there are too many to show."""
    return torch.linspace(0, count - 1, min(count, MOST_SCORES)).round().long()


def class_rows(
    classes: Sequence[str], forgotten: Tensor, before: Predictions, after: Predictions
) -> list[dict[str, Any]]:
    """Accuracy on val by class, before and after, with what was forgotten of each."""
    rows = []
    for number, name in enumerate(classes):
        here = before.labels == number
        count = int(here.sum())
        shares = [
            100.0 * float((p.classes[here] == number).double().mean()) if count else None
            for p in (before, after)
        ]
        rows.append(
            {
                "name": name,
                "forgotten": int((forgotten == number).sum()),
                "val": count,
                "before": shares[0],
                "after": shares[1],
            }
        )
    return rows


def metric_rows(
    before: Seen, after: Seen, target: Mapping[str, Any], level: float
) -> list[dict[str, Any]]:
    """The headline numbers, before, after, and where they should be."""

    def row(
        name: str, label: str, split: str, aim: Mapping[str, Any] | None, explain: str
    ) -> dict[str, Any]:
        return {
            "name": name,
            "label": label,
            "unit": "%",
            "direction": "target" if aim else "higher",
            "before": accuracy(getattr(before, split), level),
            "after": accuracy(getattr(after, split), level),
            "target": dict(aim) if aim else None,
            "explain": explain,
        }

    aim = {name: target[name] for name in ("value", "low", "high")}
    return [
        row(
            "ua",
            "Accuracy on the forgotten data",
            "forget",
            aim,
            "A model that never saw these records would be right on about as many as the target "
            "says: higher means it still remembers, lower that it avoids them.",
        ),
        row(
            "ta",
            "Accuracy on test data",
            "test",
            None,
            "What the model is worth on data nobody used for any decision here.",
        ),
        row(
            "va",
            "Accuracy on validation data",
            "val",
            None,
            "What the run watched, so that the model stays useful.",
        ),
        row(
            "ra",
            "Accuracy on the retained data",
            "retain",
            None,
            "What the model still knows of the records it may keep.",
        ),
    ]
