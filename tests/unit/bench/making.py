"""Results made by hand."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from expunge.bench._results import SETTINGS, BenchResult
from expunge.methods import METHODS
from expunge.update import ADDONS

BASE: dict[str, Any] = {
    "block": "main",
    "dataset": "cifar10",
    "arch": "vgg16",
    "width": 1.0,
    "limit": None,
    "scenario": "random:0.1",
    "seed": 0,
    "model": "unlearned",
    "method": "random-label",
    "addon": "none",
    "moments": "",
    "aggregate": "linear",
    "alpha": 0.05,
    "beta": 0.95,
    "lr": 1e-4,
    "batch_size": 256,
    "total_epochs": 10,
}
_numbers = itertools.count()


def scores(ua: float, *, ideal: float = 90.0, **more: float) -> dict[str, float]:
    """An evaluated epoch; the attacks say what the accuracy says."""
    names = ("correctness", "confidence", "logits", "entropy", "modified_entropy")
    attacks = {f"mia_{name}": ua / 100 for name in names}
    return {"ua": ua, "ra": 99.0, "ta": ua - 10, "rua": ua - ideal, "fid": ua, **attacks, **more}


def run(
    ua: float | dict[int, float], method: str = "SRL", addon: str = "none", **settings: Any
) -> BenchResult:
    """An unlearning run, given UA at epoch 10 or by epoch; ``metrics`` are added to each epoch."""
    metrics, diverged = settings.pop("metrics", {}), settings.pop("diverged", "")
    own = {"method": METHODS.name(method), "addon": ADDONS.name(addon)}
    own["moments"] = "published" if own["addon"] in ("prob", "focus") else ""
    chosen = BASE | own | settings
    assert set(chosen) == set(SETTINGS)
    found = ua if isinstance(ua, dict) else {10: ua}
    rows: list[dict[str, Any]] = [{"epoch": 0, **scores(99.0), "seconds": 0.0}]
    for epoch, value in found.items():
        times = {"seconds": 2.0 * epoch, "processor_seconds": 3.0 * epoch}
        rows.append({"epoch": epoch, **times, **scores(value, **metrics)})
    key = f"run-{next(_numbers)}"
    return BenchResult(**chosen, key=key, epochs=rows, diverged=diverged)


def reference(model: str, ua: float, **settings: Any) -> BenchResult:
    """An initial or ideal model."""
    nothing: dict[str, Any] = dict.fromkeys(SETTINGS[SETTINGS.index("method") :])
    nothing |= {"method": "", "addon": "", "moments": "", "aggregate": ""}
    row = {"epoch": 0, **scores(ua), "seconds": 100.0, "processor_seconds": 150.0}
    settings = BASE | nothing | {"model": model} | settings
    return BenchResult(**settings, key=f"{model}-{next(_numbers)}", epochs=[row])


def over_seeds(values: Sequence[float], *args: Any, **settings: Any) -> list[BenchResult]:
    """A run for each value of UA."""
    return [run(value, *args, seed=seed, **settings) for seed, value in enumerate(values)]


def references(seeds: Iterable[int] = (0, 1, 2), **settings: Any) -> list[BenchResult]:
    """Initial and ideal models."""
    pairs = itertools.product((("initial", 99.0), ("ideal", 90.0)), seeds)
    return [reference(model, ua, seed=seed, **settings) for (model, ua), seed in pairs]


PAPER_ADDONS = ("none", "SalUn", "AND", "PROB", "FOCUS")


def paper_results(
    methods: tuple[str, ...] = ("SRL", "NGPlus", "SCRUB"), **settings: Any
) -> list[BenchResult]:
    """References, baselines, and every add-on of the methods, at epochs 1 and 10."""
    found = references(**settings)
    variants = [(m, "none") for m in ("FT", "MSG", "CT")] if "SRL" in methods else []
    variants += list(itertools.product(methods, PAPER_ADDONS))
    for number, (method, addon) in enumerate(variants):
        for seed in range(3):
            ua = 91.0 + number / 4 + seed
            found.append(run({1: 98.0, 10: ua}, method, addon, seed=seed, **settings))
    return found
