"""The longer sections of made-up evidence: metrics, checks, epochs, records, …"""

from __future__ import annotations

import random

from expunge.evidence._schema import (
    ClassCounts,
    Cost,
    DuplicateCounts,
    Hardness,
    ModelFit,
    PreflightFindings,
    RecordCounts,
)
from expunge.evidence._sections import (
    Check,
    CheckResult,
    EpochRow,
    Interval,
    MetricRow,
    Moment,
    Status,
)

CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def interval(value: float, half: float) -> Interval:
    return Interval(value=value, low=round(value - half, 4), high=round(value + half, 4))


def metrics() -> list[MetricRow]:
    rows: list[tuple[str, str, Interval, Interval, Interval, Interval | None, str]] = [
        (
            "ua",
            "Accuracy on the forgotten data",
            Interval(value=100.0, low=91.6, high=100.0),
            interval(88.0952, 7.7),
            interval(88.7, 7.6),
            interval(87.1, 4.2),
            "More often than on unseen data alike means it still remembers.",
        ),
        (
            "ta",
            "Accuracy on test data",
            interval(91.43, 0.61),
            interval(90.85, 0.63),
            interval(90.9, 0.62),
            None,
            "What the model is worth on data nobody used for any decision here.",
        ),
        (
            "va",
            "Accuracy on validation data",
            interval(91.1, 1.9),
            interval(90.6, 2.0),
            interval(90.5, 2.0),
            None,
            "",
        ),
    ]
    return [
        MetricRow(
            name=name,
            label=label,
            unit="%",
            direction="target" if expected else "higher",
            before=before,
            after=after,
            after_benign_steps=later,
            target=expected,
            explain=explain,
        )
        for name, label, before, after, later, expected, explain in rows
    ]


def checks(records: int, status: Status) -> list[Check]:
    """Six attacks and an accuracy at two moments, and what was lost, in all and by class."""
    worst: CheckResult = {"achieved": "inside", "not achieved": "outside"}.get(status, "open")  # type: ignore[assignment]
    values = {"inside": (0.49, 0.46, 0.53), "outside": (0.66, 0.61, 0.7), "open": (0.52, 0.42, 0.6)}
    moments: tuple[Moment, Moment] = ("as delivered", "after benign steps")
    rows = []
    for moment in moments:
        for name in ("correctness", "confidence", "logits", "entropy", "modified-entropy", "loss"):
            result = worst if name == "loss" else "inside"
            value, low, high = values[result]
            rows.append(
                Check(
                    name=f"auc_{name.replace('-', '_')}",
                    label=f"guesses from the {name}",
                    moment=moment,
                    unit="0 to 1",
                    value=value,
                    low=low,
                    high=high,
                    margin=0.55,
                    records=records,
                    result=result,
                    needed=463 if result == "open" else None,
                )
            )
        rows.append(
            _check_of_points("accuracy", "accuracy on the records", moment, 1.0, 3.0, records)
        )
    rows.append(_check_of_points("lost", "test accuracy lost", moments[0], 0.6, 2.0, 1000))
    for k, name in enumerate(CLASSES):
        label = f"test accuracy lost in {name}"
        check = _check_of_points(f"lost_{name}", label, moments[0], 0.5, 5.0, 100)
        if status == "not achieved" and not k:
            change = {"value": 12.0, "low": 9.1, "high": 14.9, "result": "outside"}
            check = check.model_copy(update=change)
        rows.append(check)
    return rows


def _check_of_points(
    name: str, label: str, moment: Moment, value: float, margin: float, records: int
) -> Check:
    return Check(
        name=name,
        label=label,
        moment=moment,
        unit="points",
        value=value,
        low=value - 1.2,
        high=value + 1.2,
        margin=margin,
        records=records,
        result="inside",
    )


def epochs(dice: random.Random) -> list[EpochRow]:
    """Of a watched method: one that trains again has no ``ua``, ``va`` and ``auc``."""
    ua = [100.0, 97.6, 95.2, 92.9, 90.5, 88.0952]
    return [
        EpochRow(
            epoch=k + 1,
            ua=value,
            va=round(91.1 - 0.1 * k, 2),
            auc=round(0.81 - 0.045 * k, 3),
            objective=round(1.4 - 0.1 * k, 3),
            seconds=round(1.16 * (k + 1), 3),
            cosine=round(dice.gauss(0, 0.02), 4),
            feasible=0.9,
        )
        for k, value in enumerate(ua)
    ]


def preflight(records: int) -> PreflightFindings:
    unseen = interval(91.1, 1.9)
    return PreflightFindings(
        fit=ModelFit(
            accuracy={"train": interval(99.6, 0.4), "val": unseen, "test": interval(91.43, 0.61)},
            chance=10.0,
            fits=True,
            reasons=[],
        ),
        ids=RecordCounts(
            asked=3,
            records=records,
            earlier=0,
            train=1200,
            share=0.035,
            twice=1,
            skipped=0,
            unmapped=0,
            left_out=0,
            classes=[
                ClassCounts(name=name, forgotten=4, train=120, share=0.0333) for name in CLASSES[:6]
            ],
        ),
        duplicates=DuplicateCounts(exact=1, in_retain=1),
        hardness=Hardness(
            auc=0.71,
            sentence="By confidence, the records to forget stand out from val.",
        ),
        cost=Cost(
            training_step=0.0113,
            epoch_seconds=1.16,
            unlearning_seconds=34.8,
            request_seconds=39.3,
            retraining_epoch_seconds=1.53,
            retraining_seconds=61.04,
            retraining_processor_seconds=58.41,
            retraining_epochs=40,
            advice="unlearn",
            sentence="Unlearn: about 39 s against 61 s for retraining.",
            note="Retraining for 40 epochs, as stated.",
        ),
        warnings=["One exact copy of a forgotten record stays in the retained data."],
        notes=[],
    )
