"""The demo: what unlearning does to a small model of handwritten digits, in a minute."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from expunge._errors import InvalidInput
from expunge._files import write_text
from expunge.bench.tables._summary import Group, Row, Summary
from expunge.data import Division, Splits, divide, load
from expunge.engine import Recipe, train, unlearn
from expunge.evaluation._scorer import EpochScores, Scorer
from expunge.methods import METHODS
from expunge.models import build_model, channel_statistics
from expunge.plotting import Curve, Panel, curves_figure, save_figure
from expunge.update import ADDONS, Linear

METRIC_NAMES = ("ua", "ra", "ta", "rua", "fid", "mia_entropy", "rte")
SRL_ADDONS = ("none", "saliency", "and", "prob", "bernoulli", "focus")


@dataclass(frozen=True)
class Demo:
    """The settings: few images and a small forget batch, so that there is something to forget."""

    seeds: int = 3
    limit: int = 120
    scenario: str = "random:0.5"
    width: float = 0.5
    train_epochs: int = 80
    epochs: int = 10
    batch_size: int = 16
    lr: float = 1.5e-3
    alpha: float = 0.05

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise InvalidInput(f"`seeds` should be at least 1. (got {self.seeds})")

    @property
    def recipe(self) -> Recipe:
        """How initial and ideal models are trained."""
        return Recipe(epochs=self.train_epochs, batch_size=32, lr=0.05, schedule="one-cycle")

    @property
    def arms(self) -> tuple[tuple[str, str], ...]:
        """(method, add-on) of every unlearning run."""
        return (
            ("fine-tune", "none"),
            ("gradient-ascent", "none"),
            *(("random-label", addon) for addon in SRL_ADDONS),
            *((m, a) for m in ("neg-grad-plus", "scrub") for a in ("none", "focus")),
        )

    def data(self, seed: int) -> Division:
        """The data of one seed."""
        return divide(load("digits", limit=self.limit, seed=seed), self.scenario, seed)

    def fresh(self, splits: Splits, seed: int) -> nn.Module:
        """An untrained model."""
        mean, std = channel_statistics(splits.train.images)
        return build_model(
            "small-cnn", in_channels=1, width=self.width, mean=mean, std=std, seed=seed
        )


Record = dict[str, Any]
"""One run of one seed: ``label``, ``seed``, ``rte``, ``epochs`` (the scores from epoch 0 on), and
``final``, the scores of the last epoch with a membership attack's."""


def label(method: str, addon: str) -> str:
    """``SRL``, ``SRL-FOCUS``: the short names of the paper."""
    name = METHODS.label(method)
    return name if addon == "none" else f"{name}-{ADDONS.label(addon)}"


def run_demo(
    demo: Demo, *, workers: int | None = None, tick: Callable[[str], None] = lambda _: None
) -> list[Record]:
    """Train, retrain and unlearn for every seed, side by side; ``tick`` hears of each part done."""
    count = workers or max(1, min(os.cpu_count() or 1, demo.seeds * 2))
    records: list[Record] = []
    with ProcessPoolExecutor(
        count, mp_context=multiprocessing.get_context("spawn"), initializer=_one_thread
    ) as pool:
        trained = {
            pool.submit(_train, demo, seed, ideal): (seed, ideal)
            for seed in range(demo.seeds)
            for ideal in (False, True)
        }
        weights: dict[tuple[int, bool], dict[str, Any]] = {}
        running: dict[Future[Record], str] = {}
        for done in as_completed(trained):
            seed, ideal = trained[done]
            weights[seed, ideal] = done.result()
            tick(f"seed {seed}: {'ideal' if ideal else 'initial'}")
            if {(seed, False), (seed, True)} <= weights.keys():
                pair = weights[seed, False], weights[seed, True]
                records += _references(demo, seed, *pair)
                for arm in demo.arms:
                    future = pool.submit(_unlearn, demo, seed, arm, *pair)
                    running[future] = f"seed {seed}: {label(*arm)}"
        for finished in as_completed(running):
            records.append(finished.result())
            tick(running[finished])
    return sorted(records, key=lambda r: (r["seed"], r["label"]))


def summarise(demo: Demo, records: list[Record]) -> Summary:
    """The table: the last epoch of every arm, over seeds."""
    by_label: dict[str, list[Record]] = {}
    for record in records:
        by_label.setdefault(record["label"], []).append(record)

    def row(name: str) -> Row:
        runs = by_label[name]
        values = {
            metric: tuple(r["rte"] if metric == "rte" else r["final"][metric] for r in runs)
            for metric in METRIC_NAMES
        }
        return Row(name, values)

    def group(name: str, methods: tuple[str, ...]) -> Group:
        return Group(name, tuple(row(label(*arm)) for arm in demo.arms if arm[0] in methods))

    ideal = row("ideal")
    groups = (
        Group("reference", (row("initial"), ideal), ranked=False),
        group("baselines", ("fine-tune", "gradient-ascent")),
        *(group(METHODS.label(m), (m,)) for m in ("random-label", "neg-grad-plus", "scrub")),
    )
    return Summary(groups, METRIC_NAMES, ideal=ideal)


