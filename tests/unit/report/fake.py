"""Evidence as a request might leave it, made up; and the same with hostile names in it."""

from __future__ import annotations

import random

from expunge.evidence._schema import Evidence
from expunge.evidence._sections import (
    ClassRow,
    DerivedModel,
    EarlierAttempt,
    EarlierRequest,
    ExposureCounts,
    Hashes,
    Interval,
    LedgerName,
    MetricRow,
    RequestSummary,
    RequestVerdict,
    Seconds,
    StageSeconds,
    Status,
    Stop,
)
from tests.unit.report import fake_rows as rows

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror="document.title=1">',
    "</script><script>alert(2)</script>",
    "a\u2028b\u2029c & {{ 7 * 7 }} {b} 'q'",
    "n" * 300,
    "{red|rich}<b>bold</b>",
    "<!--<script>",
)


def evidence(records: int = 42, seed: int = 0, *, status: Status = "achieved") -> Evidence:
    """A request that went well, or one that did not, or an inconclusive one."""
    dice = random.Random(seed)
    checks = rows.checks(records, status)
    return Evidence(
        schema_version=5,
        kind="request",
        verdict=_verdict(records, status),
        request=RequestSummary(
            number=3,
            ids=max(1, records // 14),
            records=records,
            copies=2,
            share=0.035,
            source="request.csv",
            when="2026-03-14T09:26:53+00:00",
            ledger=LedgerName(id="cd" * 16, model="00" * 32, data="02" * 32),
            previous="ab" * 32,
            attempt=2,
            legal_basis="GDPR, Art. 17(1)(b)",
            received="2026-02-28",
            due="2026-03-28",
            days_left=14,
        ),
        hashes=Hashes(
            weights_before="00" * 32,
            data="02" * 32,
            ids="03" * 32,
            config="04" * 32,
            weights_after="01" * 32,
            **({"discarded": "05" * 32} if status == "not achieved" else {}),
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
            "margin_auc": 0.55,
            "seed": 0,
        },
        environment={
            "versions": {"expunge": "0.1.0", "torch": "2.13.0", "python": "3.11.9"},
            "hardware": {"processor": "AMD EPYC", "cores": 2, "gpus": []},
        },
        seconds=Seconds(
            wall=StageSeconds(
                loading=1.02,
                preflight=1.24,
                steps=8.13,
                method=0.21,
                checks=0.59,
                audit=2.02,
                page=0.98,
                total=14.21,
            ),
            processor=StageSeconds(
                loading=1.32,
                preflight=0.94,
                steps=7.81,
                method=0.19,
                checks=0.55,
                audit=1.71,
                page=0.81,
                total=13.33,
            ),
        ),
        preflight=rows.preflight(records),
        margins={"auc": 0.55, "records": 3.0, "test": 2.0, "of_class": 5.0},
        checks=checks,
        metrics=rows.metrics(),
        epochs=rows.epochs(dice),
        stopped=Stop(
            epoch=6,
            reason="The run took 6 epochs. At epoch 6 the records looked most like unseen data.",
        ),
        classes=[
            ClassRow(
                name=name,
                forgotten=dice.randrange(9),
                test=dice.randrange(9, 60),
                before=(accuracy := round(dice.uniform(84, 97), 2)),
                after=round(accuracy - dice.uniform(-1.5, 4), 2),
            )
            for name in rows.CLASSES
        ],
        exposure=ExposureCounts(
            edges=[0.0, 0.01, 0.5, 0.99, 1.0],
            before=[0, 0, records, 0],
            after=[0, records // 2, records - records // 2, 0],
        ),
        attempts=[
            EarlierAttempt(
                when="2026-03-13T09:26:53+00:00",
                seed=7,
                status="not achieved",
                request=1,
                shared=records,
            )
        ],
        derived=[
            DerivedModel(name="support-bot", kind="fine-tuned"),
            DerivedModel(name="phone", kind="distilled", status="closed"),
        ],
        earlier=[
            EarlierRequest(
                number=1,
                records=20,
                ua=rows.interval(85.0, 9.5),
                check=checks[0],
                status="still forgotten",
            ),
            EarlierRequest(
                number=2,
                records=31,
                ua=rows.interval(96.8, 3.1),
                check=rows.checks(31, "not achieved")[5],
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
    for k, row in enumerate(values["classes"]):
        row["name"] = HOSTILE[k % len(HOSTILE)]
    for k, row in enumerate(values["checks"]):
        row["label"] = HOSTILE[k % len(HOSTILE)]
        if row["name"].startswith("lost_"):
            row["name"], row["result"] = f"lost_{HOSTILE[k % len(HOSTILE)]}", "open"
    values["metrics"][0]["label"] = HOSTILE[0]
    values["metrics"][1]["explain"] = HOSTILE[1]
    values["request"]["source"] = HOSTILE[1]
    values["verdict"]["headline"] = HOSTILE[2]
    values["verdict"]["reasons"] = list(HOSTILE)
    values["preflight"]["warnings"] = list(HOSTILE)
    accuracy = values["preflight"]["fit"]["accuracy"]
    accuracy[HOSTILE[0]] = accuracy["val"]
    values["preflight"]["fit"]["reasons"] = list(HOSTILE)
    values["stopped"]["reason"] = HOSTILE[1]
    values["commands"] = [HOSTILE[2], "expunge verify bundle"]
    values["hashes"]["data"] = HOSTILE[2]
    return Evidence.model_validate(values)


def bare() -> Evidence:
    """The least that a request which failed at once might leave."""
    whole = evidence(1, status="not achieved")
    undefined = float("nan")
    return Evidence(
        schema_version=5,
        kind="request",
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
        stopped=Stop(epoch=0, reason="The model diverged at once."),
        epochs=[],
        preflight=whole.preflight,
        earlier=[],
    )


def _verdict(records: int, status: Status) -> RequestVerdict:
    if status == "inconclusive":
        return RequestVerdict(
            status=status,
            headline=f"The {records} records were unlearned, test accuracy is 0.6 points lower, "
            "and no check failed; but there are too few examples to tell.",
            reasons=["AUC of the attack that guesses from the loss: 0.52, margin 0.55 (open)."],
            shown=["Of 25 checks: 23 inside, 2 open."],
            next_steps=["Use the unlearned model of the bundle."],
        )
    if status == "not achieved":
        return RequestVerdict(
            status="not achieved",
            headline=f"The {records} records were not forgotten within the margins; the bundle "
            "holds the model as it was before the request.",
            reasons=["AUC of the attack that guesses from the loss: 0.66, margin 0.55 (outside)."],
            shown=["Accuracy on the records went from 100.0 % to 88.1 %."],
            next_steps=["Try another method: `--method refresh`."],
        )
    return RequestVerdict(
        status="achieved",
        headline=f"The {records} records were forgotten: no attack tried tells a forgotten record "
        "from an unseen one in more than 54 % of pairs (50 % is chance), as delivered and after "
        "further training; test accuracy is 0.6 points lower.",
        reasons=["Trained for 6 epochs on retained data."],
        shown=["Of 25 checks: 25 inside."],
    )
