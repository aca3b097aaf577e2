"""Measure two models, before and after: metrics, attacks, scores, classes and single records."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from expunge._arrays import Array
from expunge.evaluation import (
    PAPER_FIVE,
    Predictions,
    Views,
    exposure_of,
    match_class_mix,
    scaled_confidence,
)
from expunge.evidence import (
    ClassRow,
    ConfidenceScores,
    ExampleFlag,
    ExampleRow,
    ExampleView,
    ExposureCounts,
    MetricRow,
    SplitScores,
)
from expunge.request._accuracy import FEW, accuracy_interval

POPULATION_ATTACKS = (*(f"svc-{name}" for name in PAPER_FIVE), "loss")
ATTACK_LABELS = {
    "correctness": "guesses from whether the prediction is right",
    "confidence": "guesses from the probability of the label",
    "logits": "guesses from all outputs of the model",
    "entropy": "guesses from how sure the model is",
    "modified-entropy": "guesses from how sure the model is of the label",
    "loss": "guesses from the loss",
}
TEXT_ATTACK_LABELS = {
    "loss": "guesses from the probability of the answer",
    "zlib": "guesses from that, by how well the answer can be compressed",
    "min_k": "guesses from the least probable tokens of the answer",
    "min_k_plus_plus": "guesses from those, standardised over the vocabulary",
}
BINS = 20
"""Of the histograms of confidences."""
MAX_IMAGES = 24
EXPOSED, AVOIDED = 0.99, 0.01
"""A record stands out if more than this fraction of unseen data scores lower, or less."""
EXPOSURE_EDGES = (0.0, AVOIDED, 0.1, 0.5, 0.9, EXPOSED, 1.0)


@dataclass(frozen=True)
class SplitPredictions:
    """One model's predictions on every split."""

    forget: Predictions
    val: Predictions
    retain: Predictions
    test: Predictions

    def views(self, seed: int) -> Views:
        """What attacks see: they learn from val, and try to tell forgotten data from test data.

        Test data took no part in any decision of the run. They have the class mix of the forgotten
        data, as far as there are enough, so that the class does not give membership away.
        """
        forget, test = self.matched(seed)
        return Views(forget=forget, test=test, retain=self.retain, val=self.val)

    def matched(self, seed: int) -> tuple[Predictions, Predictions]:
        """Forgotten and test data of the same class mix, as far as there are enough."""
        forget, test = self.forget, self.test
        if self.has_test_of_classes:
            forget = forget.take(torch.isin(forget.labels, test.labels).nonzero()[:, 0])
            test = test.take(match_class_mix(test.labels, forget.labels, seed, largest=True))
        return forget, test

    @property
    def has_test_of_classes(self) -> bool:
        """Whether test has any example of the forgotten classes."""
        return bool(torch.isin(self.test.labels, self.forget.labels).any())


def measure_metrics(
    before: SplitPredictions,
    after: SplitPredictions,
    relearned: SplitPredictions | None,
    seed: int,
) -> list[MetricRow]:
    """The headline accuracies: before, after, after benign steps, and of unseen data alike."""
    texts = before.forget.of_texts
    what = "Answer tokens predicted: " if texts else "Accuracy on "
    of_all = "" if texts else "the "

    def row(name: str, label: str, split: str, text: str) -> MetricRow:
        found = [
            None if model is None else accuracy_interval(getattr(model, split))
            for model in (before, after, relearned)
        ]
        target = None
        if name == "ua" and after.has_test_of_classes:
            target = accuracy_interval(after.matched(seed)[1])
        assert found[0] is not None
        assert found[1] is not None
        return MetricRow(
            name=name,
            label=f"{what}{label}",
            unit="%",
            direction="target" if name == "ua" else "higher",
            before=found[0],
            after=found[1],
            relearned=found[2],
            target=target,
            explain=text,
        )

    return [
        row(
            "ua",
            f"{of_all}forgotten data",
            "forget",
            "If the model is right more often than on unseen data alike, it still remembers the "
            "records; if it is right less often, it avoids them.",
        ),
        row("ta", "test data", "test", "What the model is worth on data that decided nothing."),
        row("va", "validation data", "val", "More data that the model never saw."),
        row(
            "ra",
            f"{of_all}retained data",
            "retain",
            "What the model still knows of the records it may keep.",
        ),
    ]


