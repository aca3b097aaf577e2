"""What a request can show: every number behind the verdict, as plain values."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from expunge.evaluate import PAPER_FIVE, AttackReport, Predictions, Views, run_attack
from expunge.evaluate.exposure import exposure_of
from expunge.evaluate.landmarks import Array
from expunge.evaluate.lira import scaled_confidence
from expunge.evaluate.roc import Estimate
from expunge.evaluate.streisand import over_forgetting
from expunge.request.share import accuracy_of

FORMAT = 1
POPULATION = (*(f"svc-{name}" for name in PAPER_FIVE), "loss")
MOST_SCORES = 10_000
MOST_IMAGES = 24
EXPOSED, AVOIDED = 0.99, 0.01
"""An example stands out when so large a share of unseen data scores lower, or higher."""
ATTACK_WORDS = {
    "correctness": "guesses from whether the prediction is right",
    "confidence": "guesses from the probability of the label",
    "logits": "guesses from all outputs of the model",
    "entropy": "guesses from how sure the model is",
    "modified-entropy": "guesses from how sure the model is of the label",
    "loss": "guesses from the loss",
}
BUDGET = "population attack: looks at this model's outputs only, no other model is trained"


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
    return plain(accuracy_of(predictions, level))


def plain(estimate: Estimate) -> dict[str, float]:
    """An estimate as a dict, rounded to what is worth keeping."""
    names = ("value", "low", "high")
    return {name: round(float(v), 6) for name, v in zip(names, estimate, strict=True)}


def attack_rows(before: Seen, after: Seen, level: float, seed: int) -> list[dict[str, Any]]:
    """Every population attack on both models, forgotten data against test data.

    The intervals are so wide that all of them together hold at ``level`` (Bonferroni): one attack
    in six should not be believed on what is expected once in twenty times.
    """
    rows = []
    level = 1.0 - (1.0 - level) / len(POPULATION)
    for name in POPULATION:
        found = [run_attack(name, seen.views, level=level, seed=seed) for seen in (before, after)]
        rows.append(
            {
                "name": name,
                "label": ATTACK_WORDS.get(name.removeprefix("svc-"), name),
                "before": attack_row(found[0]),
                "after": attack_row(found[1]),
                "budget": BUDGET,
            }
        )
    return rows


def attack_row(report: AttackReport) -> dict[str, Any]:
    """One report as plain values."""
    return {"auc": plain(report.auc), "verdict": report.verdict, "reason": report.reason}


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


def example_rows(
    indices: Sequence[int],
    ids: Sequence[str],
    classes: Sequence[str],
    before: Seen,
    after: Seen,
    images: Tensor | None,
) -> list[dict[str, Any]]:
    """Every forgotten record, the most exposed first, with pictures of the worst."""
    exposure = [_exposure(seen) for seen in (before, after)]
    order = np.argsort(-np.abs(exposure[1] - 0.5), kind="stable").tolist()
    rows = []
    for rank, k in enumerate(order):
        sides = [
            _side(seen.forget, k, classes, float(share[k]))
            for seen, share in zip((before, after), exposure, strict=True)
        ]
        share = float(exposure[1][k])
        flag = "still exposed" if share > EXPOSED else "over-forgotten" if share < AVOIDED else ""
        picture = None
        if images is not None and rank < MOST_IMAGES:
            picture = as_picture(images[k])
        rows.append(
            {
                "index": int(indices[k]),
                "id": str(ids[k]),
                "label": classes[int(after.forget.labels[k])],
                "before": sides[0],
                "after": sides[1],
                "flag": flag,
                "image": picture,
            }
        )
    return rows


def _side(p: Predictions, k: int, classes: Sequence[str], exposure: float) -> dict[str, Any]:
    probabilities = torch.softmax(p.logits[k].double(), dim=0)
    return {
        "prediction": classes[int(p.logits[k].argmax())],
        "confidence": round(float(probabilities[int(p.labels[k])]), 4),
        "exposure": round(exposure, 4),
    }


def _exposure(seen: Seen) -> Array:
    """The share of test data less confident in their label than each forgotten record."""
    forget, test = (scaled_confidence(p.logits, p.labels) for p in (seen.forget, seen.test))
    return exposure_of(forget, test)


def as_picture(image: Tensor) -> str | None:
    """A uint8 image [C, H, W] as a PNG data URI, enlarged so that small ones can be seen."""
    from PIL import Image

    if image.dtype != torch.uint8 or image.ndim != 3 or image.shape[0] not in (1, 3):
        return None
    array = image.permute(1, 2, 0).cpu().numpy()
    picture = Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array)
    scale = max(1, 64 // max(picture.size))
    picture = picture.resize(
        (picture.width * scale, picture.height * scale), Image.Resampling.NEAREST
    )
    buffer = io.BytesIO()
    picture.save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


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
