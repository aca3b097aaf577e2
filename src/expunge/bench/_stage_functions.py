"""The work of each stage of a protocol: functions that workers import and call."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from expunge import _tensors as tensors
from expunge import dispatch
from expunge._errors import DataError, Diverged
from expunge._files import write_text
from expunge._serialisation import rebuild
from expunge.data import Division, Examples, Splits, divide, load
from expunge.data._splits import thin_out
from expunge.engine import Callback, Execution, Procedure, Recipe, Result, Run, unlearn
from expunge.engine._model_from_config import (
    restore_from_config,
    sizes_for,
    train_from_config,
    untrained_for,
)
from expunge.engine._progress import StepReporter
from expunge.evaluation import Predictions, Views, predict
from expunge.evaluation._benign_steps import after_benign_steps
from expunge.evaluation._scorer import EpochScores, Scorer
from expunge.models._modes import kept_modes
from expunge.store import Entry
from expunge.update._agreement import signed_agreement
from expunge.update._gradients import loss_gradient

WEIGHTS, METRICS_FILE, STEPS, HISTOGRAMS = (
    "weights.safetensors",
    "metrics.jsonl",
    "steps.json",
    "agreement.json",
)
IDEAL = "ideal.safetensors"
"""What the ideal models say, kept with the reference."""
REFERENCES = ("initial", "ideal", "ideal-2")
UNTRAINED_SEED = 2000
HISTOGRAM_BINS = 50
HISTOGRAM_PREFIX = "f_bin_"


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
    """Score initial and ideal models on a scenario; keep the ideal outputs that runs need."""
    initial = context.parents[0]
    config = context.config
    parts = _parts(context, initial, config)
    entries = dict(zip(REFERENCES, context.parents, strict=False))
    models = {name: _restore(entry, parts.splits) for name, entry in entries.items()}
    outputs = _ideal_outputs(models, parts, initial, config)
    tensors.save(context.folder / IDEAL, outputs, {})
    rows = []
    for done, (name, model) in enumerate(models.items()):
        context.progress(done, len(models), f"scoring {name}")
        scores = _scorer(parts, outputs, config, name).score_by_name(model, per_class=True)
        rows.append(reference_row(name, scores, entries[name]))
    write_rows(context.folder, rows)


def reference_row(name: str, scores: Mapping[str, float], trained: Entry) -> dict[str, Any]:
    """The row of a reference model, with the time of its training."""
    last = read_rows(trained)[-1]
    times = {k: last[k] for k in ("seconds", "processor_seconds")}
    return {"model": name, "epoch": 0, **scores, **times}


def unlearn_arm(context: dispatch.Context) -> None:
    """Unlearn, scoring the model at the epochs of ``evaluate_at``."""
    # What is compared with what.
    initial, reference = context.parents
    config, judging = context.config, reference.config
    parts = _parts(context, initial, judging)
    scorer = _scorer(parts, tensors.load(reference.path(IDEAL))[0], judging)
    epochs = frozenset(config["evaluate_at"])
    full = config.get("full_scores", "every")
    run_arm(
        context,
        _restore(initial, parts.splits),
        [EpochScores(scorer, epochs, per_class=True, full=full), AgreementHistograms(epochs)],
        forget=parts.forget,
        retain=parts.retain,
        unseen=parts.splits.val,
        augment=rebuild(initial.config["augment"]),
    )


def run_arm(
    context: dispatch.Context, model: nn.Module, watchers: Sequence[Callback], **arguments: Any
) -> None:
    """Unlearn from ``model`` as the stage says, and write what the ``watchers`` recorded.

    ``arguments`` are those of :func:`expunge.unlearn` that the stage's procedure does not have.
    """
    config, folder = context.config, context.folder
    procedure: Procedure = rebuild(config["procedure"])
    epochs = frozenset(config["evaluate_at"])
    keep = context.options.get("keep", "last")

    # Unlearn; a run that diverges keeps what it has.
    callbacks = [
        *watchers,
        *([_WeightsKeeper(folder, epochs)] if keep == "all" else []),
    ]
    diverged = ""
    try:
        execution = execution_of(context, *callbacks)
        result = unlearn(model, method=procedure, execution=execution, **arguments)
    except Diverged as error:
        if error.result is None:
            raise
        result, diverged = error.result, str(error)

    # Metrics per epoch, diagnostics per step, weights.
    rows: list[dict[str, Any]] = [dict(row) for row in result.history.epochs]
    if histograms := take_histograms(rows):
        write_text(folder / HISTOGRAMS, json.dumps(histograms))
    if diverged:
        rows.append({"epoch": len(rows) + 1, "diverged": diverged})
    write_rows(folder, rows)
    steps = result.history.steps
    columns = ("product", "cosine", "agreement", "moved", "feasible", "undecided")
    if steps:
        table = {name: [_short(row[name]) for row in steps] for name in columns if name in steps[0]}
        write_text(folder / STEPS, json.dumps(table))
    if keep != "none":
        tensors.save(folder / WEIGHTS, result.model.state_dict(), {})


def _train(context: dispatch.Context, splits: Splits, data: Examples) -> None:
    config = context.config
    result = train_from_config(
        config["model"] | sizes_for(splits),
        data,
        recipe=Recipe(**config["recipe"]),
        augment=rebuild(config["augment"]),
        execution=execution_of(context),
    )
    write_trained(context, result, splits.train.fingerprint())


def execution_of(context: dispatch.Context, *callbacks: Callback) -> Execution:
    """How the steps of a stage are run: from its seed and checkpoint, reporting its progress."""
    return Execution(
        seed=int(context.config["seed"]),
        device=context.options.get("device", "auto"),
        checkpoint=context.folder / ".checkpoint",
        callbacks=[StepReporter(context.progress), *callbacks],
        progress=False,
    )


def write_trained(context: dispatch.Context, result: Result, fingerprint: str) -> None:
    """Write the history and the weights of a trained model; the last row names its data."""
    rows: list[dict[str, Any]] = [dict(row) for row in result.history.epochs]
    rows[-1]["fingerprint"] = fingerprint
    write_rows(context.folder, rows)
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
    fingerprint = data.get("fingerprint")
    if fingerprint is not None and splits.train.fingerprint() != fingerprint:
        raise DataError(f"The data {options['data']} have changed since the run was planned.")
    return splits


def _parts(context: dispatch.Context, initial: Entry, config: Mapping[str, Any]) -> Division:
    splits = _load_as(initial.config["data"], context.options)
    if splits.train.fingerprint() != read_rows(initial)[-1]["fingerprint"]:
        raise DataError(
            f"The training data {context.options['data']} are not those the initial model was "
            "trained on: their fingerprint differs."
        )
    if config["test_limit"] is not None and config["test_limit"] < len(splits.test):
        few = thin_out(splits.test, config["test_limit"], 0)
        splits = Splits(splits.name, splits.train, splits.val, few, splits.flip)
    return divide(splits, config["scenario"], config["scenario_seed"])


def _restore(entry: Entry, splits: Splits) -> nn.Module:
    return restore_from_config(entry.config["model"] | sizes_for(splits), entry.path(WEIGHTS))


class _WeightsKeeper(Callback):
    """Keeps the weights of each epoch of ``epochs``."""

    def __init__(self, folder: Path, epochs: frozenset[int]) -> None:
        self.folder, self.epochs = folder, epochs

    def on_epoch(self, run: Run) -> None:
        if run.epoch in self.epochs:
            path = self.folder / f"weights-{run.epoch}.safetensors"
            tensors.save(path, run.model.state_dict(), {})


class AgreementHistograms(Callback):
    """A histogram of f (18) over all parameters after each epoch of ``epochs``.

    It is taken for one pair of batches: what the add-on would see at its next step. The run is
    left as it was. The share of each bin goes into the epoch's row, as ``f_bin_00`` and so on, so
    that a killed run does not lose it; :func:`take_histograms` removes them from the rows again.
    """

    def __init__(self, epochs: frozenset[int], bins: int = HISTOGRAM_BINS) -> None:
        self.epochs, self.bins = epochs, bins

    def on_epoch(self, run: Run) -> None:
        moments = run.update.addon.statistics
        if run.epoch not in self.epochs or moments is None or moments.from_parts:
            return
        if not run.method.constrained or not run.update.state.moments_u:
            return
        counts = torch.zeros(self.bins)
        for f in agreement_of(run):
            counts += torch.histc(f.float().cpu(), bins=self.bins, min=0.0, max=1.0)
        shares = (counts / counts.sum()).tolist()
        run.record(**{f"{HISTOGRAM_PREFIX}{k:02d}": share for k, share in enumerate(shares)})


def take_histograms(rows: list[dict[str, Any]]) -> dict[str, list[float]]:
    """Remove the histograms from ``rows``; they are returned by epoch."""
    histograms = {}
    for row in rows:
        names = sorted(name for name in row if name.startswith(HISTOGRAM_PREFIX))
        if names:
            histograms[str(row["epoch"])] = [round(row.pop(name), 6) for name in names]
    return histograms


def agreement_of(run: Run) -> list[Tensor]:
    """f of every parameter for the first pair of batches, as the run's next step would see it."""
    problem, update = run.problem, run.update
    forget, retain = next(problem.pairs())
    buffers = [(buffer, buffer.clone()) for buffer in run.model.buffers()]
    random: Any = problem.generator.get_state()
    try:
        with kept_modes(run.model), torch.enable_grad():
            run.model.train()
            params = problem.parameters
            first = loss_gradient(run.method.objective(problem, forget, retain), params)
            second = loss_gradient(run.method.constraint(problem, forget, retain), params)
    finally:
        problem.generator.set_state(random)
        with torch.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)
    moments, state = update.addon.statistics, update.state
    assert moments is not None
    keep, add, scale = moments.coefficients(state.step + 1, 1)
    agreement = []
    pairs = zip(first.gradients, second.gradients, state.moments_u, state.moments_c, strict=True)
    for u, c, v_u, v_c in pairs:
        if u is None or c is None:
            continue
        new_u, new_c = (keep * v + add * g * g for v, g in ((v_u, u), (v_c, c)))
        sure = signed_agreement(u, c, new_u, new_c, update.addon.stability, (scale, scale))
        agreement.append((0.5 + 0.5 * sure).detach())
    return agreement


