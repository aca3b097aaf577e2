"""What the stages do: functions that workers import and call."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from expunge import _tensors as tensors
from expunge import dispatch
from expunge._artifact import fit_weights
from expunge._errors import DataError, Diverged
from expunge._files import write_text
from expunge._part_values import rebuild
from expunge._workflows import Forgetting, divide
from expunge.bench._agreement_probe import AgreementProbe, take_histograms
from expunge.data import ImageSet, Splits, load
from expunge.data._splits import thin_out
from expunge.engine import Callback, Procedure, Recipe, Run, train, unlearn
from expunge.evaluation import Predictions, Scores, predict, score, view
from expunge.models import build_model, channel_statistics
from expunge.store import Entry

WEIGHTS, METRICS_FILE, STEPS, HISTOGRAMS = (
    "weights.safetensors",
    "metrics.jsonl",
    "steps.json",
    "agreement.json",
)


def train_initial(context: dispatch.Context) -> None:
    """Train on the whole training part."""
    splits = _load(context)
    _train(context, splits, splits.train)


def train_ideal(context: dispatch.Context) -> None:
    """Train, from scratch and by the same recipe, on what the scenario retains."""
    splits = _load(context)
    config = context.config
    _train(context, splits, divide(splits, config["scenario"], config["scenario_seed"]).retain)


def score_references(context: dispatch.Context) -> None:
    """Score initial and ideal model on a scenario; keep the ideal's word on the forget set."""
    initial, ideal = context.parents
    config = context.config
    parts = _parts(context, initial, config)
    judged = {name: _restore(entry, parts.splits) for name, entry in _named(initial, ideal)}
    said = predict(judged["ideal"], parts.forget)
    rows = []
    for done, (name, model) in enumerate(judged.items()):
        context.progress(done, 2, f"scoring {name}")
        scores = _judge(model, parts, said, attacks=config["attacks"])
        trained = _read_rows(initial if name == "initial" else ideal)[-1]
        times = {k: trained[k] for k in ("seconds", "processor_seconds")}
        rows.append({"model": name, "epoch": 0, **scores.as_dict(per_class=True), **times})
    _write_rows(context.folder, rows)
    arrays = {"logits": said.logits, "labels": said.labels}
    tensors.save(context.folder / "ideal.safetensors", arrays, {})


def unlearn_arm(context: dispatch.Context) -> None:
    """Unlearn, scoring the model at the epochs asked for."""
    initial, reference = context.parents
    config, judging = context.config, reference.config
    parts = _parts(context, initial, judging)
    arrays, _ = tensors.load(reference.path("ideal.safetensors"))
    said = Predictions(arrays["logits"], arrays["labels"])
    procedure: Procedure = rebuild(config["procedure"])
    wanted = frozenset(config["evaluate_at"])
    keep = context.options.get("keep", "last")
    folder = context.folder
    callbacks = [
        _Progress(context),
        _Scorer(parts, said, wanted, attacks=judging["attacks"]),
        AgreementProbe(wanted),
        *([_Keeper(folder, wanted)] if keep == "all" else []),
    ]
    diverged = ""
    try:
        result = unlearn(
            _restore(initial, parts.splits),
            forget=parts.forget,
            retain=parts.retain,
            augment=rebuild(initial.config["augment"]),
            seed=int(config["seed"]),
            device=context.options.get("device", "auto"),
            checkpoint=folder / ".checkpoint",
            callbacks=callbacks,
            progress=False,
            **procedure.arguments(),
        )
    except Diverged as error:
        if error.result is None:
            raise
        result, diverged = error.result, str(error)
    rows: list[dict[str, Any]] = [dict(row) for row in result.history.epochs]
    if histograms := take_histograms(rows):
        write_text(folder / HISTOGRAMS, json.dumps(histograms))
    if diverged:
        rows.append({"epoch": len(rows) + 1, "diverged": diverged})
    _write_rows(folder, rows)
    steps = result.history.steps
    columns = ("product", "cosine", "agreement", "moved", "feasible", "undecided")
    if steps:
        table = {name: [_short(row[name]) for row in steps] for name in columns if name in steps[0]}
        write_text(folder / STEPS, json.dumps(table))
    if keep != "none":
        tensors.save(folder / WEIGHTS, result.model.state_dict(), {})


