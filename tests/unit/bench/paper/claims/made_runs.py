"""Results of runs, made by hand, for claims to be tested on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from expunge.bench._results import SETTINGS, BenchResult
from expunge.bench.paper.claims import ClaimFinding, claim_ledger

EPOCHS = (0, 1, 2, 5, 10)


SETTING = {
    "block": "b",
    "dataset": "digits",
    "arch": "small-cnn",
    "width": 1.0,
    "limit": None,
    "scenario": "random:0.1",
    "model": "unlearned",
    "aggregate": "linear",
    "alpha": 0.05,
    "beta": 0.95,
    "lr": 1e-4,
    "batch_size": 16,
    "total_epochs": 10,
}


Curve = float | Sequence[float]


def run(
    method: str,
    addon: str = "none",
    seed: int = 0,
    *,
    rua: Curve = 5.0,
    ta: Curve = 90.0,
    mia: Curve = 0.9,
    time: float = 1.0,
    moments: str | None = None,
    diverged: str = "",
    steps: dict[str, list[float | None]] | None = None,
    agreement: dict[str, list[float]] | None = None,
    **settings: Any,
) -> BenchResult:
    """A result; a metric is a number, or one a value of ``EPOCHS``."""
    if moments is None:
        moments = "published" if addon in ("focus", "prob") else ""
    own = SETTING | settings
    own |= {"method": method, "addon": addon, "moments": moments, "seed": seed}
    rows = []
    for k, epoch in enumerate(EPOCHS):
        row: dict[str, Any] = {"epoch": epoch, "ua": 95.0}
        for name, curve in {"rua": rua, "ta": ta, "mia_entropy": mia}.items():
            row[name] = curve if isinstance(curve, int | float) else curve[k]
        row |= {"seconds": 2 * time * epoch, "processor_seconds": time * epoch}
        rows.append(row)
    key = repr(own)
    assert set(own) == set(SETTINGS)
    return BenchResult(
        **own,
        key=key,
        epochs=rows[:2] if diverged else rows,
        diverged=diverged,
        steps=steps or {},
        agreement=agreement or {},
    )


def both(
    base: Sequence[dict[str, Any]],
    variant: Sequence[dict[str, Any]],
    method: str = "random-label",
    addon: str = "focus",
    **settings: Any,
) -> list[BenchResult]:
    """Runs of a method alone and with an add-on, one dict of metrics a seed."""
    first = [run(method, "none", s, **each, **settings) for s, each in enumerate(base)]
    return first + [run(method, addon, s, **each, **settings) for s, each in enumerate(variant)]


def rua(*values: Curve) -> list[dict[str, Any]]:
    return [{"rua": value} for value in values]


def ta(*values: float) -> list[dict[str, Any]]:
    return [{"ta": value} for value in values]


def judge_claims(
    results: Sequence[BenchResult], names: Sequence[str] | None = None
) -> list[ClaimFinding]:
    return list(claim_ledger(results, names).findings)


def only(results: Sequence[BenchResult], name: str) -> ClaimFinding:
    """The finding of a claim that is not "no data"; there is exactly one."""
    (found,) = (f for f in judge_claims(results, [name]) if f.status != "no data")
    return found
