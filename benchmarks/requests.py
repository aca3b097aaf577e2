"""Unlearning judged by retrained models: methods side by side, and whole deletion requests.

    python benchmarks/requests.py all DATA --store STORE
    python benchmarks/requests.py methods DATA --store STORE [--kinds vgg] [--seeds 0,1,2,3,4,5,6,7]
    python benchmarks/requests.py frontier DATA --store STORE [--kinds vgg,cnn] [--seeds 0,1]
    python benchmarks/requests.py requests DATA --store STORE [--kinds vgg,cnn] [--sets random:0.1]

``methods``: a tenth of the training data, the same records for all seeds, is forgotten by every
method. Models that never saw the records go through it as well, for U-LiRA. ``frontier``: the same
for settings of ``refresh``. ``requests``: what
``expunge forget`` does, with its defaults, or with ``--exact``. Both are judged by models that were
retrained without the records: as delivered, and after 50 benign steps of Adam on retained data.

Rows go to ``results/requests/``, a JSON line each; what is there is not computed again, except rows
of ``--again NAME`` that another version of the code made. ``python docs/_site/request_tables.py``
writes them into the documents. DATA has the files of CIFAR-10 and SVHN; STORE keeps trained models.
Times are processor times; run with one thread (``OMP_NUM_THREADS=1``).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

import expunge
from expunge._files import write_text
from expunge.evaluation._benign_steps import after_benign_steps, benign_rate
from expunge.methods import METHODS
from expunge.request._job import make_job
from expunge.request._run import Outcome, carry_out
from expunge.request.loading._load import model_and_data_of
from request_judge import Outputs, Row, beyond_margins, compare
from request_worlds import KINDS, AugmentingModel, World, part

RESULTS = Path("results/requests")
FORGOTTEN = "random:0.1"
"""What all methods forget."""
METHOD_TEST = 4000
"""Test examples that methods are judged on."""
FIRST_ORDER = {"epochs": 20, "batch_size": 64, "lr": 8e-4}
"""As in the paper, about 160 steps of Adam at 1e-4 over the width of the network."""
MOMENTS = ("delivered", "relearned")
Setting = dict[str, Any]
ROLES: dict[str, Setting] = {"initial": {}, "retrained": {}}
"""Models that are judged as they are."""
SETTINGS: dict[str, Setting] = ROLES | {
    "FT": {"method": "FT", **FIRST_ORDER},
    "MSG": {"method": "MSG", **FIRST_ORDER},
    "CT": {"method": "CT", **FIRST_ORDER},
    "SRL": {"method": "SRL", **FIRST_ORDER},
    "SRL-FOCUS": {"method": "SRL", "addon": "focus", **FIRST_ORDER},
    "NGPlus-FOCUS": {"method": "NGPlus", "addon": "focus", **FIRST_ORDER},
    "SCRUB": {"method": "SCRUB", **FIRST_ORDER},
    "FT-recipe": {"method": "FT", "budget": 0.2},
    "MSG-recipe": {"method": "MSG", "budget": 0.2},
    "CT-recipe": {"method": "CT", "budget": 0.2},
    "MATCH": {"method": "MATCH", "epochs": 40, "lr": 7e-4},
    "refresh": {"method": "refresh"},
}
"""Methods by name. ``budget`` trains as ``refresh`` does: by that share of the recipe's epochs."""
FRONTIER: list[Setting] = [
    *({"left": left, "rate": rate} for left in (0.3, 0.5) for rate in (0.5, 1.0, 2.0, 4.0)),
    *({"left": 0.2, "rate": rate} for rate in (2.0, 4.0)),
    {"left": 0.3, "rate": 8.0},
    *({"left": 0.7, "rate": rate} for rate in (1.0, 1.5, 2.0)),
    {"left": 0.5, "rate": 1.0, "budget": 0.32},
]
"""Options of ``refresh``: how much it keeps, its peak rate over the recipe's, its epochs."""
PLAN: list[tuple[str, dict[str, Any]]] = [
    ("methods", {}),
    ("methods", {"kinds": ["mlp"], "names": [name for name in SETTINGS if "CT" not in name]}),
    ("methods", {"kinds": list(KINDS), "seeds": ["0", "1"], "names": ["retrained"]}),
    ("frontier", {"kinds": ["vgg", "cnn", "mlp", "text"], "seeds": ["0", "1", "2", "3"]}),
    ("requests", {"kinds": list(KINDS), "seeds": ["0", "1", "2"]}),
    (
        "requests",
        {"kinds": ["vgg", "mlp", "rows"], "seeds": ["0", "1"], "sets": [FORGOTTEN], "exact": True},
    ),
]
"""What ``all`` fills, with the options that are not the defaults."""