def _ideal_outputs(
    models: Mapping[str, nn.Module], parts: Division, initial: Entry, config: Mapping[str, Any]
) -> dict[str, Tensor]:
    """Logits and labels of the ideal model on the forget set.

    With more metrics also those of val, test, an untrained model, the second ideal model, and the
    ideal model after benign steps.
    """
    more = config.get("metrics", ())
    forget = predict(models["ideal"], parts.forget)
    outputs = {"logits": forget.logits, "labels": forget.labels}
    if not more:
        return outputs
    for name, split in (("val", parts.splits.val), ("test", parts.splits.test)):
        predictions = predict(models["ideal"], split)
        outputs |= {f"{name}_logits": predictions.logits, f"{name}_labels": predictions.labels}
        if "ideal-2" in models:
            outputs[f"second_{name}_logits"] = predict(models["ideal-2"], split).logits
    if "ideal-2" in models:
        outputs["second_logits"] = predict(models["ideal-2"], parts.forget).logits
    if "relearned" in more:
        again = after_benign_steps(models["ideal"], parts.retain)
        outputs["relearned_logits"] = predict(again, parts.forget).logits
    config = initial.config["model"] | sizes_for(parts.splits)
    untrained = untrained_for(config, parts.splits.train, UNTRAINED_SEED)
    return outputs | {"untrained_logits": predict(untrained, parts.forget).logits}


