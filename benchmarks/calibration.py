"""Calibrated against fixed unlearning, judged by the true ideal model, which neither gets to see.

    python benchmarks/calibration.py [--seeds 3] [--workers 2] [--out FILE]
    python benchmarks/calibration.py --initial FILE --ideal FILE [--data SPEC] [--out FILE]
    python benchmarks/calibration.py --store DIR --data SPEC [--estimate-only] [--out FILE]

The first form trains small models of digits and, for every forget set, the ideal one; the others
take stored models: two files, or every pair in the store of ``expunge bench``. All print how well
the target was predicted, and compare a calibrated run with a fixed one of SRL-FOCUS. TA is on the
classes that are retained. ``auc`` is the loss attack's, forget against test of the same classes.
Decisions are made on val only. Stored pairs with --out: killed, the same command goes on.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from expunge.request.calibrate._rules import cap_batch_size
from rich.console import Console
from rich.table import Table
from torch import nn

from expunge._files import write_text
from expunge.data import ImageSet, Splits, divide, load
from expunge.engine import Procedure, Recipe, train, unlearn
from expunge.evaluation import predict
from expunge.evaluation._scores import accuracy
from expunge.evaluation.attacks._features import loss
from expunge.evaluation.attacks._roc import Sample, auc
from expunge.models import build_model, channel_statistics
from expunge.request.calibrate._comparison import compare
from expunge.request.calibrate._run import calibrate
from expunge.request.calibrate._target import estimate_target
from expunge.store._environment import cores, environment, hardware
from expunge.update import Linear
from pairs import Pair, from_files, from_store

SETS = (
    "random:0.05",
    "random:0.1",
    "random:0.2",
    "random:0.3",
    "random:0.5",
    "class:3",
    "class:8:0.5",
    "class:5:0.3",
)
RECIPE = Recipe(epochs=60, batch_size=32, lr=0.05, schedule="one-cycle")

Options = dict[str, Any]
Row = dict[str, Any]


def digits(options: Options, seed: int) -> Splits:
    """Few images to train on, so that they are memorised; many to validate on."""
    splits = load("digits", limit=options["limit"], val_fraction=0.3, seed=seed)
    if not options["noise"]:
        return splits
    random = torch.Generator().manual_seed(seed)

    def noisy(part: ImageSet) -> ImageSet:
        extra = options["noise"] * torch.randn(part.images.shape, generator=random)
        pixels = (part.images + extra).round().clamp(0, 255).to(torch.uint8)
        return ImageSet(pixels, part.labels, part.classes, part.names)

    parts = (noisy(part) for part in (splits.train, splits.val, splits.test))
    return Splits(splits.name, *parts, flip=splits.flip)


def trained(splits: Splits, data: ImageSet, seed: int) -> nn.Module:
    """A small CNN that knows ``data`` by heart."""
    mean, std = channel_statistics(splits.train.images)
    fresh = build_model("small-cnn", in_channels=1, width=0.5, mean=mean, std=std, seed=seed)
    return train(fresh, data, recipe=RECIPE, seed=seed, device="cpu", progress=False).model


def run_digits(options: Options, scenario: str, seed: int, state: dict[str, Any]) -> Row:
    """One forget set of digits."""
    torch.set_num_threads(1)
    splits = digits(options, seed)
    mean, std = channel_statistics(splits.train.images)
    initial = build_model("small-cnn", in_channels=1, width=0.5, mean=mean, std=std)
    initial.load_state_dict(state)
    parts = divide(splits, scenario, seed)
    ideal = trained(splits, parts.retain, seed + 1000)
    return judge(options, Pair(scenario, seed, parts, initial.eval(), ideal, None))


def train_digits(options: Options, seed: int) -> dict[str, Any]:
    """The weights of an initial model."""
    torch.set_num_threads(1)
    splits = digits(options, seed)
    return dict(trained(splits, splits.train, seed).state_dict())


def stored_pairs(options: Options) -> Iterator[Pair]:
    """The pairs that the options name."""
    torch.set_num_threads(options["workers"])
    if options["store"] is not None:
        return from_store(options["store"], options["data"])
    return from_files(options["initial"], options["ideal"], options["data"])


def estimate_stored(options: Options, console: Console) -> None:
    """The target beside the ideal model's accuracy, for every pair; nothing is unlearned."""
    table = Table(title="predicted and true accuracy of the ideal model on the forget set")
    for name in ("forget set", "n", "val", "initial UA", "initial TA", "ideal UA", "target", "in"):
        table.add_column(name, justify="right")
    for pair in stored_pairs(options):
        parts, val = pair.parts, predict(pair.initial, pair.parts.splits.val)
        known = parts.forget.labels, parts.retain.labels
        aim = estimate_target(val, *known, level=options["level"]).accuracy
        first, truth = (accuracy(predict(m, parts.forget)) for m in (pair.initial, pair.ideal))
        table.add_row(
            f"{pair.scenario} #{pair.seed}",
            str(len(parts.forget)),
            str(len(val.labels)),
            f"{first:.1f}",
            f"{accuracy(predict(pair.initial, parts.splits.test)):.1f}",
            f"{truth:.1f}",
            f"{aim.value:.1f} [{aim.low:.1f}, {aim.high:.1f}]",
            "yes" if covers(aim._asdict(), truth) else "no",
        )
    console.print(table)


