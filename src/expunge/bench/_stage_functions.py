"""The work of each stage of a protocol; ``Images`` and ``Texts`` do what is not common to both."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from expunge import _tensors as tensors
from expunge import dispatch
from expunge._errors import DataError, Diverged
from expunge._files import write_text
from expunge._serialisation import rebuild
from expunge.bench._results import MAX_IDEALS
from expunge.engine import Callback, Execution, Procedure, StepReporter, unlearn
from expunge.evaluation import EpochScores
from expunge.store import Entry

if TYPE_CHECKING:
    from expunge.bench._image_stages import Images
    from expunge.bench._text_stages import Texts

WEIGHTS, METRICS_FILE, STEPS = "weights.safetensors", "metrics.jsonl", "steps.json"
HISTOGRAMS, DEFINITIONS = "agreement.json", "definitions.json"
REFERENCES = ("initial", "ideal", *(f"ideal-{number}" for number in range(2, MAX_IDEALS + 1)))
HISTOGRAM_PREFIX = "f_bin_"


def train_model(context: dispatch.Context) -> None:
    """Train an initial model on the whole training part, an ideal one on what it retains."""
    config = context.config
    material = _material(config["data"])
    splits: Any = material.load(config["data"], context.options)
    data: Any = splits.train
    if "scenario" in config:
        data = material.divide(splits, config).retain
    result = material.train(config, splits, data, _execution(context))
    # History and weights; the last row names the data.
    rows: list[dict[str, Any]] = [dict(row) for row in result.history.epochs]
    rows[-1]["fingerprint"] = splits.train.fingerprint()
    write_rows(context.folder, rows)
    tensors.save(context.folder / WEIGHTS, result.model.state_dict(), {})


def score_references(context: dispatch.Context) -> None:
    """Score initial and ideal models on a scenario; keep the ideal outputs that runs need."""
    material, division = _division(context, context.config)
    entries = dict(zip(REFERENCES, context.parents, strict=False))
    models = {name: material.restore(entry, division.splits) for name, entry in entries.items()}
    scores = material.score(context, models, division)
    rows = []
    for name, entry in entries.items():
        last = read_rows(entry)[-1]
        times = {each: last[each] for each in ("seconds", "processor_seconds")}
        rows.append({"model": name, "epoch": 0, **scores[name], **times})
    write_rows(context.folder, rows)


def unlearn_variant(context: dispatch.Context) -> None:
    """Unlearn, scoring the model at the epochs of ``evaluate_at``, and at ``evaluate_steps``."""
    # What is compared with what.
    initial, reference = context.parents
    folder = context.folder
    material, division = _division(context, reference.config)
    watchers, data = material.unlearn_arguments(context, division)
    procedure: Procedure = rebuild(context.config["procedure"])

    # Unlearn; a run that diverges keeps what it has.
    diverged = ""
    try:
        model = material.restore(initial, division.splits)
        execution = _execution(context, *watchers)
        result = unlearn(model, method=procedure, execution=execution, **data)
    except Diverged as error:
        if error.result is None:
            raise
        result, diverged = error.result, str(error)

    # Metrics per epoch and within epochs, diagnostics per step, weights.
    rows: list[dict[str, Any]] = [dict(row) for row in result.history.epochs]
    if histograms := take_histograms(rows):
        write_text(folder / HISTOGRAMS, json.dumps(histograms))
    if diverged:
        rows.append({"epoch": len(rows) + 1, "diverged": diverged})
    rows += [row for each in watchers if isinstance(each, EpochScores) for row in each.between]
    write_rows(folder, sorted(rows, key=lambda row: row["epoch"]))
    steps = result.history.steps
    columns = ("product", "cosine", "agreement", "moved", "feasible", "undecided")
    if steps:
        table = {name: [_short(row[name]) for row in steps] for name in columns if name in steps[0]}
        write_text(folder / STEPS, json.dumps(table))
    if context.options.get("keep") != "none":
        tensors.save(folder / WEIGHTS, result.model.state_dict(), {})


def _material(data: Mapping[str, Any]) -> Images | Texts:
    """Texts, which are of people, or images."""
    if "people" in data:
        from expunge.bench._text_stages import Texts

        return Texts()
    from expunge.bench._image_stages import Images

    return Images()


def _division(context: dispatch.Context, config: Mapping[str, Any]) -> tuple[Images | Texts, Any]:
    """The data that the initial model was trained on, divided by the scenario of ``config``."""
    initial = context.parents[0]
    material = _material(initial.config["data"])
    splits: Any = material.load(initial.config["data"], context.options)
    if splits.train.fingerprint() != read_rows(initial)[-1]["fingerprint"]:
        raise DataError(
            f"The training data {context.options['data']} are not those the initial model was "
            "trained on: their fingerprint differs."
        )
    return material, material.divide(splits, config)


def _execution(context: dispatch.Context, *callbacks: Callback) -> Execution:
    """How the steps of a stage are run: from its seed and checkpoint, reporting its progress."""
    return Execution(
        seed=int(context.config["seed"]),
        device=context.options.get("device", "auto"),
        checkpoint=context.folder / ".checkpoint",
        callbacks=[StepReporter(context.progress), *callbacks],
        progress=False,
    )


def take_histograms(rows: list[dict[str, Any]]) -> dict[str, list[float]]:
    """Remove the histograms of f from ``rows``; they are returned by epoch."""
    histograms = {}
    for row in rows:
        names = sorted(name for name in row if name.startswith(HISTOGRAM_PREFIX))
        if names:
            histograms[str(row["epoch"])] = [round(row.pop(name), 6) for name in names]
    return histograms


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
