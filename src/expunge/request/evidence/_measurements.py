"""Measure two models, before and after: metrics, attacks, scores, classes and single records."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from expunge.evaluation import (
    PAPER_FIVE,
    MemberScores,
    Predictions,
    Views,
    make_report,
    run_attack,
)
from expunge.evaluation._class_matching import match_class_mix
from expunge.evaluation._exposure import exposure_of
from expunge.evaluation._over_forgetting import over_forgetting
from expunge.evaluation.attacks._lira import scaled_confidence
from expunge.evaluation.svm._landmarks import Array
from expunge.evaluation.text._text_predictions import TextPredictions
from expunge.request._accuracy import FEW, accuracy_interval, decimals_of
from expunge.request.evidence._sections import (
    AttackResult,
    AttackRow,
    ClassRow,
    ConfidenceScores,
    ExampleFlag,
    ExampleRow,
    ExampleView,
    ExposureCounts,
    Interval,
    MetricRow,
    SplitScores,
)

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
MATCHED_TEXTS = "against test data of the same lengths and as rare words"
ATTACK_BUDGET = "population attack: looks at this model's outputs only, no other model is trained"
MATCHED = "against test data of the same class mix"
UNMATCHED = "against all test data, which have no example of the forgotten classes"
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
    before: SplitPredictions, after: SplitPredictions, target: Interval, level: float
) -> list[MetricRow]:
    """The headline accuracies, before and after, and the target of the first."""
    texts = before.forget.of_texts
    what = "Answer tokens predicted: " if texts else "Accuracy on "

    def row(name: str, label: str, split: str, expected: Interval | None, text: str) -> MetricRow:
        return MetricRow(
            name=name,
            label=label,
            unit="%",
            direction="target" if expected else "higher",
            before=Interval.of(accuracy_interval(getattr(before, split), level)),
            after=Interval.of(accuracy_interval(getattr(after, split), level)),
            target=expected,
            explain=text,
        )

    return [
        row(
            "ua",
            f"{what}{'' if texts else 'the '}forgotten data",
            "forget",
            Interval(value=target.value, low=target.low, high=target.high),
            "A model that never saw these records would be right on about as many as the target "
            "says: higher means it still remembers, lower that it avoids them.",
        ),
        row(
            "ta",
            f"{what}test data",
            "test",
            None,
            "What the model is worth on data nobody used for any decision here.",
        ),
        row(
            "va",
            f"{what}validation data",
            "val",
            None,
            "What the run watched, so that the model stays useful.",
        ),
        row(
            "ra",
            f"{what}{'' if texts else 'the '}retained data",
            "retain",
            None,
            "What the model still knows of the records it may keep.",
        ),
    ]


def measure_attacks(
    before: SplitPredictions, after: SplitPredictions, level: float, seed: int
) -> list[AttackRow]:
    """Every population attack on both models, forgotten data against test data of their classes.

    The intervals hold jointly at ``level`` (Bonferroni): among six attacks, one should not be
    believed for what is expected once in twenty times.
    """
    if before.forget.of_texts:
        return measure_text_attacks(before, after, level, seed)
    level = 1.0 - (1.0 - level) / len(POPULATION_ATTACKS)
    budget = f"{ATTACK_BUDGET}; {MATCHED if before.has_test_of_classes else UNMATCHED}"
    views = before.views(seed), after.views(seed)
    decimals = decimals_of(len(before.forget.labels))

    def result(name: str, views: Views) -> AttackResult:
        report = run_attack(name, views, level=level, seed=seed)
        auc = Interval.of(report.auc, decimals)
        return AttackResult(auc=auc, verdict=report.verdict, reason=report.reason)

    rows = []
    for name in POPULATION_ATTACKS:
        first = result(name, views[0])
        rows.append(
            AttackRow(
                name=name,
                label=ATTACK_LABELS.get(name.removeprefix("svc-"), name),
                before=first,
                after=first if after is before else result(name, views[1]),
                budget=budget,
            )
        )
    return rows


def measure_text_attacks(
    before: SplitPredictions, after: SplitPredictions, level: float, seed: int
) -> list[AttackRow]:
    """Every attack on a language model that token scores suffice for, as :func:`measure_attacks`.

    Forgotten records are compared with test records of the same strata of length and rarity.
    """
    sides = [predictions.matched(seed) for predictions in (before, after)]
    names = list(TEXT_ATTACK_LABELS)
    level = 1.0 - (1.0 - level) / len(names)
    decimals = decimals_of(len(before.forget.labels))

    def result(name: str, side: tuple[Predictions, Predictions]) -> AttackResult:
        forget, test = side
        assert isinstance(forget, TextPredictions)
        assert isinstance(test, TextPredictions)
        scores = MemberScores({"forget": forget.scores[name], "test": test.scores[name]})
        report = make_report(name, scores, level=level, seed=seed)
        auc = Interval.of(report.auc, decimals)
        return AttackResult(auc=auc, verdict=report.verdict, reason=report.reason)

    return [
        AttackRow(
            name=name.replace("_plus_plus", "++").replace("_", "-"),
            label=TEXT_ATTACK_LABELS[name],
            before=result(name, sides[0]),
            after=result(name, sides[1]),
            budget=f"{ATTACK_BUDGET}; {MATCHED_TEXTS}",
        )
        for name in names
    ]


def over_forgetting_warnings(after: SplitPredictions, seed: int) -> list[str]:
    """Signs of over-forgetting, in sentences; of texts, the comparison itself tells."""
    if after.forget.of_texts:
        return []
    return [str(finding) for finding in over_forgetting(after.views(seed), seed=seed)]


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
    """Accuracy on val per class, before and after, and how many records of it were forgotten."""

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
                val=int(members.sum()),
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