def forget(world: World, model: nn.Module, setting: Setting) -> tuple[nn.Module, float, Row]:
    """The model after a setting, the processor seconds it took, and what the method chose."""
    chosen = world.forget_set(FORGOTTEN)
    to_forget, retain = part(world.data.train, chosen), world.retained(chosen)
    options = {"addon": "none", "augment": world.spec.augment, **setting}
    if "budget" in options:  # an epoch of these methods is a pass over the forget set
        recipe = world.spec.recipe.shortened(options.pop("budget"))
        options["optimizer"] = recipe.optimizer
        options["method"] = expunge.Procedure.preferred(
            method=setting["method"],
            epochs=round(len(retain) / len(to_forget) * recipe.epochs),
            batch_size=recipe.batch_size,
            lr=recipe.lr,
            schedule="one-cycle",
        )
    method = METHODS[setting["method"].partition("(")[0]]
    if not method.reads_forget:
        options["optimizer"] = world.spec.recipe
    if method.needs_unseen:
        options["unseen"] = world.data.val
    started = time.process_time()
    result = expunge.unlearn(
        model,
        forget=to_forget,
        retain=retain,
        execution=expunge.Execution(seed=world.seed, device="cpu", progress=False),
        **options,
    )
    seconds = time.process_time() - started
    found = {k: v for k, v in result.history.epochs[-1].items() if k == "keep"}
    return result.model, seconds, found


def outputs_of(world: World, model: nn.Module) -> tuple[Outputs, Outputs]:
    """As delivered, and after benign steps, of the set that all methods forget."""
    chosen = world.forget_set(FORGOTTEN)
    test = part(world.data.test, range(min(METHOD_TEST, len(world.data.test))))
    to_forget, retain = part(world.data.train, chosen), world.retained(chosen)
    later = after_benign_steps(model, retain, lr=1e-3, seed=world.seed)
    return Outputs.of(model, to_forget, test), Outputs.of(later, to_forget, test)


@lru_cache(maxsize=2)
def retrained_outputs(world: World) -> tuple[Outputs, Outputs]:
    """Those of the retrained model."""
    return outputs_of(world, world.retrained(world.forget_set(FORGOTTEN))[0])


def method_row(world: World, name: str, setting: Setting, start: str) -> Row:
    """One model that went through a method, from the ``initial`` or the ``retrained`` one.

    The retrained model is compared with that of another seed: how much two of them differ.
    """
    model, retraining = world.retrained(world.forget_set(FORGOTTEN))
    seconds, found, ideal = retraining, {}, world
    if name == "retrained":
        ideal = replace(world, seed=world.seed ^ 1)
    elif start == "initial":
        model, seconds = world.initial()
    if setting:
        model, seconds, found = forget(world, model, setting)
    row: Row = {"seconds": round(seconds, 2), "cost": round(seconds / retraining, 4), **found}
    classes = torch.unique(world.data.train.tensors[1])
    pairs = zip(outputs_of(world, model), retrained_outputs(ideal), strict=True)
    for moment, (given, retrained) in zip(MOMENTS, pairs, strict=True):
        row[moment] = {"confidence": given.confidence}
        if start == "initial":
            row[moment] |= compare(given, retrained, classes)
    return row


def method_rows(
    world: World, options: argparse.Namespace
) -> Iterator[tuple[Row, Callable[[], Row]]]:
    """What identifies each row of a world, and how to compute it."""
    settings: dict[str, Setting] = SETTINGS | json.loads(options.settings)
    for name in options.names or settings:
        for start in ("initial", "retrained") if settings[name] else ("initial",):
            head = {"kind": world.kind, "seed": world.seed, "name": name, "start": start}
            if settings[name]:
                head["setting"] = settings[name]
            yield head, partial(method_row, world, name, settings[name], start)


def frontier_rows(
    world: World, options: argparse.Namespace
) -> Iterator[tuple[Row, Callable[[], Row]]]:
    """The same of the settings of ``refresh``, from the initial model alone."""
    for chosen in FRONTIER:
        spec = f"refresh({','.join(f'{name}={value}' for name, value in chosen.items())})"
        head = {"kind": world.kind, "seed": world.seed, "name": spec}
        yield head, partial(method_row, world, spec, {"method": spec}, "initial")


def request_rows(
    world: World, options: argparse.Namespace
) -> Iterator[tuple[Row, Callable[[], Row]]]:
    """The same of the requests to a world's model."""
    name = "exact" if options.exact else "refresh"
    for scenario in options.sets or world.spec.sets:
        head = {"kind": world.kind, "seed": world.seed, "name": name, "set": scenario}
        yield head, partial(request_row, world, scenario, options.exact)