def _scorer(
    parts: Division, outputs: dict[str, Tensor], config: Mapping[str, Any], model: str = ""
) -> Scorer:
    """Scores against the ideal model's ``outputs``, as a protocol wants it.

    RMIA has every ideal model but the ``model`` itself as a reference, if there is another.
    """
    labels = outputs["labels"]
    forget = Predictions(outputs["logits"], labels)
    more = config.get("metrics", ())
    if not more:
        return Scorer(parts, forget, attacks=config["attacks"])

    def views(prefix: str) -> Views:
        val, test = (
            Predictions(outputs[f"{prefix}{name}_logits"], outputs[f"{name}_labels"])
            for name in ("val", "test")
        )
        return Views(forget=Predictions(outputs[f"{prefix}logits"], labels), test=test, val=val)

    ideals = {"ideal": views("")}
    if "second_logits" in outputs:
        ideals["ideal-2"] = views("second_")
    relearned = outputs.get("relearned_logits")
    return Scorer(
        parts,
        ideals["ideal"],
        attacks=config["attacks"],
        more=more,
        untrained=Predictions(outputs["untrained_logits"], labels),
        relearned=None if relearned is None else Predictions(relearned, labels),
        references=[each for name, each in ideals.items() if name != model],
    )


def read_rows(entry: Entry) -> list[dict[str, Any]]:
    """The rows of a finished stage."""
    text = entry.path(METRICS_FILE).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def write_rows(folder: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write one JSON object per line; NaN stands for what does not exist and is left out."""
    lines = []
    for row in rows:
        kept = {k: v for k, v in row.items() if not (isinstance(v, float) and math.isnan(v))}
        lines.append(json.dumps(kept) + "\n")
    write_text(folder / METRICS_FILE, "".join(lines))


def _short(value: float) -> float | None:
    return None if math.isnan(value) else float(f"{value:.5g}")
