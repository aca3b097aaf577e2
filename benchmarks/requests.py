"""Deletion requests on real models, judged by retrained ones that the requests never see.

    python benchmarks/requests.py digits --out DIR [--seeds 0,1,2]
    python benchmarks/requests.py cifar10:DATA --store STORE --out DIR [--seeds 0,1,2]
    python benchmarks/requests.py svhn:DATA --store STORE --out DIR [--sets random:0.1]
    python benchmarks/requests.py --show --out DIR

Every request is what ``expunge forget`` does, with all defaults unless options of a job are given
(``--set method=SRL``). Models come from the store of ``expunge bench``; those to compare with are
trained where the store has none, once, and kept in DIR. What is done is kept: killed, the same
command goes on. ``--request-seeds 5`` repeats every request with other seeds, to see whether the
verdict depends on them. Two single-thread workers by default.

A row is *false* if the verdict is "achieved" although accuracy on the records is farther than 3
standard errors (of a difference of two models) from the retrained model's, or a class is broken.
Cost is the processor time of the whole request over that of retraining, from the time of its steps.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from expunge._files import write_text
from expunge.evaluation._benign_steps import after_benign_steps, benign_rate
from expunge.request._job import make_job
from expunge.request._run import Outcome, carry_out
from expunge.request.subject._load import make_subject
from expunge.store._environment import cores, environment, hardware
from request_judge import Outputs, judge, summarise
from request_worlds import DIGITS_SETS, IMAGE_SETS, World, digits_world, stored_worlds

Options = dict[str, Any]
Row = dict[str, Any]
LARGE = 100
"""Requests of so many records or more should be achieved; fewer are often inconclusive."""
COLUMNS = ("ua", "rua", "ta_lost", "worst_class", "auc_loss", "auc_entropy", "rmia", "fid", "kl")


def worlds(options: Options) -> Iterator[World]:
    """The models that the options name."""
    folder = options["out"] / "retrained"
    if options["data"] == "digits":
        yield from (digits_world(seed, folder) for seed in options["seeds"])
        return
    for world in stored_worlds(options["store"], options["data"], folder):
        if world.seed in options["seeds"] and options["world"] in world.name:
            yield world


def requests(options: Options) -> list[tuple[str, int, str, int]]:
    """World, seed, forget set and seed of the request, the cheapest worlds first."""
    return [
        (world.name, world.seed, scenario, seed)
        for world in worlds(options)
        for scenario in options["sets"] or (DIGITS_SETS if world.name == "digits" else IMAGE_SETS)
        for seed in range(options["request_seeds"])
    ]


def run_request(options: Options, name: str, seed: int, scenario: str, request_seed: int) -> Row:
    """One request, judged; read from the folder if it is there."""
    label = f"{options['label']}-{name}-{seed}-{scenario.replace(':', '_')}-{request_seed}"
    kept = options["out"] / "rows" / f"{label}.json"
    if kept.is_file():
        row: Row = json.loads(kept.read_text(encoding="utf-8"))
        return row
    torch.set_num_threads(options["threads"])
    os.environ["EXPUNGE_CACHE"] = str(options["out"] / "cache" / label)  # not the user's attempts
    world = next(w for w in worlds(options | {"seeds": [seed], "world": name}))
    began = time.process_time()
    outcome = carry_out_request(options, world, scenario, label, request_seed)
    row = judged(options, world, scenario, outcome, time.process_time() - began)
    row |= {"world": name, "seed": seed, "scenario": scenario, "request_seed": request_seed}
    write_text(kept, json.dumps(row, indent=1) + "\n")
    return row


def carry_out_request(
    options: Options, world: World, scenario: str, label: str, seed: int
) -> Outcome:
    """What ``expunge forget`` does, on a model in memory."""
    out = options["out"] / "requests" / label
    settings = {"weights": Path("in memory"), "out": out, "seed": seed}
    settings |= {"recipe": world.recipe.as_dict()} | options["set"]
    if world.config["augment"] is not None:
        settings.setdefault("augment", True)
    job = make_job(**settings)
    splits = world.splits
    subject = make_subject(world.initial, (splits.train, splits.val, splits.test), job)
    subject = replace(subject, flip=splits.flip)
    ids = world.forget_set(scenario)
    is_second = scenario.startswith("second:")
    if is_second and not (out / "0001").is_dir():
        carry_out(job, subject, ids=world.forget_set("random:0.1"), progress=False, force=True)
    done = out / ("0002" if is_second else "0001")
    if done.is_dir():  # killed between the request and its judgement: it is repeated
        shutil.rmtree(done)
    return carry_out(job, subject, ids=ids, progress=False, force=True)


def judged(options: Options, world: World, scenario: str, outcome: Outcome, cpu: float) -> Row:
    """The outcome beside the model retrained without the records."""
    evidence = outcome.evidence
    assert evidence is not None
    assert outcome.model is not None
    chosen, left_out = world.forget_set(scenario), world.left_out(scenario)
    forget, test = world.splits.train.subset(chosen), world.splits.test
    gone = set(left_out)
    kept = torch.tensor([i for i in range(len(world.splits.train)) if i not in gone])
    classes = torch.unique(world.splits.train.labels[kept])
    retrained = world.ideal(left_out)
    ideal = Outputs.of(retrained, forget, test)
    before = Outputs.of(world.initial, forget, test)
    result = judge(before, Outputs.of(outcome.model, forget, test), ideal, classes)
    retain = world.splits.train.subset(kept.tolist())
    relearned, ideal_later = (
        Outputs.of(after_benign_steps(each, retain, lr=benign_rate(each)), forget, test)
        for each in (outcome.model, retrained)
    )
    row: Row = {
        "records": len(chosen),
        "status": evidence.status,
        "reasons": list(evidence.verdict.reasons),
        "epoch": evidence.stopped.epoch,
        "before": judge(before, before, ideal, classes),
        "after": result,
        "relearned": judge(before, relearned, ideal_later, classes),
        "ideal": judge(before, ideal, ideal, classes),
        "ideal_relearned": judge(before, ideal_later, ideal_later, classes),
        "false": evidence.status == "achieved"
        and (not result["like_the_ideal"] or result["class_broken"]),
        "seconds": None if evidence.seconds is None else evidence.seconds.model_dump(),
        "cpu": cpu,
    }
    if scenario in options["second_ideal"]:
        again = Outputs.of(world.ideal(left_out, again=1), forget, test)
        row["second_ideal"] = judge(before, again, ideal, classes)
    # Steps are clocked in the same process, so that the ratio does not depend on what else the
    # machine does. An epoch passes all retained records through a training step; of methods that
    # read the records, every record and as many retained ones.
    assert evidence.seconds is not None
    reads = make_job(weights="w", out="o", **options["set"])
    passed = len(kept) if reads.trains_again else 2 * len(chosen)
    passed *= evidence.epochs[-1].epoch
    per_example = evidence.seconds.model_dump()["processor"]["steps"] / passed
    row["retraining_cpu"] = per_example * len(kept) * world.recipe.epochs
    row["cost"] = cpu / row["retraining_cpu"]
    return row


def show(rows: list[Row], console: Console) -> None:
    """A line per request, then the figures per world."""
    table = Table(title="requests, judged by models retrained without the records")
    for name in ("world", "set", "n", "verdict", "rUA before", *COLUMNS, "cost", "false"):
        table.add_column(name, justify="left" if name in ("world", "set", "verdict") else "right")
    order = sorted(rows, key=lambda r: (r["world"], r["scenario"], r["seed"], r["request_seed"]))
    for row in order:
        table.add_row(
            f"{row['world']} #{row['seed']}",
            row["scenario"] + (f" /{row['request_seed']}" if row["request_seed"] else ""),
            str(row["records"]),
            row["status"],
            f"{row['before']['rua']:+.1f}",
            *(_number(name, row["after"][name]) for name in COLUMNS),
            f"{100 * row['cost']:.0f} %",
            "FALSE" if row["false"] else "",
        )
    console.print(table)
    for world in sorted({row["world"] for row in rows}):
        for least, title in ((LARGE, f"{LARGE} records or more"), (0, "all")):
            chosen = [r for r in rows if r["world"] == world and r["records"] >= least]
            if chosen:
                figures = {k: round(v, 3) for k, v in summarise(chosen).items()}
                console.print(f"[bold]{world}[/], {title}: {figures}", highlight=False)
    for row in order:
        if "second_ideal" in row:
            other = row["second_ideal"]
            console.print(
                f"{row['world']} #{row['seed']} {row['scenario']}, a second retrained model "
                f"against the first: rUA {other['rua']:+.1f}, RMIA {other['rmia']:.3f}, FID "
                f"{other['fid']:.1f}, KL {other['kl']:.2f}, worst class {other['worst_class']:.1f}",
                highlight=False,
            )


def markdown(rows: list[Row]) -> str:
    """The same as a table for a document: a line per world and forget set, means over models."""
    header = (
        "| model | forget set | records | verdicts | accuracy on them: before, after, retrained |"
    )
    header += " rUA | test accuracy lost | worst class | AUC of loss, entropy: before, after |"
    header += " RMIA: before, after | KL to retrained: before, after | cost |"
    lines = [header, "| --- | --- |" + " ---: |" * (header.count("|") - 3)]
    groups = sorted({(row["world"], row["scenario"]) for row in rows})
    for world, scenario in groups:
        chosen = [r for r in rows if (r["world"], r["scenario"]) == (world, scenario)]

        def mean(part: str, name: str, chosen: list[Row] = chosen) -> float:
            return float(sum(row[part][name] for row in chosen) / len(chosen))

        counts = Counter(row["status"] for row in chosen)
        verdicts = ", ".join(f"{count} {status}" for status, count in counts.most_common())
        accuracies = ", ".join(f"{mean(part, 'ua'):.1f}" for part in ("before", "after", "ideal"))
        aucs = ", ".join(
            f"{mean(part, 'auc_loss'):.3f} {mean(part, 'auc_entropy'):.3f}"
            for part in ("before", "after")
        )
        both = {
            name: ", ".join(f"{mean(part, name):.{digits}f}" for part in ("before", "after"))
            for name, digits in (("rmia", 3), ("kl", 2))
        }
        size = sum(row["records"] for row in chosen) / len(chosen)
        cells = [world, scenario, f"{size:.0f}", verdicts, accuracies]
        cells += [f"{mean('after', 'rua'):+.1f}", f"{mean('after', 'ta_lost'):.1f}"]
        cells += [f"{mean('after', 'worst_class'):.1f}", aucs, both["rmia"], both["kl"]]
        cells += [f"{100 * sum(row['cost'] for row in chosen) / len(chosen):.0f} %"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _number(name: str, value: float) -> str:
    digits = 3 if name.startswith("auc") or name == "rmia" else 2 if name == "kl" else 1
    return f"{value:+.{digits}f}" if name == "rua" else f"{value:.{digits}f}"


def setting(text: str) -> tuple[str, Any]:
    """``name=value`` with a JSON value, or a plain string."""
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


def main() -> None:
    """Run what is missing, print, and write what was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("data", nargs="?", help="digits, cifar10:DATA or svhn:DATA")
    parser.add_argument("--store", type=Path, help="of `expunge bench`")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", default="0,1,2", help="of the models")
    parser.add_argument("--world", default="", help="part of a world's name, such as cifar10-all")
    parser.add_argument("--sets", default="", help="forget sets, separated by commas")
    parser.add_argument("--second-ideal", default="random:0.1", help="sets to retrain twice for")
    parser.add_argument("--request-seeds", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], type=setting, help="name=value")
    parser.add_argument("--label", default="default", help="of these options, in file names")
    parser.add_argument("--workers", type=int, default=cores())
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="only what is there")
    chosen = parser.parse_args()
    options: Options = vars(chosen)
    options["seeds"] = [int(seed) for seed in chosen.seeds.split(",")]
    options["sets"] = tuple(filter(None, chosen.sets.split(",")))
    options["second_ideal"] = tuple(filter(None, chosen.second_ideal.split(",")))
    options["set"] = dict(chosen.set)
    console = Console(width=None if Console().is_terminal else 180)
    if not chosen.show:
        if chosen.data is None or (chosen.data != "digits" and chosen.store is None):
            parser.error("give digits, or data and the --store of their models")
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(chosen.workers, mp_context=spawn) as pool:
            running = [pool.submit(run_request, options, *each) for each in requests(options)]
            for done, finished in enumerate(as_completed(running), start=1):
                row = finished.result()
                console.print(
                    f"{done}/{len(running)} {row['world']} #{row['seed']} {row['scenario']}: "
                    f"{row['status']}, rUA {row['before']['rua']:+.1f} -> "
                    f"{row['after']['rua']:+.1f}, TA lost {row['after']['ta_lost']:.1f}",
                    highlight=False,
                )
    rows = [json.loads(p.read_text("utf-8")) for p in sorted((chosen.out / "rows").glob("*.json"))]
    show(rows, console)
    write_text(chosen.out / "requests.md", markdown(rows))
    record = {"rows": rows, "environment": environment(), "hardware": hardware()}
    write_text(chosen.out / "requests.json", json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