def over_stored(options: Options, console: Console) -> list[Row]:
    """One forget set after the other; what is done is kept beside ``--out``."""
    out: Path | None = options["out"]
    rows: list[Row] = []
    for number, pair in enumerate(stored_pairs(options)):
        kept = None if out is None else out.with_name(f"{out.stem}.{number}.json")
        if kept is not None and kept.is_file():
            rows.append(json.loads(kept.read_text(encoding="utf-8")))
            continue
        row = judge(options, pair, kept)
        rows.append(row)
        console.print_json(data=row)
        if kept is not None:
            write_text(kept, json.dumps(row))
    return rows


def judge(options: Options, pair: Pair, kept: Path | None = None) -> Row:
    """Predict, run both ways, and only then look at the ideal model and at test."""
    parts, initial, seed = pair.parts, pair.initial, pair.seed
    splits, size = parts.splits, len(parts.forget)
    common: Options = {
        "forget": parts.forget,
        "retain": parts.retain,
        "augment": pair.augment,
        "seed": seed,
        "device": "cpu",
        "progress": options["progress"],
    }
    procedure = Procedure(
        method="SRL",
        addon="focus",
        aggregate=Linear(options["alpha"], 1.0 - options["alpha"]),
        epochs=options["fixed_epochs"],
        batch_size=cap_batch_size(options["batch_size"], size),
        lr=options["lr"],
    )
    began = time.perf_counter()
    fixed = unlearn(
        initial,
        checkpoint=None if kept is None else kept.with_suffix(".fixed.checkpoint"),
        **procedure.arguments(),
        **common,
    ).model
    middle = time.perf_counter()
    steered = calibrate(
        initial,
        val=splits.val,
        procedure=replace(procedure, epochs=options["max_epochs"]),
        floor=options["floor"],
        level=options["level"],
        checkpoint=None if kept is None else kept.with_suffix(".checkpoint"),
        **common,
    )
    seconds = (middle - began, time.perf_counter() - middle)
    target, val = steered.target, splits.val
    plain = estimate_target(
        predict(initial, val), parts.forget.labels, level=options["level"]
    ).accuracy

    def measured(model: nn.Module) -> Row:
        forget, test = predict(model, parts.forget), predict(model, splits.test)
        kept = ~torch.isin(test.labels, torch.tensor(target.lost, dtype=torch.int64))
        beside = test.take(torch.isin(test.labels, parts.forget.labels).nonzero()[:, 0])
        seen = compare(forget, predict(model, val), target, level=options["level"], seed=seed)
        return {
            "ua": accuracy(forget),
            "ta": accuracy(test.take(kept.nonzero()[:, 0])),
            "auc": Sample.of(-loss(forget), -loss(beside)).value(auc),
            "distance": seen.distance,
            "indistinguishable": seen.indistinguishable,
        }

    models = {"initial": initial, "ideal": pair.ideal, "fixed": fixed, "calibrated": steered.model}
    row: Row = {"scenario": pair.scenario, "seed": seed, "n_forget": size, "n_val": len(val)}
    row |= {name: measured(model) for name, model in models.items()}
    for name in ("fixed", "calibrated"):
        row[name]["rua"] = row[name]["ua"] - row["ideal"]["ua"]
        row[name]["ta_lost"] = row["initial"]["ta"] - row[name]["ta"]
    row["fixed"] |= {"seconds": seconds[0], "epochs": procedure.epochs}
    row["calibrated"] |= {"seconds": seconds[1], "epochs": len(steered.epochs)}
    row["calibrated"] |= steered.stopped.model_dump() | {"warnings": list(steered.warnings)}
    row["path"] = [
        {name: step[name] for name in ("epoch", "ua", "va", "distance", "lr", "alpha", "action")}
        for step in steered.epochs
        if "ua" in step
    ]
    row["target"] = target.accuracy._asdict()
    row["target_plain"] = plain._asdict()
    return row


