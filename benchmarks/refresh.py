"""Refresh against retraining: what is forgotten, what comes back, and what it costs.

    python benchmarks/refresh.py DATA --store STORE [--kinds vgg,cnn] [--seeds 0,1,2] [--grid NAME]
    python benchmarks/refresh.py --show

Each row is one model that was made to forget the same records, judged by a model retrained without
them: as delivered, and after 50 steps of Adam on retained data. ``second`` is another retrained
model: the floor. U-LiRA compares with models that never saw the records and went through the same
procedure (``"from": "ideal"`` and ``"second"`` in the JSON of a setting).

Rows go to ``results/refresh/rows.jsonl``; what is there is not computed again. DATA has the files
of CIFAR-10 and SVHN; STORE keeps trained models. Single thread.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import mannwhitneyu
from torch import nn
from torch.nn import functional as F

import expunge
from expunge.engine._predict import predict
from expunge.evaluation.attacks._lira import scaled_confidence
from expunge.methods import Refresh
from refresh_worlds import KINDS, World
from request_judge import matched_auc

ROWS = Path("results/refresh/rows.jsonl")
BENIGN_STEPS = 50
POINTS = ("ua", "rua", "ta_diff", "worst_class")
"""Columns in points; the others have three decimals."""
Row = dict[str, Any]
Setting = dict[str, Any]
Array = np.ndarray[Any, Any]


def grid(name: str) -> list[Setting]:
    """The settings of a named grid."""
    if name == "frontier":
        return [
            {"keep": keep, "epochs": epochs, "rate": rate}
            for epochs in (5, 8)
            for rate in (1.0, 2.0)
            for keep in (0.4, 0.5, 0.3, 0.6)
        ]
    if name == "keep":
        return [{"keep": keep, "epochs": 5, "rate": 1.0} for keep in KEEPS]
    if name == "auto":
        return [{"keep": None, "epochs": 5, "rate": rate} for rate in (1.0, 2.0)]
    if name == "others":
        return [{"method": method, "epochs": 5, "rate": 1.0} for method in ("FT", "MSG", "CT")]
    chosen: list[Setting] = json.loads(name)
    return chosen


KEEPS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)


def forget(world: World, setting: Setting) -> tuple[nn.Module, float, Row]:
    """The model after a setting, the processor seconds it took, and what was chosen."""
    initial, _ = world.trained(setting.get("from", "initial"))
    to_forget, retain, _ = world.parts
    spec = world.spec
    recipe = spec.recipe.shortened(setting["epochs"] / spec.recipe.epochs, setting["rate"])
    options: dict[str, Any] = {}
    method: Any = setting.get("method")
    if method is None:
        method = Refresh(keep=setting["keep"], budget=1.0, rate=1.0)
        options["recipe"] = recipe
    else:  # their epochs are passes over the forget set
        passes = len(retain) / len(to_forget)
        options |= {"optimizer": recipe.optimizer, "lr": recipe.lr, "schedule": "one-cycle"}
        options |= {"epochs": round(passes * recipe.epochs), "batch_size": recipe.batch_size}
    started = time.process_time()
    result = expunge.unlearn(
        initial,
        forget=to_forget,
        retain=retain,
        method=method,
        addon="none",
        augment=spec.augment,
        seed=world.seed,
        device="cpu",
        progress=False,
        **options,
    )
    seconds = time.process_time() - started
    chosen = {k: v for k, v in result.history.epochs[-1].items() if k == "keep"}
    return result.model, seconds, chosen


def continued(world: World, model: nn.Module) -> nn.Module:
    """The model after benign steps: Adam on retained data, as somebody might fine-tune it."""
    model = copy.deepcopy(model).train()
    x, y = world.parts[1].tensors
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(world.seed)
    for _ in range(BENIGN_STEPS):
        chosen = torch.randperm(len(x), generator=generator)[:128]
        optimizer.zero_grad()
        F.cross_entropy(model(x[chosen]), y[chosen]).backward()
        optimizer.step()
    return model.eval()


class Judge:
    """Compares models of a world with its retrained one."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ideal = self._outputs(world.trained("ideal")[0])
        self.ideal_after = self._outputs(continued(world, world.trained("ideal")[0]))

    def _outputs(self, model: nn.Module) -> tuple[Any, Any]:
        forget, _, test = self.world.parts
        return predict(model, forget), predict(model, test)

    def scores(self, model: nn.Module) -> Row:
        """As delivered; with ``after_`` after the benign steps; in points, but for AUC and KL."""
        row: Row = {}
        made = ((model, self.ideal, ""), (continued(self.world, model), self.ideal_after, "after_"))
        for each, ideal, prefix in made:
            forget, test = self._outputs(each)
            right = {"ua": forget, "ta": test}
            row |= {prefix + k: 100 * float(v.right.mean()) for k, v in right.items()}
            row[prefix + "rua"] = row[prefix + "ua"] - 100 * float(ideal[0].right.mean())
            row[prefix + "ta_diff"] = row[prefix + "ta"] - 100 * float(ideal[1].right.mean())
            row[prefix + "auc"] = _auc(forget, test)
            row[prefix + "auc_diff"] = row[prefix + "auc"] - _auc(*ideal)
            row[prefix + "kl"] = _kl(ideal[0], forget)
            if not prefix:
                row["worst_class"] = _worst_class(test, ideal[1])
                row["confidence"] = np.round(scaled_confidence(*forget), 3).tolist()
        return row


