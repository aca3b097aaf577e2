"""Whether the model fits the data; if not, whether labels, inputs or a template are to blame."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from expunge._errors import InvalidInput
from expunge.data import Examples, PretrainedTokenizer, TextSet
from expunge.data.text import CHAT, IGNORED, TEMPLATES, TextExamples
from expunge.evaluation import (
    Predictions,
    confidence,
    predict,
    predict_texts,
    wilson_interval,
)
from expunge.evidence import Interval, ModelFit
from expunge.request._job import InputForm
from expunge.request._predictions import accuracy_interval, evenly_spaced

SAMPLE = 256
"""Number of training examples on which input corrections are tried."""
TEXT_SAMPLE = 64
"""Number of training records, at most, on which known templates are tried."""
MIN_GAIN = 10.0
"""Points of accuracy that a correction must gain, beyond the intervals, to be mentioned."""
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
) -> ModelFit:
    """Judge the model by its ``predictions`` on "train", a sample of what is retained, and "val".

    Its accuracy is also stated on the other splits: "forget" and "test".
    A model fits if it beats the most frequent class on train and on val, and if neither another
    label order nor another scaling of the inputs does much better.
    """
    accuracy = {split: accuracy_interval(said) for split, said in predictions.items()}
    if isinstance(train, TextExamples):
        return _fit_of_texts(model, train, predictions, accuracy)
    chance = {split: _share_of_most_frequent(said.labels) for split, said in predictions.items()}
    explanations = (
        explain_by_label_order(predictions["train"], classes),
        explain_by_input_scaling(model, train, predictions["train"]),
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
    chance_on_val = round(chance["val"], 3)
    return ModelFit(accuracy=accuracy, chance=chance_on_val, fits=not reasons, reasons=reasons)


def _fit_of_texts(
    model: nn.Module,
    train: TextExamples,
    predictions: Mapping[str, Predictions],
    accuracy: dict[str, Interval],
) -> ModelFit:
    """A language model fits if it predicts more tokens than always the most frequent one.

    Its answers should be likelier on train than on val or on test, by a rank test, and no other
    known template should do much better.
    """
    from scipy.stats import mannwhitneyu

    tokens = train.targets[train.targets != IGNORED]
    chance = _share_of_most_frequent(tokens)
    sure = {split: confidence(said)[:, 0] for split, said in predictions.items()}
    tests = (mannwhitneyu(sure["train"], sure[k], alternative="greater") for k in ("val", "test"))
    other = explain_by_template(model, train)
    reasons = [] if other is None else [other]
    if accuracy["train"].low <= chance:
        reasons.append(
            f"The model predicts {accuracy['train'].value:.1f} % of the answers' tokens on train, "
            f"no more than always the most frequent token ({chance:.1f} %). Check that these are "
            "the weights of this model, its tokenizer and the template it was trained with."
        )
    elif all(test.pvalue > 0.05 for test in tests):
        reasons.append(
            f"The model predicts {accuracy['train'].value:.1f} % of the answers' tokens on train "
            f"and {accuracy['val'].value:.1f} % on records that it should never have seen, and "
            "train is no likelier to it. Check that these are its weights and the template it was "
            "trained with, that the files are not exchanged, and that both have their questions "
            "and answers under the same keys."
        )
    return ModelFit(accuracy=accuracy, chance=round(chance, 3), fits=not reasons, reasons=reasons)


def explain_by_template(model: nn.Module, train: TextExamples) -> str | None:
    """An explanation if the model predicts much more of the answers with another known template."""
    tokenizer = train.texts.tokenizer
    if not isinstance(tokenizer, PretrainedTokenizer):
        return None
    sample = train.subset(evenly_spaced(len(train), TEXT_SAMPLE))
    before = accuracy_interval(predict_texts(model, sample))
    found: dict[str, Interval] = {}
    for name in (CHAT, *TEMPLATES) if before.value <= 100 - MIN_GAIN else ():
        try:  # there may be no chat template, and rows that are longer than the model takes
            texts = TextSet(sample.texts.records, PretrainedTokenizer(tokenizer.tokenizer, name))
            said = predict_texts(model, TextExamples(texts, sample.labels, sample.classes))
        except (InvalidInput, RuntimeError, IndexError):
            continue
        found[name] = accuracy_interval(said)
    best = max(found, key=lambda name: found[name].value, default="")
    if not best or found[best].low <= before.high or found[best].value < before.value + MIN_GAIN:
        return None
    return (
        f"The model was trained with another prompt: with --template {best} it predicts "
        f"{found[best].value:.1f} % of the answers' tokens on {len(sample)} training records, not "
        f"{before.value:.1f} %. Give that one, or the text of your own."
    )


def _share_of_most_frequent(labels: Tensor) -> float:
    return 100 * int(torch.bincount(labels).max()) / len(labels)


def explain_by_label_order(predictions: Predictions, classes: Sequence[str]) -> str | None:
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
    if not _clearly_better(before, after, len(predictions.labels)):
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


def explain_by_input_scaling(
    model: nn.Module, train: Examples, predictions: Predictions
) -> str | None:
    """An explanation if the model is right much more often with other preparations of its inputs.

    All corrections within two points of the best are named. ``predictions`` are those on all of
    ``train``. Floats go to ``model`` as they are.
    """
    indices = evenly_spaced(len(train), SAMPLE)
    sample = train.subset(indices)
    inputs, count = sample.inputs, len(sample)
    before = int(predictions.take(indices).right.sum())
    if not _clearly_better(before, count, count):
        return None  # not even a correction that makes every prediction right would be mentioned
    correct = {
        name: _count_correct(model, correction(inputs), sample)
        for name, correction in input_corrections(inputs).items()
    }
    after = max(correct.values(), default=0)
    if not _clearly_better(before, after, count):
        return None
    helpful = [name for name, hits in correct.items() if hits >= after - 0.02 * count]
    forms = [FORMS[name] for name in helpful if name in FORMS and train.kind == "images"]
    option = f" (--inputs {' or '.join(forms)})" if forms else ""
    return (
        f"The inputs look wrongly prepared: with {', or '.join(helpful)}, accuracy on {count} "
        f"training examples would be {100 * after / count:.1f} %, not {100 * before / count:.1f} "
        f"%. Prepare them as they were for training{option}."
    )


def input_corrections(inputs: Tensor) -> dict[str, Correction]:
    """Corrections of common mistakes in the preparation of inputs, by description."""
    if not inputs.is_floating_point() and inputs.dtype != torch.uint8:
        return {}  # token numbers have no scale
    part = "column" if inputs.ndim == 2 else "channel"
    corrections: dict[str, Correction] = {
        "inputs divided by 255": lambda x: x.float() / 255,
        "inputs multiplied by 255": lambda x: x.float() * 255,
        "inputs from [0, 1] stretched to [-1, 1]": lambda x: 2 * x.float() - 1,
        f"every {part} standardised to mean 0 and deviation 1": _standardise,
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


def _count_correct(model: nn.Module, inputs: Tensor, sample: Examples) -> int:
    """Right predictions on ``sample`` with other inputs; none if the model cannot take them."""
    try:
        said = predict(model, Examples(inputs, sample.labels, sample.classes))
        return int(said.right.sum())
    except (InvalidInput, RuntimeError):
        return 0


def _clearly_better(before: int, after: int, count: int) -> bool:
    """Whether ``after`` hits are ten points more than ``before``, and their intervals disjoint."""
    separate = wilson_interval(after, count).low > wilson_interval(before, count).high
    return 100 * (after - before) / count >= MIN_GAIN and separate