def covers(interval: Row, value: float) -> bool:
    """Whether the value lies inside, but for rounding."""
    return bool(interval["low"] - 1e-9 <= value <= interval["high"] + 1e-9)


def summary(rows: list[Row]) -> Row:
    """The figures over all forget sets."""
    found: Row = {"forget_sets": len(rows)}
    truth = np.array([row["ideal"]["ua"] for row in rows])
    for name in ("target", "target_plain"):
        errors = np.array([row[name]["value"] for row in rows]) - truth
        inside = [covers(row[name], ua) for row, ua in zip(rows, truth, strict=True)]
        found[name] = {
            "mean_error": float(errors.mean()),
            "mean_absolute_error": float(np.abs(errors).mean()),
            "covered": int(sum(inside)),
        }
    for name in ("initial", "ideal"):
        found[f"{name}_indistinguishable"] = sum(row[name]["indistinguishable"] for row in rows)
    for name in ("fixed", "calibrated"):
        found[name] = {
            "mean_abs_rua": float(np.mean([abs(row[name]["rua"]) for row in rows])),
            "mean_ta_lost": float(np.mean([row[name]["ta_lost"] for row in rows])),
            "mean_auc_off": float(np.mean([abs(row[name]["auc"] - 0.5) for row in rows])),
            "indistinguishable": sum(row[name]["indistinguishable"] for row in rows),
            "seconds": float(np.mean([row[name]["seconds"] for row in rows])),
        }
    pairs = [(row["fixed"], row["calibrated"]) for row in rows]
    near = np.array([abs(f["rua"]) - abs(c["rua"]) for f, c in pairs])
    kept = np.array([f["ta_lost"] - c["ta_lost"] for f, c in pairs])
    found["paired"] = {
        "nearer": int((near > 1e-9).sum()),
        "as_near": int((np.abs(near) <= 1e-9).sum()),
        "farther": int((near < -1e-9).sum()),
        "no_more_ta_lost": int((kept >= -1e-9).sum()),
        "no_farther_and_no_more_ta_lost": int(((near >= -1e-9) & (kept >= -1e-9)).sum()),
        "mean_rua_gain": float(near.mean()),
        "mean_ta_gain": float(kept.mean()),
        "achieved": sum(c["status"] == "achieved" for _, c in pairs),
    }
    return found