def draw(demo: Demo, records: list[Record], path: Path) -> None:
    """rUA and TA over epochs: each method with and without FOCUS, and SRL with every add-on."""

    def curve(name: str, metric: str, colour: int, dashed: bool) -> Curve:
        runs = [r for r in records if r["label"] == name]
        values = np.array([[row[metric] for row in r["epochs"]] for r in runs])
        return Curve(name, values, colour, dashed)

    ideal_ta = float(np.mean([r["epochs"][-1]["ta"] for r in records if r["label"] == "ideal"]))
    levels = {"rua": ("ideal", 0.0), "ta": ("ideal", ideal_ta)}
    pairs = [(m, a) for m in ("random-label", "neg-grad-plus", "scrub") for a in ("none", "focus")]
    top = [(label(m, a), k // 2, a == "none") for k, (m, a) in enumerate(pairs)]
    top.append((label("fine-tune", "none"), 6, True))
    bottom = [(label("random-label", a), k, a == "none") for k, a in enumerate(SRL_ADDONS)]
    panels = [
        [
            Panel(title, metric, [curve(n, metric, c, d) for n, c, d in lines], levels[metric])
            for metric in ("rua", "ta")
        ]
        for title, lines in (("methods", top), ("SRL with each add-on", bottom))
    ]
    note = f"digits, {demo.scenario}, mean and std over {demo.seeds} seeds; GA is off the scale"
    save_figure(curves_figure(panels, note), path)


def write_demo(demo: Demo, records: list[Record], folder: Path) -> list[Path]:
    """Write table.md, table.csv, records.jsonl and curves.png/.pdf into ``folder``."""
    summary = summarise(demo, records)
    write_text(folder / "table.md", summary.markdown(notes=False))
    write_text(folder / "table.csv", summary.csv())
    write_text(folder / "records.jsonl", "".join(json.dumps(r) + "\n" for r in records))
    draw(demo, records, folder / "curves.png")
    names = ("table.md", "table.csv", "records.jsonl", "curves.png", "curves.pdf")
    return [folder / name for name in names]


def total_parts(demo: Demo) -> int:
    """How often ``tick`` will be called."""
    return demo.seeds * (2 + len(demo.arms))


def _one_thread() -> None:
    torch.set_num_threads(1)


def _train(demo: Demo, seed: int, ideal: bool) -> dict[str, Any]:
    parts = demo.data(seed)
    own = seed + 1000 * ideal
    result = train(
        demo.fresh(parts.splits, own),
        parts.retain if ideal else parts.splits.train,
        recipe=demo.recipe,
        seed=own,
        device="cpu",
        progress=False,
    )
    return {"state": result.model.state_dict(), "seconds": result.history.seconds}


def _restore(demo: Demo, parts: Division, trained: dict[str, Any]) -> nn.Module:
    model = demo.fresh(parts.splits, 0)
    model.load_state_dict(trained["state"])
    return model.eval()


def _references(
    demo: Demo, seed: int, initial: dict[str, Any], ideal: dict[str, Any]
) -> Iterator[Record]:
    parts = demo.data(seed)
    judge = Scorer(parts, _restore(demo, parts, ideal), attacks=True)
    for name, trained in (("initial", initial), ("ideal", ideal)):
        scores = judge.score(_restore(demo, parts, trained)).as_dict()
        yield {
            "label": name,
            "seed": seed,
            "rte": trained["seconds"],
            "epochs": [scores],
            "final": scores,
        }


def _unlearn(
    demo: Demo,
    seed: int,
    arm: tuple[str, str],
    initial: dict[str, Any],
    ideal: dict[str, Any],
) -> Record:
    parts = demo.data(seed)
    judge = Scorer(parts, _restore(demo, parts, ideal))
    start = _restore(demo, parts, initial)
    result = unlearn(
        start,
        forget=parts.forget,
        retain=parts.retain,
        method=arm[0],
        addon=arm[1],
        aggregate=Linear(demo.alpha, 1.0 - demo.alpha),
        epochs=demo.epochs,
        batch_size=demo.batch_size,
        lr=demo.lr,
        seed=seed,
        device="cpu",
        callbacks=[EpochScores(judge)],
        progress=False,
    )
    rows = [judge.score(start).as_dict()]
    rows += [{k: row[k] for k in METRIC_NAMES if k in row} for row in result.history.epochs]
    final = replace(judge, attacks=True).score(result.model).as_dict()
    return {
        "label": label(*arm),
        "seed": seed,
        "rte": result.history.seconds,
        "epochs": rows,
        "final": final,
    }
