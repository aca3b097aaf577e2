"""Whether an add-on helps at equal forgetting."""

from __future__ import annotations

import pytest

from expunge.bench._results import Result
from expunge.bench._runs import SETTINGS
from expunge.bench.paper.claims import judge_claims
from expunge.bench.paper.claims._texts import LEAKAGE, best_quality, forgetting_points, utility_gain

Path = list[tuple[float, float]]
"""Gap of memorisation and utility, epoch by epoch."""


def run(
    path: Path, addon: str = "none", seed: int = 0, quality: float = 0.01, method: str = "npo"
) -> Result:
    settings = dict.fromkeys(SETTINGS) | {
        "block": "people",
        "dataset": "invented-people",
        "arch": "small-transformer",
        "width": 1.0,
        "limit": None,
        "scenario": "people:0.1",
        "seed": seed,
        "model": "unlearned",
        "method": method,
        "addon": addon,
        "moments": "adam" if addon != "none" else "",
        "aggregate": "linear",
        "alpha": 0.05,
        "beta": 0.95,
        "lr": 1e-3,
        "batch_size": 6,
        "budget": 3,
    }
    rows = [
        {
            "epoch": epoch,
            "exact_memorisation": 0.6 + gap,
            "gap_exact_memorisation": gap,
            "model_utility": utility,
            "forget_quality": quality * (epoch + 1),
            "privacy_leakage": -200.0 * gap,
        }
        for epoch, (gap, utility) in enumerate(path)
    ]
    return Result.from_settings(settings, key=f"{method}-{addon}-{seed}-{path}", epochs=rows)


def test_a_faster_clock_gains_nothing() -> None:
    """The same way, in larger steps: at equal forgetting, equal utility."""
    slow = run([(0.4, 0.6), (0.3, 0.55), (0.2, 0.5), (0.1, 0.45)])
    fast = run([(0.4, 0.6), (0.2, 0.5), (0.0, 0.4)], "focus")
    assert utility_gain([slow], [fast]) == pytest.approx(0.0, abs=1e-9)


def test_a_gain_is_utility_kept_at_the_same_distance() -> None:
    base = run([(0.4, 0.6), (0.0, 0.4)])
    better = run([(0.4, 0.6), (0.0, 0.5)], "focus")
    assert utility_gain([base], [better]) == pytest.approx(5.0)
    assert utility_gain([better], [base]) == pytest.approx(-5.0)


def test_over_forgetting_is_a_distance_too() -> None:
    base = run([(0.4, 0.6), (0.1, 0.5)])
    over = run([(0.4, 0.6), (-0.1, 0.5)], "focus")
    assert utility_gain([base], [over]) == pytest.approx(0.0, abs=1e-9)


def test_runs_that_reach_no_common_distance_are_not_compared() -> None:
    stuck = run([(0.4, 0.6), (0.4, 0.6)])
    assert utility_gain([stuck], [run([(0.4, 0.6), (0.1, 0.5)], "focus")]) is None


def test_quality_counts_only_while_the_model_is_useful() -> None:
    result = run([(0.4, 0.6), (0.2, 0.55), (0.0, 0.3)], quality=0.1)
    assert best_quality([result], 10.0) == pytest.approx(-0.69897, abs=1e-4), "log10 of 0.2"
    assert best_quality([result], 100.0) == pytest.approx(-0.52288, abs=1e-4)


def test_the_claim_is_held_if_every_seed_gains() -> None:
    results = [run([(0.4, 0.6), (0.0, 0.4 - 0.001 * s)], seed=s) for s in range(3)]
    results += [run([(0.4, 0.6), (0.0, 0.5)], "focus", seed=s) for s in range(3)]
    found = {finding.claim.name: finding for finding in judge_claims(results)}
    assert found["text-focus-utility"].status == "held"
    assert found["text-focus-utility"].effect == pytest.approx(5.05)
    assert found["text-prob-utility"].status == "no data"


def test_leakage_is_a_distance_of_its_own() -> None:
    base, better = run([(0.4, 0.6), (0.0, 0.4)]), run([(0.4, 0.6), (0.0, 0.5)], "focus")
    assert forgetting_points(base, LEAKAGE)[0] == (80.0, 0.0)
    assert utility_gain([base], [better], LEAKAGE) == pytest.approx(5.0)


def test_all_methods_together_are_the_mean_of_each_seed() -> None:
    """Two methods gain 5 and -1 points: 2 together, from the variants that every seed has."""
    results = [run([(0.4, 0.6), (0.0, 0.4 - 0.001 * s)], seed=s) for s in range(3)]
    results += [run([(0.4, 0.6), (0.0, 0.5)], "focus", seed=s) for s in range(3)]
    results += [run([(0.4, 0.6), (0.0, 0.4)], seed=s, method="wga") for s in range(3)]
    results += [run([(0.4, 0.6), (0.0, 0.38)], "focus", seed=s, method="wga") for s in range(3)]
    results += [run([(0.4, 0.6), (0.0, 0.4)], a, method="rmu") for a in ("none", "focus")]
    findings = [f for f in judge_claims(results) if f.claim.name == "text-focus-utility"]
    assert findings[0].group == "all 2 pairs of method and task"
    assert findings[0].effect == pytest.approx((5.05 - 1.0) / 2)
    assert findings[0].n == 3
    assert "better with it in 1 of 2" in findings[0].detail
    assert "left out: 1" in findings[0].detail
    assert len(findings) == 4