def request_row(world: World, scenario: str, exact: bool) -> Row:
    """One request, or a sequence of them, judged."""
    outcome = carry_out_request(world, scenario, exact)
    evidence = outcome.evidence
    assert evidence is not None
    assert evidence.seconds is not None
    assert outcome.model is not None
    left_out = world.left_out(scenario)
    chosen, retain = part(world.data.train, world.forgotten(scenario)), world.retained(left_out)
    classes = torch.unique(retain.tensors[1])
    retrained, retraining = world.retrained(left_out)

    def outputs(model: nn.Module) -> tuple[Outputs, Outputs]:
        later = after_benign_steps(model, retain, lr=benign_rate(model))
        return tuple(Outputs.of(m, chosen, world.data.test) for m in (model, later))  # type: ignore[return-value]

    ideal = outputs(retrained)
    row: Row = {
        "records": len(chosen),
        "status": evidence.status,
        "open": sorted({f"{c.name}, {c.moment}" for c in evidence.checks if c.result != "inside"}),
        "bound": max(c.right_at_most for c in evidence.checks if c.is_attack),
        "before": compare(
            Outputs.of(world.initial()[0], chosen, world.data.test), ideal[0], classes
        ),
        "keep": evidence.epochs[-1].keep if evidence.epochs else None,
        "seconds": evidence.seconds.model_dump()["processor"],
        "cost": round(evidence.seconds.model_dump()["processor"]["total"] / retraining, 4),
        "retraining_seconds": retraining,
    }
    for moment, given, retrained_now in zip(MOMENTS, outputs(outcome.model), ideal, strict=True):
        row[moment] = compare(given, retrained_now, classes)
    row["beyond"] = {moment: beyond_margins(row[moment]) for moment in MOMENTS}
    row["false"] = evidence.status == "achieved" and any(row["beyond"].values())
    return row


def carry_out_request(world: World, scenario: str, exact: bool) -> Outcome:
    """What ``expunge forget`` does, on a model in memory; of a sequence, all of its requests."""
    name, *sizes = scenario.split(":")
    label = "sequence" if name == "sequence" else scenario.replace(":", "_")
    out = (
        world.store
        / "requests"
        / f"{world.kind}-{world.seed}-{label}-{'exact' if exact else 'refresh'}"
    )
    os.environ["EXPUNGE_CACHE"] = str(out / "cache")  # not the user's attempts
    last = int(sizes[0]) if name == "sequence" else 1
    done = len(list(out.glob("0*")))
    if done >= last:  # killed between the request and its judgement: it is repeated
        shutil.rmtree(out)
        done = 0
    job = make_job(
        weights=Path("in memory"),
        out=out,
        seed=world.seed,
        recipe=world.spec.recipe.as_dict(),
        exact=exact,
        id_key=world.store / "id.key",
    )
    model = world.initial()[0]
    if world.spec.augment is not None:
        model = AugmentingModel(model, world.spec.augment)
    for number in range(done + 1, last + 1):
        ids = world.forget_set(f"sequence:{number}" if name == "sequence" else scenario)
        loaded = model_and_data_of(model, tuple(world.data), job)
        outcome = carry_out(job, loaded, ids=ids, progress=False, force=True)
    return outcome


def code_version() -> str:
    """The commit that the package comes from, or the name of the folder that holds a copy of it."""
    folder = Path(expunge.__file__).parents[1]
    told = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=folder, capture_output=True, text=True
    )
    return told.stdout.strip() or folder.name


def fill(what: str, options: argparse.Namespace) -> None:
    """Compute the rows that are missing."""
    path = RESULTS / f"{what}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    makers = {"methods": method_rows, "frontier": frontier_rows, "requests": request_rows}
    code, make = code_version(), makers[what]
    for seed in map(int, options.seeds):
        for kind in options.kinds:
            for head, compute in make(World(kind, seed, options.store, options.data), options):
                rows = [json.loads(line) for line in path.read_text().splitlines()]
                old = [row for row in rows if head.items() <= row.items()]
                stale = [r for r in old if head["name"] in options.again and r["code"] != code]
                if old and not stale:
                    continue
                rows = [row for row in rows if row not in stale]
                rows.append(head | {"code": code} | compute())
                write_text(path, "".join(json.dumps(row) + "\n" for row in rows))
                print(time.strftime("%H:%M:%S"), json.dumps(_brief(rows[-1])), flush=True)


def main() -> None:
    """Fill the rows that the options name."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", choices=("methods", "frontier", "requests", "all"))
    parser.add_argument("data")
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--kinds", type=_names, default=["vgg"], help=", ".join(KINDS))
    parser.add_argument("--seeds", type=_names, default=[str(seed) for seed in range(8)])
    parser.add_argument("--names", type=_names, help="of methods")
    parser.add_argument("--settings", default="{}", help="more methods: JSON, settings by name")
    parser.add_argument("--sets", type=_names, help="of requests")
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--again", type=_names, default=[], help="names to compute again")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.optim.Adam([nn.Parameter(torch.zeros(1))])  # its imports are not part of the first row
    options.store.mkdir(parents=True, exist_ok=True)
    for what, changes in PLAN if options.what == "all" else [(options.what, {})]:
        fill(what, argparse.Namespace(**(vars(options) | changes)))


def _names(text: str) -> list[str]:
    return list(filter(None, text.split(",")))


def _brief(row: Row) -> Row:
    """A row without its lists."""
    kept: Row = {}
    for name, value in row.items():
        if isinstance(value, dict):
            value = {k: v for k, v in value.items() if isinstance(v, float | int)}
        kept[name] = value
    return kept


if __name__ == "__main__":
    main()