def _auc(forget: Any, test: Any) -> float:
    losses = [-F.cross_entropy(p.logits, p.labels, reduction="none") for p in (forget, test)]
    return matched_auc(*losses, forget.labels, test.labels)


def _kl(ideal: Any, given: Any) -> float:
    first, second = (F.log_softmax(p.logits.double(), dim=1) for p in (ideal, given))
    return float(F.kl_div(second, first, log_target=True, reduction="batchmean"))


def _worst_class(test: Any, ideal: Any) -> float:
    """The most test accuracy that a class has less than in the retrained model."""
    lost = [
        float((ideal.right - test.right)[test.labels == c].mean()) for c in test.labels.unique()
    ]
    return 100 * max(lost)


def rows_of(world: World, settings: list[Setting], known: set[str]) -> Iterator[Row]:
    """The rows of a world that are not known."""
    _, retraining = world.trained("ideal")
    judge: Judge | None = None
    for setting in settings:
        head = {"kind": world.kind, "seed": world.seed, "setting": setting}
        if json.dumps(head, sort_keys=True) in known:
            continue
        judge = judge or Judge(world)
        if "role" in setting:
            model, seconds = world.trained(setting["role"])
            chosen: Row = {}
        else:
            model, seconds, chosen = forget(world, setting)
        row = {**head, **chosen, "seconds": seconds, "cost": seconds / retraining}
        yield row | judge.scores(model)


def u_lira(unlearned: Array, retrained: Array) -> float:
    """AUC of U-LiRA on confidences [models, records], every model judged by the others.

    One Gaussian per record and world, with a variance that all records share.
    """
    worlds = (unlearned, retrained)
    scores: tuple[list[Array], list[Array]] = ([], [])
    for own, models in enumerate(worlds):
        for target in range(len(models)):
            others = [np.delete(w, target, axis=0) if k == own else w for k, w in enumerate(worlds)]
            likelihoods = []
            for group in others:
                mean = group.mean(axis=0)
                count = len(group)
                spread = np.square(group - mean).sum() / (mean.size * (count - 1))
                spread *= 1 + 1 / count  # the mean is an estimate, too
                likelihoods.append(-np.square(models[target] - mean) / spread - np.log(spread))
            scores[own].append(likelihoods[0] - likelihoods[1])
    members, others = (np.concatenate(each) for each in scores)
    return float(mannwhitneyu(members, others).statistic / (len(members) * len(others)))


def add_u_lira(groups: dict[tuple[str, str], list[Row]]) -> None:
    """Write U-LiRA into the first row of settings that clean models went through as well."""
    for (kind, name), own in groups.items():
        clean = [groups.get((kind, f"{name} from={role}"), []) for role in ("ideal", "second")]
        given = [row["confidence"] for row in own]
        known = [row["confidence"] for rows in clean for row in rows]
        if len(given) > 2 and len(known) > 2:
            own[0]["u_lira"] = u_lira(np.array(given), np.array(known))


def show(rows: list[Row]) -> None:
    """A line per kind and setting: means over seeds, and their standard deviations."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        setting = row["setting"]
        name = setting.get("role") or " ".join(f"{k}={v}" for k, v in setting.items())
        groups[row["kind"], name].append(row)
    add_u_lira(groups)
    columns = ("keep", "ua", "rua", "ta_diff", "auc_diff", "kl", "worst_class", "cost")
    columns += ("u_lira", "after_rua", "after_ta_diff", "after_auc_diff", "after_kl")
    print("| kind | setting | n | " + " | ".join(columns) + " |")
    print("|" + " --- |" * (len(columns) + 3))
    for (kind, name), own in sorted(groups.items()):
        cells = []
        for column in columns:
            values = [row[column] for row in own if row.get(column) is not None]
            digits = 1 if column.removeprefix("after_") in POINTS else 3
            text = f"{np.mean(values):+.{digits}f}" if values else ""
            if len(values) > 1:
                text += f" ± {np.std(values, ddof=1):.{digits}f}"
            cells.append(text)
        print(f"| {kind} | {name} | {len(own)} | " + " | ".join(cells) + " |")


def main() -> None:
    """Compute the rows that are missing, and show all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="?")
    parser.add_argument("--store", type=Path)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--grid", default="auto", help="frontier, keep, auto, others, or JSON")
    parser.add_argument("--roles", default="initial,ideal,second", help="models to judge as well")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = [json.loads(line) for line in ROWS.read_text().splitlines()] if ROWS.exists() else []
    if options.data is not None:
        ROWS.parent.mkdir(parents=True, exist_ok=True)
        names = ("kind", "seed", "setting")
        roles: list[Setting] = [{"role": role} for role in options.roles.split(",")]
        known = {json.dumps({n: row[n] for n in names}, sort_keys=True) for row in rows}
        for kind in options.kinds.split(","):
            for seed in map(int, options.seeds.split(",")):
                world = World(kind, seed, options.store, options.data)
                for row in rows_of(world, roles + grid(options.grid), known):
                    with ROWS.open("a") as file:
                        file.write(json.dumps(row) + "\n")
                    rows.append(row)
                    brief = ("ua", "rua", "ta_diff", "auc", "kl", "cost", "after_rua", "after_auc")
                    print(
                        kind,
                        seed,
                        row["setting"],
                        row.get("keep"),
                        {k: round(row[k], 3) for k in brief},
                        flush=True,
                    )
    if options.show:
        show(rows)


if __name__ == "__main__":
    main()
