"""The population attacks on the model before and after, as plain values."""

from __future__ import annotations

from typing import Any

from expunge.evaluation import PAPER_FIVE, AttackReport, run_attack
from expunge.request.evidence._rows import Seen, plain

POPULATION = (*(f"svc-{name}" for name in PAPER_FIVE), "loss")
ATTACK_WORDS = {
    "correctness": "guesses from whether the prediction is right",
    "confidence": "guesses from the probability of the label",
    "logits": "guesses from all outputs of the model",
    "entropy": "guesses from how sure the model is",
    "modified-entropy": "guesses from how sure the model is of the label",
    "loss": "guesses from the loss",
}
BUDGET = "population attack: looks at this model's outputs only, no other model is trained"


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