def _train(context: dispatch.Context, splits: Splits, data: ImageSet) -> None:
    config = context.config
    seed = int(config["seed"])
    mean, std = channel_statistics(data.images)
    net = build_model(
        **config["model"],
        num_classes=data.num_classes,
        in_channels=data.shape[0],
        mean=mean,
        std=std,
        seed=seed,
    )
    result = train(
        net,
        data,
        recipe=Recipe(**config["recipe"]),
        augment=rebuild(config["augment"]),
        seed=seed,
        device=context.options.get("device", "auto"),
        checkpoint=context.folder / ".checkpoint",
        callbacks=[_Progress(context)],
        progress=False,
    )
    rows: list[dict[str, Any]] = [dict(row) for row in result.history.epochs]
    rows[-1]["fingerprint"] = splits.train.fingerprint()
    _write_rows(context.folder, rows)
    tensors.save(context.folder / WEIGHTS, result.model.state_dict(), {})


def _load(context: dispatch.Context) -> Splits:
    data = context.config["data"]
    return _load_as(data, context.options)


def _load_as(data: Mapping[str, Any], options: Mapping[str, Any]) -> Splits:
    splits = load(
        options["data"],
        options.get("root"),
        val_fraction=data["val_fraction"],
        limit=data["limit"],
    )
    wanted = data.get("fingerprint")
    if wanted is not None and splits.train.fingerprint() != wanted:
        raise DataError(f"The data {options['data']} have changed since the run was planned.")
    return splits


def _parts(context: dispatch.Context, initial: Entry, config: Mapping[str, Any]) -> Forgetting:
    splits = _load_as(initial.config["data"], context.options)
    if splits.train.fingerprint() != _read_rows(initial)[-1]["fingerprint"]:
        raise DataError(
            f"The training data {context.options['data']} are not those the initial model was "
            "trained on: their fingerprint differs."
        )
    if config["test_limit"] is not None and config["test_limit"] < len(splits.test):
        few = thin_out(splits.test, config["test_limit"], 0)
        splits = Splits(splits.name, splits.train, splits.val, few, splits.flip)
    return divide(splits, config["scenario"], config["scenario_seed"])


def _restore(entry: Entry, splits: Splits) -> nn.Module:
    model = build_model(
        **entry.config["model"],
        num_classes=splits.train.num_classes,
        in_channels=splits.train.shape[0],
    )
    path = entry.path(WEIGHTS)
    fit_weights(model, tensors.load(path)[0], str(path))
    return model.eval()


def _judge(model: nn.Module, parts: Forgetting, ideal: Predictions, *, attacks: bool) -> Scores:
    views = view(model, forget=parts.forget, retain=parts.retain, test=parts.splits.test)
    return score(views, ideal, attacks=attacks)


class _Scorer(Callback):
    """Adds the scores to the row of each epoch asked for."""

    def __init__(
        self, parts: Forgetting, ideal: Predictions, epochs: frozenset[int], *, attacks: bool
    ) -> None:
        self.parts, self.ideal, self.epochs, self.attacks = parts, ideal, epochs, attacks

    def on_epoch(self, run: Run) -> None:
        if run.epoch in self.epochs:
            scores = _judge(run.model, self.parts, self.ideal, attacks=self.attacks)
            run.record(**scores.as_dict(per_class=True))


class _Keeper(Callback):
    """Keeps the weights of each epoch asked for."""

    def __init__(self, folder: Path, epochs: frozenset[int]) -> None:
        self.folder, self.epochs = folder, epochs

    def on_epoch(self, run: Run) -> None:
        if run.epoch in self.epochs:
            path = self.folder / f"weights-{run.epoch}.safetensors"
            tensors.save(path, run.model.state_dict(), {})


class _Progress(Callback):
    def __init__(self, context: dispatch.Context) -> None:
        self.context = context

    def on_step(self, run: Run) -> None:
        self.context.progress(run.step, run.epochs * run.steps_per_epoch, "")


def _named(initial: Entry, ideal: Entry) -> Iterable[tuple[str, Entry]]:
    return (("initial", initial), ("ideal", ideal))


def _read_rows(entry: Entry) -> list[dict[str, Any]]:
    text = entry.path(METRICS_FILE).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def _write_rows(folder: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """One JSON object a line; what does not exist (NaN) is left out."""
    lines = []
    for row in rows:
        kept = {k: v for k, v in row.items() if not (isinstance(v, float) and math.isnan(v))}
        lines.append(json.dumps(kept) + "\n")
    write_text(folder / METRICS_FILE, "".join(lines))


def _short(value: float) -> float | None:
    return None if math.isnan(value) else float(f"{value:.5g}")
