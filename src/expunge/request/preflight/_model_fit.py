"""Whether the model fits the data; if not, whether label order or input scaling is to blame."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from expunge._errors import InvalidInput
from expunge.data import Examples
from expunge.data.text import IGNORED, TextExamples
from expunge.evaluation import Predictions, predict, wilson_interval
from expunge.evidence import Interval, ModelFit
from expunge.request._accuracy import accuracy_interval
from expunge.request._job import InputForm

SAMPLE = 512
"""Number of training examples on which input corrections are tried."""
MIN_GAIN = 10.0
"""Points of accuracy that a correction must gain, beyond the intervals, to be mentioned."""
BEYOND_DOUBT = 80.0
"""Accuracy in percent that a correction must reach to be applied."""
FORMS: dict[str, InputForm] = {
    "inputs divided by 255": "fractions",
    "inputs as floats in [0, 255]": "bytes",
    "every channel standardised to mean 0 and deviation 1": "standardised",
}
"""The corrections that ``--inputs`` makes."""

Correction = Callable[[Tensor], Tensor]


def check_model_fit(
    model: nn.Module,
    train: Examples,
    predictions: Mapping[str, Predictions],
    classes: Sequence[str],
    *,
    level: float = 0.95,
) -> tuple[ModelFit, tuple[InputForm, str] | None]:
    """Judge the model by its ``predictions`` on "train", "val" and "test".

    Also returns how it should get images beyond doubt, and why, if that is all that is wrong.

    A model fits if it beats the most frequent class on train and on val, and if neither another
    label order nor another scaling of the inputs does much better.
    """
    accuracy = {split: accuracy_interval(said, level) for split, said in predictions.items()}
    if isinstance(train, TextExamples):
        return _fit_of_texts(train, accuracy), None
    chance = {split: _share_of_most_frequent(said.labels) for split, said in predictions.items()}
    scaling = explain_by_input_scaling(model, train, level, predictions["train"])
    explanations = (
        explain_by_label_order(predictions["train"], classes, level),
        scaling and f"{scaling.finding} {scaling.remedy}",
    )
    reasons = [reason for reason in explanations if reason]
    weak = [split for split in ("train", "val") if accuracy[split].low <= chance[split]]
    if weak and not reasons:
        values = " and ".join(f"{accuracy[split].value:.1f} % on {split}" for split in weak)
        reasons.append(
            f"Accuracy is {values}, no better than always predicting the most frequent class, and "
            "neither another label order nor another scaling of the inputs helps. Check that these "
            "are the weights of this model and the data it was trained on."
        )
    correction = None
    if scaling is not None and scaling.form is not None:
        correction = scaling.form, scaling.finding
    return _model_fit(accuracy, chance["val"], reasons), correction


def _model_fit(accuracy: Mapping[str, Interval], chance: float, reasons: Sequence[str]) -> ModelFit:
    return ModelFit(
        accuracy=dict(accuracy),
        chance=round(chance, 3),
        fits=not reasons,
        reasons=list(reasons),
    )


def _fit_of_texts(train: TextExamples, accuracy: Mapping[str, Interval]) -> ModelFit:
    """A language model fits if it predicts more tokens than always the most frequent one.

    Nor should it predict fewer on what it was trained on than on val and on test.
    """
    tokens = train.targets[train.targets != IGNORED]
    chance = _share_of_most_frequent(tokens)
    reasons = []
    if accuracy["train"].low <= chance:
        reasons.append(
            f"The model predicts {accuracy['train'].value:.1f} % of the answers' tokens on train, "
            f"no more than always the most frequent token ({chance:.1f} %). Check that these are "
            "the weights of this model, its tokenizer and the template it was trained with."
        )
    elif all(accuracy["train"].high < accuracy[split].low for split in ("val", "test")):
        reasons.append(
            f"The model predicts {accuracy['train'].value:.1f} % of the answers' tokens on train, "
            f"and {accuracy['val'].value:.1f} % on records that it should never have seen. Check "
            "that the files are not exchanged, and that both have their questions and answers "
            "under the same keys."
        )
    return _model_fit(accuracy, chance, reasons)


def _share_of_most_frequent(labels: Tensor) -> float:
    return 100 * int(torch.bincount(labels).max()) / len(labels)


def explain_by_label_order(
    predictions: Predictions, classes: Sequence[str], level: float = 0.95
) -> str | None:
    """An explanation if another order of the labels makes the model right much more often.

    The order is the one-to-one matching of classes that agrees with most predictions.
    """
    from scipy.optimize import linear_sum_assignment

    # Confusion matrix: rows are the labels of the data, columns the outputs of the model.
    outputs = predictions.logits.shape[1]
    confusion = np.zeros((outputs, outputs), dtype=np.int64)
    np.add.at(confusion, (predictions.labels.numpy(), predictions.classes.numpy()), 1)
    rows, columns = linear_sum_assignment(confusion, maximize=True)
    before, after = int(np.trace(confusion)), int(confusion[rows, columns].sum())
    if not _clearly_better(before, after, len(predictions.labels), level):
        return None
    present = confusion.sum(1) > 0
    moved = [(r, c) for r, c in zip(rows, columns, strict=True) if r != c and present[r]]
    listed = "; ".join(
        f"class {r} of the data ({classes[r]!r}) is class {c} of the model" for r, c in moved[:5]
    )
    more = f"; and {len(moved) - 5} more" if len(moved) > 5 else ""
    percent = 100 / len(predictions.labels)
    return (
        f"The labels look permuted: {listed}{more}. In that order, accuracy on train would be "
        f"{after * percent:.1f} %, not {before * percent:.1f} %. Number the classes of the data as "
        "they were numbered for training."
    )


@dataclass(frozen=True)
class ScalingExplanation:
    """What was found about the preparation of inputs, and what to do, in sentences.

    ``form`` is the form of images that is right beyond doubt; None if several corrections help
    about as much, or none that ``--inputs`` makes.
    """

    finding: str
    remedy: str
    form: InputForm | None


def explain_by_input_scaling(
    model: nn.Module,
    train: Examples,
    level: float = 0.95,
    predictions: Predictions | None = None,
) -> ScalingExplanation | None:
    """An explanation if the model is right much more often when its inputs are prepared otherwise.

    All corrections within two points of the best are named. ``predictions`` are those on all of
    ``train``, if they are known. Floats go to ``model`` as they are.
    """
    indices = np.linspace(0, len(train) - 1, min(SAMPLE, len(train))).round().astype(np.int64)
    indices = np.unique(indices)
    sample = train.subset(indices)
    inputs, count = sample.inputs, len(sample)
    if predictions is None:
        before = _count_correct(model, inputs, sample)
    else:
        before = _correct(predictions.take(indices))
    if before is not None and not _clearly_better(before, count, count, level):
        return None  # not even a correction that makes every prediction right would be mentioned
    correct = {
        name: _count_correct(model, correction(inputs), sample)
        for name, correction in input_corrections(inputs).items()
    }
    after = max((hits or 0 for hits in correct.values()), default=0)
    if before is None or not _clearly_better(before, after, count, level):
        return None
    helpful = [name for name, hits in correct.items() if hits and hits >= after - 0.02 * count]
    finding = (
        f"The inputs look wrongly prepared: with {', or '.join(helpful)}, accuracy on {count} "
        f"training examples would be {100 * after / count:.1f} %, not {100 * before / count:.1f} %."
    )
    forms = [FORMS[name] for name in helpful if name in FORMS and train.kind == "images"]
    others = max((hits or 0 for name, hits in correct.items() if name != helpful[0]), default=0)
    is_clear = (
        len(helpful) == len(forms) == 1
        and 100 * after / count >= BEYOND_DOUBT
        and _clearly_better(others, after, count, level)
    )
    option = f" (--inputs {' or '.join(forms)})" if forms else ""
    remedy = f"Prepare them as they were for training{option}."
    return ScalingExplanation(finding, remedy, forms[0] if is_clear else None)


def input_corrections(inputs: Tensor) -> dict[str, Correction]:
    """Corrections of common mistakes in the preparation of inputs, by description."""
    if not inputs.is_floating_point() and inputs.dtype != torch.uint8:
        return {}  # token numbers have no scale
    corrections: dict[str, Correction] = {
        "inputs divided by 255": lambda x: x.float() / 255,
        "inputs multiplied by 255": lambda x: x.float() * 255,
        "inputs from [0, 1] stretched to [-1, 1]": lambda x: 2 * x.float() - 1,
        "every channel standardised to mean 0 and deviation 1": _standardise,
        "light and dark exchanged": lambda x: inputs.max() + inputs.min() - x,
    }
    if inputs.dtype == torch.uint8:
        corrections.pop("inputs multiplied by 255")
        corrections["inputs divided by 255 and stretched to [-1, 1]"] = lambda x: (
            x.float() / 127.5 - 1
        )
        corrections.pop("inputs from [0, 1] stretched to [-1, 1]")
        corrections["inputs as floats in [0, 255]"] = lambda x: x.float()
    if inputs.ndim == 4 and inputs.shape[1] == 3:
        corrections["the channels in reverse order (RGB, BGR)"] = lambda x: x.flip(1)
    return corrections


def _standardise(x: Tensor) -> Tensor:
    """Standardise per channel for images, per feature for vectors."""
    dims = (0, *range(2, x.ndim))
    values = x.float()
    mean, std = values.mean(dims, keepdim=True), values.std(dims, keepdim=True, unbiased=False)
    return (values - mean) / std.clamp_min(1e-6)


def _count_correct(model: nn.Module, inputs: Tensor, sample: Examples) -> int | None:
    """Right predictions on ``sample`` with other inputs; None if the model cannot take them."""
    try:
        predictions = predict(model, Examples(inputs, sample.labels, sample.classes))
    except (InvalidInput, RuntimeError):
        return None
    return _correct(predictions)


def _correct(predictions: Predictions) -> int:
    return int((predictions.classes == predictions.labels).sum())


def _clearly_better(before: int, after: int, count: int, level: float) -> bool:
    """Whether ``after`` hits are ten points more than ``before``, and their intervals disjoint."""
    gain = 100 * (after - before) / count
    separate = wilson_interval(after, count, level).low > wilson_interval(before, count, level).high
    return gain >= MIN_GAIN and separate