def show(rows: list[Row], console: Console) -> None:
    """A line a forget set."""
    table = Table(title="calibrated (c) against fixed (f), judged by the ideal model")
    for name in ("forget set", "n", "ideal UA", "target", "in", "rUA f", "rUA c", "TA lost f"):
        table.add_column(name, justify="right")
    for name in ("TA lost c", "AUC f", "AUC c", "epochs", "status"):
        table.add_column(name, justify="right")
    for row in sorted(rows, key=lambda r: (r["scenario"], r["seed"])):
        aim, f, c = row["target"], row["fixed"], row["calibrated"]
        table.add_row(
            f"{row['scenario']} #{row['seed']}",
            str(row["n_forget"]),
            f"{row['ideal']['ua']:.1f}",
            f"{aim['value']:.1f} [{aim['low']:.1f}, {aim['high']:.1f}]",
            "yes" if covers(aim, row["ideal"]["ua"]) else "no",
            f"{f['rua']:+.1f}",
            f"{c['rua']:+.1f}",
            f"{f['ta_lost']:.1f}",
            f"{c['ta_lost']:.1f}",
            f"{f['auc']:.2f}",
            f"{c['auc']:.2f}",
            f"{c['epoch']}x{c['share']:.2f}/{c['epochs']}",
            c["status"],
        )
    console.print(table)


def over_digits(options: Options, console: Console) -> list[Row]:
    """All forget sets of all seeds, side by side."""
    rows: list[Row] = []
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options["workers"], mp_context=spawn) as pool:
        training = {pool.submit(train_digits, options, s): s for s in range(options["seeds"])}
        running = []
        for done in as_completed(training):
            seed, state = training[done], done.result()
            running += [pool.submit(run_digits, options, s, seed, state) for s in SETS]
        for finished in as_completed(running):
            row = finished.result()
            rows.append(row)
            console.print(
                f"{len(rows)}/{len(running)} {row['scenario']} #{row['seed']}: rUA "
                f"{row['fixed']['rua']:+.1f} -> {row['calibrated']['rua']:+.1f}, TA lost "
                f"{row['fixed']['ta_lost']:.1f} -> {row['calibrated']['ta_lost']:.1f}"
            )
    return rows


def main() -> None:
    """Run, print, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=cores())
    parser.add_argument("--limit", type=int, default=200, help="digits to train on")
    parser.add_argument("--noise", type=float, default=0.0, help="of the pixels, of 255")
    parser.add_argument("--initial", type=Path)
    parser.add_argument("--ideal", type=Path)
    parser.add_argument("--store", type=Path, help="of `expunge bench`")
    parser.add_argument("--data", help="of the store; in place of the files' own spec")
    parser.add_argument("--estimate-only", action="store_true", help="of stored pairs")
    parser.add_argument("--lr", type=float, default=1.5e-3)
    parser.add_argument("--alpha", type=float, default=0.05)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--fixed-epochs", type=int, default=10)
    parser.add_argument("--max-epochs", type=int, default=30)
    parser.add_argument("--floor", type=float, default=2.0)
    parser.add_argument("--level", type=float, default=0.95)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    if (chosen.initial is None) != (chosen.ideal is None):
        parser.error("--initial and --ideal go together")
    if chosen.store is not None and chosen.data is None:
        parser.error("--store needs --data")
    stored = chosen.store is not None or chosen.initial is not None
    if chosen.estimate_only and not stored:
        parser.error("--estimate-only needs --store, or --initial and --ideal")
    options: Options = vars(chosen) | {"progress": stored}
    console = Console(width=None if Console().is_terminal else 160)
    if chosen.estimate_only:
        estimate_stored(options, console)
        return
    rows = (over_stored if stored else over_digits)(options, console)
    show(rows, console)
    found = summary(rows)
    console.print_json(data=found)
    if chosen.out is not None:
        plain = {k: str(v) if isinstance(v, Path) else v for k, v in options.items()}
        record = {"options": plain, "summary": found, "rows": rows}
        record |= {"environment": environment(), "hardware": hardware()}
        write_text(chosen.out, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
