"""Evidence as a request might leave it, made up; and the same with hostile names in it."""

from __future__ import annotations

import random
from typing import Any

from expunge.request.evidence._schema import Evidence
from expunge.request.evidence._sections import (
    ClassRow,
    ConfidenceScores,
    EarlierAttempt,
    EarlierRequest,
    FloorCheck,
    ForgottenCopies,
    Hashes,
    Interval,
    LedgerName,
    MetricRow,
    PreflightFindings,
    RequestSummary,
    RequestVerdict,
    SplitScores,
    Status,
    Stop,
    TargetInterval,
)
from expunge.request.evidence._times_and_cost import CostComparison, Seconds, StageSeconds
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
    """A request that went well, or one that did not, or of which that cannot be told."""
    dice = random.Random(seed)
    target = rows.interval(87.1, 4.2)
    before, after = (rows.scores(dice, records, side) for side in ("before", "after"))
    return Evidence(
        schema_version=4,
        kind="request",
        verdict=_verdict(records, status),
        request=RequestSummary(
            number=3,
            ids=max(1, records // 14),
            records=records,
            copies=ForgottenCopies(exact=1, near=1),
            skipped=1,
            unmapped=7,
            unseen=2,
            share=0.035,
            source="request.csv",
            when="2026-03-14T09:26:53+00:00",
            ledger=LedgerName(id="cd" * 16, model="00" * 32, data="02" * 32),
            previous="ab" * 32,
            attempt=2,
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
        seconds=Seconds(
            loading=1.02,
            preflight=1.24,
            unlearning=8.93,
            steps=8.13,
            method=0.21,
            checks=0.59,
            audit=2.02,
            page=0.98,
            total=14.21,
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
        target=TargetInterval(
            **target.model_dump(),
            n_val=180,
            n_forget=records,
            notes=["Class frog has only 6 held-out records.", "No correction for less data."],
        ),
        metrics=rows.metrics(target, status != "not achieved"),
        epochs=rows.epochs(dice, target),
        stopped=Stop(
            epoch=7,
            reason="accuracy on the forgotten data is inside the target's interval and no "
            "attack tells it from unseen data.",
            status="not achieved" if status == "not achieved" else "achieved",
        ),
        steps=rows.steps(dice, 7, 12),
        attacks=rows.attacks(dice),
        scores=ConfidenceScores(name="confidence in the true label", before=before, after=after),
        classes=[
            ClassRow(
                name=name,
                forgotten=dice.randrange(9),
                val=dice.randrange(9, 60),
                before=(accuracy := round(dice.uniform(84, 97), 2)),
                after=round(accuracy - dice.uniform(-1.5, 4), 2),
            )
            for name in rows.CLASSES
        ],
        exposure=rows.exposure(records),
        cost=CostComparison(
            unlearning_seconds=8.34,
            request_seconds=14.21,
            request_processor_seconds=13.33,
            retraining_seconds=61.04,
            retraining_processor_seconds=58.41,
            retraining_epochs=40,
            ratio=4.3,
            note="Retraining for 40 epochs, as stated.",
        ),
        floors=[
            FloorCheck(
                name=name,
                split=split,
                records=100,
                before=95.0,
                after=95.0 - lost,
                lost=lost,
                low=lost - 2.0,
                allowed=2.5,
                broken=lost > 4.5,
            )
            for split in ("val", "test")
            for name, lost in (("", 1.0), (rows.CLASSES[0], 1.5), (rows.CLASSES[1], 9.0))
        ],
        attempts=[
            EarlierAttempt(
                when="2026-03-13T09:26:53+00:00", seed=7, status="not achieved", request=None
            )
        ],
        earlier=[
            EarlierRequest(
                number=1,
                records=20,
                ua=rows.interval(85.0, 9.5),
                target=rows.interval(86.2, 6.1),
                status="still forgotten",
            ),
            EarlierRequest(
                number=2,
                records=31,
                ua=rows.interval(96.8, 3.1),
                target=rows.interval(86.9, 5.5),
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
    for k, row in enumerate(values["attacks"]):
        row["name"] = row["label"] = HOSTILE[k % len(HOSTILE)]
    values["metrics"][0]["label"] = HOSTILE[0]
    values["metrics"][1]["explain"] = HOSTILE[1]
    values["request"]["source"] = HOSTILE[1]
    values["verdict"]["headline"] = HOSTILE[2]
    values["verdict"]["reasons"] = list(HOSTILE)
    values["preflight"]["warnings"] = list(HOSTILE)
    values["preflight"]["fit"][HOSTILE[0]] = {HOSTILE[1]: HOSTILE[2]}
    values["scores"]["name"] = HOSTILE[0]
    values["epochs"][0]["action"] = HOSTILE[1]
    values["commands"] = [HOSTILE[2], "expunge verify bundle"]
    values["hashes"]["data"] = HOSTILE[2]
    return Evidence.model_validate(values)


def examples(records: int = 42) -> list[dict[str, Any]]:
    """The forgotten records one by one, as ``--keep-examples`` shows them."""
    return [row.model_dump(mode="json") for row in rows.examples(random.Random(1), records)]


def hostile_examples() -> list[dict[str, Any]]:
    """The same with hostile names and images."""
    found = examples(60)
    for k, row in enumerate(found):
        row["id"] = HOSTILE[k % len(HOSTILE)] + str(k)
        row["label"] = HOSTILE[(k + 1) % len(HOSTILE)]
        row["after"]["prediction"] = HOSTILE[(k + 2) % len(HOSTILE)]
    found[1]["image"] = "javascript:alert(3)"
    found[2]["image"] = "https://example.org/x.png"
    return found


def bare() -> Evidence:
    """The least that a request which failed at once might leave."""
    whole = evidence(1, status="not achieved")
    undefined = float("nan")
    return Evidence(
        schema_version=4,
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
        stopped=Stop(epoch=0, reason="The model diverged at once.", status="not achieved"),
        epochs=[],
        attacks=[],
        scores=ConfidenceScores(name="confidence", before=SplitScores(), after=SplitScores()),
        steps={},
        target=None,
        preflight=PreflightFindings(),
        earlier=[],
    )


def _verdict(records: int, status: Status) -> RequestVerdict:
    if status == "cannot be told":
        return RequestVerdict(
            status=status,
            headline=f"The {records} records were unlearned and nothing else broke, but whether "
            "they are forgotten cannot be told.",
            reasons=["A model that forgot nothing would have passed in 38 of 40 resamplings."],
            shown=[],
            not_shown=["That the records were forgotten."],
            next_steps=["Use the unlearned model of the bundle."],
        )
    if status == "not achieved":
        return RequestVerdict(
            status="not achieved",
            headline=f"The {records} records were not forgotten to the standard asked for; the "
            "bundle holds the model as it was before the request.",
            reasons=["Held-out accuracy fell through the floor at every learning rate tried."],
            shown=[],
            not_shown=["That the records can be forgotten with these settings."],
            next_steps=["Try another method: `--method neg-grad-plus`."],
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
