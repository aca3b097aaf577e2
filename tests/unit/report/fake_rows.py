"""The longer sections of made-up evidence: metrics, epochs, attacks, records, …"""

from __future__ import annotations

import random
from typing import Any

import torch

from expunge.request.evidence._measurements import png_data_uri
from expunge.request.evidence._sections import (
    AttackResult,
    AttackRow,
    EpochRow,
    ExampleRow,
    ExampleView,
    ExposureCounts,
    Interval,
    MetricRow,
    PreflightFindings,
    SplitScores,
)

CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def interval(value: float, half: float) -> Interval:
    return Interval(value=value, low=round(value - half, 4), high=round(value + half, 4))


def metrics(target: Interval, achieved: bool) -> list[MetricRow]:
    rows: list[tuple[str, str, str, Interval, Interval, Interval | None, str]] = [
        (
            "ua",
            "Accuracy on the forgotten data",
            "%",
            Interval(value=100.0, low=91.6, high=100.0),
            interval(88.0952, 7.7),
            target,
            "Higher than the target means it still remembers, lower that it avoids them.",
        ),
        (
            "ta",
            "Accuracy on test data",
            "%",
            interval(91.43, 0.61),
            interval(90.85, 0.63),
            None,
            "What the model is worth on data nobody used for any decision here.",
        ),
        (
            "va",
            "Accuracy on held-out data",
            "%",
            interval(91.1, 1.9),
            interval(90.6, 2.0),
            None,
            "What the run watched, so that the model stays useful.",
        ),
        (
            "confidence",
            "Mean confidence in the label",
            "",
            interval(0.9921, 0.006),
            interval(0.8412, 0.041),
            interval(0.8466, 0.022),
            "",
        ),
    ]
    return [
        MetricRow(
            name=name,
            label=label,
            unit=unit,
            direction="target" if expected else "higher",
            before=before,
            after=after if achieved else before,
            target=expected,
            explain=explain,
        )
        for name, label, unit, before, after, expected, explain in rows
    ]


def epochs(dice: random.Random, target: Interval) -> list[EpochRow]:
    actions = ["go on", "go on", "faster", "rolled back", "mend", "go on", "stop"]
    ua = [100.0, 97.6, 95.2, 71.4, 92.9, 90.5, 88.0952]
    va = [91.1, 91.0, 90.8, 84.3, 90.7, 90.7, 90.6]
    return [
        EpochRow(
            epoch=k + 1,
            ua=ua[k],
            va=va[k],
            gap=round(ua[k] - target.value, 4),
            target_low=target.low,
            target_high=target.high,
            confidence_ks=round(0.4 - 0.04 * k, 3),
            entropy_ks=round(0.38 - 0.03 * k, 3),
            auc_entropy=round(0.81 - 0.045 * k, 3),
            auc_loss=round(0.84 - 0.048 * k, 3),
            lr=1e-4 if k != 4 else 5e-5,
            alpha=0.05,
            action=action,
            seconds=round(1.16 * (k + 1), 3),
            cosine=round(dice.gauss(0, 0.02), 4),
            feasible=0.9,
        )
        for k, action in enumerate(actions)
    ]


