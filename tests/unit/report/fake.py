"""Evidence as a request might leave it, made up; and the same with hostile names in it."""

from __future__ import annotations

import base64
import io
import random
from typing import Any

from PIL import Image

from expunge.request.evidence._schema import (
    AttackResult,
    AttackRow,
    ClassRow,
    CostComparison,
    EarlierRequest,
    EpochRow,
    Evidence,
    ExampleRow,
    ExampleView,
    ForgottenCopy,
    Hashes,
    Interval,
    MetricRow,
    PreflightFindings,
    RequestSummary,
    RequestVerdict,
    Scores,
    Seconds,
    SplitScores,
    Stop,
    TargetInterval,
)

CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror="document.title=1">',
    "</script><script>alert(2)</script>",
    "a\u2028b\u2029c & {{ 7 * 7 }} {b} 'q'",
    "n" * 300,
    "{red|rich}<b>bold</b>",
    "<!--<script>",
)


def evidence(records: int = 42, seed: int = 0, *, achieved: bool = True) -> Evidence:
    """A request that went well, or one that did not."""
    dice = random.Random(seed)
    target = interval(87.1, 4.2)
    before, after = (_scores(dice, records, side) for side in ("before", "after"))
    return Evidence(
        schema_version=1,
        format=1,
        kind="request",
        verdict=_verdict(records, achieved),
        request=RequestSummary(
            number=3,
            ids=max(1, records // 14),
            records=records,
            copies=[
                ForgottenCopy(1007, "exact", 1000, 1.0),
                ForgottenCopy(1014, "near", 1000, 0.9991),
            ],
            share=0.035,
            source="request.csv",
            when="2026-03-14T09:26:53+00:00",
            previous="ab" * 32,
        ),
        hashes=Hashes(
            weights_before="00" * 32,
            data="02" * 32,
            ids="03" * 32,
            config="04" * 32,
            weights_after="01" * 32,
        ),
        config={
            "model": "resnet18",
            "model_options": {"width": 0.25},
            "data": "cifar10:data",
            "method": "SRL",
            "addon": "FOCUS",
            "alpha": 0.05,
            "lr": 1e-4,
            "batch_size": 32,
            "max_epochs": 30,
            "floor": 2.0,
            "level": 0.95,
            "seed": 0,
        },
        environment={
            "versions": {"expunge": "0.1.0", "torch": "2.13.0", "python": "3.11.9"},
            "hardware": {"processor": "AMD EPYC", "cores": 2, "gpus": []},
        },
        seeds={"run": 0, "bootstrap": 1},
        seconds=Seconds(preflight=1.24, unlearning=8.13, audit=3.02, total=14.21),
        preflight=_preflight(records),
        target=TargetInterval(
            **target.model_dump(),
            n_val=180,
            n_forget=records,
            notes=["Class frog has only 6 held-out records.", "No correction for less data."],
        ),
        metrics=_metrics(target, achieved),
        epochs=_epochs(dice, target),
        stopped=Stop(
            epoch=7,
            reason="accuracy on the forgotten data is inside the target's interval and no "
            "attack tells it from unseen data.",
            status="achieved" if achieved else "not achieved",
        ),
        steps=_steps(dice, 7, 12),
        attacks=_attacks(dice),
        scores=Scores(name="confidence in the true label", before=before, after=after),
        classes=[
            ClassRow(
                name=name,
                forgotten=dice.randrange(9),
                val=dice.randrange(9, 60),
                before=(accuracy := round(dice.uniform(84, 97), 2)),
                after=round(accuracy - dice.uniform(-1.5, 4), 2),
            )
            for name in CLASSES
        ],
        examples=_examples(dice, records),
        cost=CostComparison(
            unlearning_seconds=8.13,
            retraining_seconds=61.04,
            ratio=7.508,
            note="Retraining was not run: 100 epochs at the measured speed are assumed.",
        ),
        earlier=[
            EarlierRequest(
                number=1,
                records=20,
                ua=interval(85.0, 9.5),
                target=interval(86.2, 6.1),
                status="still forgotten",
            ),
            EarlierRequest(
                number=2,
                records=31,
                ua=interval(96.8, 3.1),
                target=interval(86.9, 5.5),
                status="exposed again",
            ),
        ],
        limits=[
            "Nothing here proves that no trace is left: what is judged is what can be measured.",
            "Copies of the records elsewhere (backups, other models, logs) are not touched.",
        ],
        commands=[
            "expunge forget --model resnet18 --weights initial.safetensors --data cifar10:data "
            "--ids request.csv --out bundle",
            "expunge verify bundle",
        ],
    )


def hostile() -> Evidence:
    """The same with names that a browser might take for code, wherever a user chooses them."""
    values = evidence(60).as_json()
    for k, row in enumerate(values["examples"]):
        row["id"] = HOSTILE[k % len(HOSTILE)] + str(k)
        row["label"] = HOSTILE[(k + 1) % len(HOSTILE)]
        row["after"]["prediction"] = HOSTILE[(k + 2) % len(HOSTILE)]
    for k, row in enumerate(values["classes"]):
        row["name"] = HOSTILE[k % len(HOSTILE)]
    for k, row in enumerate(values["attacks"]):
        row["name"] = row["label"] = HOSTILE[k % len(HOSTILE)]
    values["metrics"][0]["label"] = HOSTILE[0]
    values["metrics"][1]["explain"] = HOSTILE[1]
    values["request"]["source"] = HOSTILE[1]
    values["verdict"]["headline"] = HOSTILE[2]
    values["verdict"]["reasons"] = list(HOSTILE)
    values["preflight"]["warnings"] = list(HOSTILE)
    values["preflight"][HOSTILE[0]] = {HOSTILE[1]: HOSTILE[2]}
    values["scores"]["name"] = HOSTILE[0]
    values["epochs"][0][HOSTILE[1]] = 1.0
    values["examples"][1]["image"] = "javascript:alert(3)"
    values["examples"][2]["image"] = "https://example.org/x.png"
    values["commands"] = [HOSTILE[2], "expunge verify bundle"]
    values["hashes"][HOSTILE[0]] = HOSTILE[2]
    return Evidence.model_validate(values)


def bare() -> Evidence:
    """The least that a request which failed at once might leave."""
    whole = evidence(1, achieved=False)
    undefined = float("nan")
    return Evidence(
        verdict=whole.verdict,
        request=whole.request,
        hashes=whole.hashes,
        config=whole.config,
        metrics=[
            MetricRow(
                name="ta",
                label="Accuracy on test data",
                unit="%",
                direction="higher",
                before=Interval(value=91.0, low=undefined, high=undefined),
                after=Interval(value=undefined, low=undefined, high=undefined),
                target=None,
            )
        ],
        stopped=Stop(epoch=0, reason="The model diverged at once.", status="not achieved"),
        epochs=[],
        attacks=[],
        examples=[],
        scores=Scores(name="confidence", before=SplitScores(), after=SplitScores()),
        steps={},
        target=None,
        preflight=PreflightFindings(),
        earlier=[],
    )


def interval(value: float, half: float) -> Interval:
    return Interval(value=value, low=round(value - half, 4), high=round(value + half, 4))


def _verdict(records: int, achieved: bool) -> RequestVerdict:
    if not achieved:
        return RequestVerdict(
            status="not achieved",
            headline=f"The {records} records were not forgotten to the standard asked for; the "
            "bundle holds the model as it was before the request.",
            reasons=["Held-out accuracy fell through the floor at every learning rate tried."],
            shown=[],
            not_shown=["That the records can be forgotten with these settings."],
        )
    return RequestVerdict(
        status="achieved",
        headline=f"The model treats the {records} records like data it never saw: it is right "
        "on 88.1 % of them, 87.1 % would be expected; none of the attacks tells them from unseen "
        "data.",
        reasons=["Indistinguishable from held-out data at epoch 7, test accuracy 0.6 lower."],
        shown=[
            "Accuracy on the forgotten records went from 100.0 % to 88.1 %, inside the interval "
            "expected of a model that never saw them (82.9 to 91.3 %).",
            "Of 6 membership attacks: 5 not detected, 1 inconclusive.",
        ],
        not_shown=[
            "That no trace is left: approximate unlearning is judged by what can be measured.",
            "What an attacker with models trained for the purpose could find.",
        ],
    )


def _metrics(target: Interval, achieved: bool) -> list[MetricRow]:
    def row(
        name: str,
        label: str,
        sides: tuple[Interval, Interval],
        expected: Interval | None,
        explain: str,
        unit: str = "%",
    ) -> MetricRow:
        return MetricRow(
            name=name,
            label=label,
            unit=unit,
            direction="target" if expected else "higher",
            before=sides[0],
            after=sides[1] if achieved else sides[0],
            target=expected,
            explain=explain,
        )

    return [
        row(
            "ua",
            "Accuracy on the forgotten data",
            (Interval(value=100.0, low=91.6, high=100.0), interval(88.0952, 7.7)),
            target,
            "Higher than the target means it still remembers, lower that it avoids them.",
        ),
        row(
            "ta",
            "Accuracy on test data",
            (interval(91.43, 0.61), interval(90.85, 0.63)),
            None,
            "What the model is worth on data nobody used for any decision here.",
        ),
        row(
            "va",
            "Accuracy on held-out data",
            (interval(91.1, 1.9), interval(90.6, 2.0)),
            None,
            "What the run watched, so that the model stays useful.",
        ),
        row(
            "confidence",
            "Mean confidence in the label",
            (interval(0.9921, 0.006), interval(0.8412, 0.041)),
            interval(0.8466, 0.022),
            "",
            unit="",
        ),
    ]


def _epochs(dice: random.Random, target: Interval) -> list[EpochRow]:
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


def _steps(dice: random.Random, epochs: int, each: int) -> dict[str, list[float | None]]:
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


def _attacks(dice: random.Random) -> list[AttackRow]:
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


def _scores(dice: random.Random, records: int, side: str) -> SplitScores:
    def draw(count: int, a: float, b: float) -> list[float]:
        return [round(dice.betavariate(a, b), 4) for _ in range(count)]

    forget = draw(records, 40, 1) if side == "before" else draw(records, 4, 0.8)
    return SplitScores(forget=forget, val=draw(180, 4, 0.75), retain=draw(1200, 30, 1))


def _examples(dice: random.Random, records: int) -> list[ExampleRow]:
    rows: list[dict[str, Any]] = []
    for k in range(records):
        label = CLASSES[k % 10]
        exposure = round(dice.random(), 4)
        flag = "still exposed" if exposure > 0.99 else "over-forgotten" if exposure < 0.01 else ""
        rows.append(
            {
                "index": 1000 + 7 * k,
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


def picture(seed: int) -> str:
    """A small picture of coloured squares."""
    dice = random.Random(seed)
    image = Image.new("RGB", (8, 8))
    image.putdata([tuple(dice.randrange(256) for _ in range(3)) for _ in range(64)])
    buffer = io.BytesIO()
    image.resize((64, 64), Image.Resampling.NEAREST).save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def _preflight(records: int) -> PreflightFindings:
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
            "repeated": ["person-17"],
            "share": 0.035,
            "classes": dict.fromkeys(CLASSES[:6], 4),
        },
        duplicates={
            "threshold": 0.994,
            "exact": [[1007, "retain", 33, 1.0]],
            "near": [],
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