def collect_scores(before: SplitPredictions, after: SplitPredictions) -> ConfidenceScores | None:
    """Histograms of the confidence in the true label of forgotten, unseen and retained data.

    None for few forgotten records: a bin would describe a single one.
    """
    if are_few(before):
        return None

    def scores(predictions: SplitPredictions) -> SplitScores:
        return SplitScores(
            forget=_count_confidences(predictions.forget),
            val=_count_confidences(predictions.val),
            retain=_count_confidences(predictions.retain),
        )

    name = "probability of the answer" if before.forget.of_texts else "confidence in the true label"
    return ConfidenceScores(name=name, before=scores(before), after=scores(after))


def _count_confidences(predictions: Predictions) -> list[int]:
    counts: list[int] = np.histogram(_confidences(predictions), BINS, (0.0, 1.0))[0].tolist()
    return counts


def _confidences(predictions: Predictions) -> Array:
    """The probability of the label of every record."""
    probabilities = torch.softmax(predictions.logits.double(), dim=1)
    of_label: Array = probabilities.gather(1, predictions.labels[:, None])[:, 0].numpy()
    return of_label


def are_few(predictions: SplitPredictions) -> bool:
    """Whether so few records are to be forgotten that a bin would describe a single one."""
    return len(predictions.forget.labels) < FEW


def measure_classes(
    classes: Sequence[str], forgotten: Tensor, before: Predictions, after: Predictions
) -> list[ClassRow]:
    """Accuracy on test per class, before and after, and how many records of it were forgotten."""

    def accuracy(predictions: Predictions, members: Tensor) -> float | None:
        if not bool(members.any()):
            return None
        return 100.0 * float(predictions.right[members].mean())

    rows = []
    for label, name in enumerate(classes):
        members = before.labels == label
        rows.append(
            ClassRow(
                name=name,
                forgotten=int((forgotten == label).sum()),
                test=int(members.sum()),
                before=accuracy(before, members),
                after=accuracy(after, members),
            )
        )
    return rows


def count_exposure(before: SplitPredictions, after: SplitPredictions) -> ExposureCounts | None:
    """How many forgotten records stand where among test data; None if they are few."""
    if are_few(before):
        return None
    counts = [np.histogram(_exposure(each), EXPOSURE_EDGES)[0].tolist() for each in (before, after)]
    return ExposureCounts(edges=list(EXPOSURE_EDGES), before=counts[0], after=counts[1])


def count_exposed(predictions: SplitPredictions) -> int:
    """How many forgotten records stand out as remembered, one by one."""
    return int((_exposure(predictions) > EXPOSED).sum())


def measure_examples(
    ids: Sequence[str],
    classes: Sequence[str],
    before: SplitPredictions,
    after: SplitPredictions,
    images: Tensor | None,
) -> list[ExampleRow]:
    """Every forgotten record, those that stand out most first, the first few with their image."""
    exposures = _exposure(before), _exposure(after)
    views = [
        [
            ExampleView(
                prediction=classes[int(each.forget.classes[k])],
                confidence=round(float(confidence), 4),
                exposure=round(float(exposure[k]), 4),
            )
            for k, confidence in enumerate(_confidences(each.forget))
        ]
        for each, exposure in zip((before, after), exposures, strict=True)
    ]
    return [
        ExampleRow(
            id=ids[k],
            label=classes[int(after.forget.labels[k])],
            before=views[0][k],
            after=views[1][k],
            flag=_flag(float(exposures[1][k])),
            image=png_data_uri(images[k]) if images is not None and rank < MAX_IMAGES else None,
        )
        for rank, k in enumerate(_order(exposures[1]))
    ]


def _order(exposure: Array) -> list[int]:
    """The records that stand out most first, whether they are remembered or avoided."""
    order: list[int] = np.argsort(-np.abs(exposure - 0.5), kind="stable").tolist()
    return order


def _exposure(predictions: SplitPredictions) -> Array:
    """The fraction of test data less confident in their label than each forgotten record."""
    forget, test = (
        scaled_confidence(p.logits, p.labels) for p in (predictions.forget, predictions.test)
    )
    return exposure_of(forget, test)


def _flag(exposure: float) -> ExampleFlag:
    if exposure > EXPOSED:
        return "still exposed"
    return "over-forgotten" if exposure < AVOIDED else ""


def png_data_uri(image: Tensor) -> str | None:
    """A uint8 image [C, H, W] as a PNG data URI, enlarged if small; None for other tensors."""
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