def steps(dice: random.Random, epochs: int, each: int) -> dict[str, list[float | None]]:
    total = epochs * each
    return {
        "epoch": [float(1 + k // each) for k in range(total)],
        "feasible": [float(dice.random() < 0.88) for _ in range(total)],
        "cosine": [round(dice.gauss(-0.03, 0.08), 4) for _ in range(total)],
        "agreement": [round(0.5 + dice.uniform(0, 0.04), 4) for _ in range(total)],
        "moved": [None, *(round(dice.uniform(0.93, 0.99), 4) for _ in range(total - 1))],
        "objective_alignment": [round(-0.004 * dice.random(), 6) for _ in range(total)],
        "constraint_alignment": [round(-0.001 + 0.002 * dice.random(), 6) for _ in range(total)],
    }


def attacks(dice: random.Random) -> list[AttackRow]:
    rows = []
    for name in ("correctness", "confidence", "logits", "entropy", "modified-entropy", "loss"):
        auc = dice.uniform(0.49, 0.56)
        rows.append(
            AttackRow(
                name=f"svc-{name}",
                label=f"guesses from the {name} of the prediction",
                before=AttackResult(
                    auc=interval(round(dice.uniform(0.7, 0.9), 4), 0.05),
                    verdict="detected",
                    reason="The interval of the AUC lies above 0.5.",
                ),
                after=AttackResult(
                    auc=interval(round(auc, 4), 0.06),
                    verdict="not detected" if auc < 0.55 else "inconclusive",
                    reason="The interval of the AUC holds 0.5.",
                ),
                budget="population attack: no other model needed",
            )
        )
    return rows


def scores(dice: random.Random, records: int, side: str) -> SplitScores:
    def draw(count: int, a: float, b: float) -> list[int]:
        places = [int(20 * dice.betavariate(a, b)) for _ in range(count)]
        return [places.count(k) for k in range(20)]

    forget = draw(records, 40, 1) if side == "before" else draw(records, 4, 0.8)
    return SplitScores(forget=forget, val=draw(180, 4, 0.75), retain=draw(1200, 30, 1))


def exposure(records: int) -> ExposureCounts:
    middle = records - 4
    return ExposureCounts(
        edges=[0.0, 0.01, 0.1, 0.5, 0.9, 0.99, 1.0],
        before=[0, 0, 0, 2, 2, middle],
        after=[0, 2, middle // 2, middle - middle // 2, 2, 0],
    )


def examples(dice: random.Random, records: int) -> list[ExampleRow]:
    rows: list[dict[str, Any]] = []
    for k in range(records):
        label = CLASSES[k % 10]
        exposure = round(dice.random(), 4)
        flag = "still exposed" if exposure > 0.99 else "over-forgotten" if exposure < 0.01 else ""
        rows.append(
            {
                "id": f"img_{k:05d}.png",
                "label": label,
                "before": ExampleView(
                    prediction=label,
                    confidence=round(dice.betavariate(40, 1), 4),
                    exposure=round(dice.uniform(0.9, 1.0), 4),
                ),
                "after": ExampleView(
                    prediction=label if dice.random() < 0.88 else dice.choice(CLASSES),
                    confidence=round(dice.betavariate(4, 0.8), 4),
                    exposure=exposure,
                ),
                "flag": flag,
            }
        )
    rows.sort(key=lambda row: -abs(row["after"].exposure - 0.5))
    return [ExampleRow(**row, image=picture(k) if k < 24 else None) for k, row in enumerate(rows)]


def picture(seed: int) -> str | None:
    """A small picture of coloured squares."""
    random = torch.Generator().manual_seed(seed)
    return png_data_uri(torch.randint(256, (3, 8, 8), generator=random, dtype=torch.uint8))


def preflight(records: int) -> PreflightFindings:
    return PreflightFindings(
        fit={
            "train": interval(99.6, 0.4).model_dump(),
            "val": interval(91.1, 1.9).model_dump(),
            "test": interval(91.43, 0.61).model_dump(),
            "fits": True,
            "reasons": [],
        },
        ids={
            "asked": 3,
            "records": records,
            "twice": 1,
            "share": 0.035,
            "classes": dict.fromkeys(CLASSES[:6], 4),
        },
        duplicates={
            "threshold": 0.994,
            "exact": 1,
            "near": 0,
        },
        hardness={
            "confidence": {"forget": 0.992, "val": 0.871},
            "entropy": {"forget": 0.021, "val": 0.342},
        },
        cost={
            "step_seconds": 0.0113,
            "epoch_seconds": 1.16,
            "unlearning_seconds": 34.8,
            "retraining_seconds": 61.04,
            "advice": "unlearn",
            "words": "Unlearning takes about a seventh of the time of retraining.",
        },
        warnings=["One exact copy of a forgotten record stays in the retained data."],
    )
