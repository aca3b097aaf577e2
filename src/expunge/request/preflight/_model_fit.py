"""Does the model know these data? If not, is it the scaling of the inputs or the label order?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from expunge.evaluation import Estimate, Predictions
from expunge.request._accuracy import accuracy_interval
from expunge.request.preflight._remedies import other_inputs, permuted_labels
from expunge.request.subject._examples import InMemory


@dataclass(frozen=True)
class Fit:
    """Accuracy in percent by split; ``fits`` is False where something is wrong, and why."""

    accuracy: Mapping[str, Estimate]
    chance: float
    """Accuracy in percent of always naming the most frequent class of val."""
    fits: bool
    reasons: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "accuracy": {
                name: {key: round(number, 3) for key, number in value._asdict().items()}
                for name, value in self.accuracy.items()
            },
            "chance": round(self.chance, 3),
            "fits": self.fits,
            "reasons": list(self.reasons),
        }


def check_fit(
    model: nn.Module,
    train: InMemory,
    said: Mapping[str, Predictions],
    classes: Sequence[str],
    *,
    level: float = 0.95,
) -> Fit:
    """Judge the predictions ``said`` of "train", "val" and "test".

    A model fits if it beats the most frequent class on train and on val, and if neither another
    label order nor another scaling of the inputs does much better.
    """
    accuracy = {name: accuracy_interval(part, level) for name, part in said.items()}
    shares = {name: _most_frequent(part.labels) for name, part in said.items()}
    weak = [name for name in ("train", "val") if accuracy[name].low <= shares[name]]
    found = [permuted_labels(said["train"], classes, level), other_inputs(model, train, level)]
    reasons = [reason for reason in found if reason]
    if weak and not reasons:
        values = " and ".join(f"{accuracy[name].value:.1f} % on {name}" for name in weak)
        reasons.append(
            f"Accuracy is {values}, no better than always naming the most frequent class, and "
            "neither another label order nor another scaling of the inputs helps. Are these the "
            "weights of this model, and the data it was trained on?"
        )
    return Fit(accuracy, shares["val"], not reasons, tuple(reasons))


def _most_frequent(labels: Tensor) -> float:
    return 100 * int(torch.bincount(labels).max()) / len(labels)
