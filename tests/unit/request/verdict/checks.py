"""Checks for tests of what is said about them."""

from __future__ import annotations

from typing import Any

from expunge.evidence._sections import Check, CheckResult


def make_check(name: str = "auc_loss", result: CheckResult = "inside", **changes: Any) -> Check:
    """A check of a kind that its name tells."""
    area = name.startswith("auc_")
    values: dict[str, Any] = {
        "name": name,
        "label": "guesses from the loss" if area else "test accuracy lost",
        "moment": "as delivered",
        "unit": "0 to 1" if area else "points",
        "value": 0.51 if area else 0.5,
        "low": 0.48 if area else -0.5,
        "high": 0.54 if area else 1.5,
        "margin": 0.55 if area else 2.0,
        "records": 500,
        "result": result,
    }
    return Check(**(values | changes))
