"""Results and claims of a small benchmark, made up."""

from __future__ import annotations

import random
from typing import Any

from expunge.bench._results import BenchResult
from tests.unit.report.fake import HOSTILE

VARIANTS = (("none", 1e-3), ("focus", 1e-3), ("none", 3e-3))


def results() -> list[BenchResult]:
    """Runs of three seeds: the ideal model, and two labels of which one has two rates."""
    dice = random.Random(0)
    found = []
    for seed in range(3):
        found.append(_result("", "", None, seed, [0], dice))
        for addon, lr in VARIANTS:
            found.append(_result("random-label", addon, lr, seed, [0, 1, 2, 5], dice))
    return found


def _result(
    method: str,
    addon: str,
    lr: float | None,
    seed: int,
    epochs: list[int],
    dice: random.Random,
    **task: Any,
) -> BenchResult:
    rows = []
    for epoch in epochs:
        ua = round(dice.uniform(70, 100), 4)
        row = {"epoch": epoch, "ua": ua, "rua": ua - 87.0, "ta": round(dice.uniform(80, 90), 4)}
        rows.append(row | {"ua_class_0": 50.0, "processor_seconds": 0.1 * epoch, "fid": 80.0})
    task = {"dataset": "digits", "arch": "small-cnn", "width": 0.5, "scenario": "random:0.5"} | task
    return BenchResult(
        method,
        addon,
        **task,
        block="digits",
        lr=lr,
        seed=seed,
        model="unlearned" if method else "ideal",
        key=f"{method}{addon}{lr}{seed}{task['scenario']}",
        epochs=rows,
        environment={"processor": "A64", "cores": 2, "torch": "2.13.0", "machine": "x86_64"},
    )


def many_results() -> list[BenchResult]:
    """Thirty methods whose long names differ in their ends, on two tasks; the last ruined."""
    dice = random.Random(1)
    found = []
    for scenario in ("random:0.1", "class:3:0.4"):
        task = {"dataset": "cifar10", "arch": "vgg16", "width": 0.25, "scenario": scenario}
        for seed in range(3):
            found.append(_result("", "", None, seed, [0], dice, **task))
            for number in range(30):
                method, addon = "scrub(gamma=1,loss=released)", f"ADDON-{number:02d}"
                found.append(_result(method, addon, 4e-4, seed, [0, 1, 10], dice, **task))
            for row in found[-1].epochs:
                row["ta"] = 10.0
    return found


def claims() -> list[dict[str, Any]]:
    """One finding of each status, and one with hostile words."""
    statuses = ("held", "not held", "inconclusive", "no data")
    names = ("focus-rua", "prob-rua", "ta-cost", HOSTILE[0])
    return [
        {
            "claim": name,
            "statement": f"What {name} says.",
            "group": "" if status == "no data" else "digits/small-cnn SRL-FOCUS",
            "status": status,
            "effect": None if status == "no data" else -1.6667,
            "low": None if status == "no data" else -5.8069,
            "high": None if status == "no data" else 2.4736,
            "n": 0 if status == "no data" else 3,
            "unit": "points",
            "detail": "27.3 points from the ideal model are left" if status == "held" else "",
        }
        for name, status in zip(names, statuses, strict=True)
    ]
