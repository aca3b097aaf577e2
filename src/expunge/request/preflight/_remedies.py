"""What often goes wrong between data and model, tried the other way round."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from expunge._errors import InvalidInput
from expunge.evaluation import Predictions, predict
from expunge.request._accuracy import wilson_interval
from expunge.request.subject._examples import Examples, InMemory, inputs_of

SAMPLE = 512
"""Training examples that remedies are tried on."""
LIFT = 10.0
"""Points of accuracy that a remedy must bring, beyond the intervals, to be named."""

Remedy = Callable[[Tensor], Tensor]


def permuted_labels(said: Predictions, classes: Sequence[str], level: float = 0.95) -> str | None:
    """Words, if another order of the labels makes the model right much more often.

    The order is the one-to-one match of classes that agrees with most predictions.
    """
    from scipy.optimize import linear_sum_assignment

    outputs = said.logits.shape[1]
    table = np.zeros((outputs, outputs), dtype=np.int64)
    np.add.at(table, (said.labels.numpy(), said.classes.numpy()), 1)
    rows, columns = linear_sum_assignment(table, maximize=True)
    before, after = int(np.trace(table)), int(table[rows, columns].sum())
    if not _lifts(before, after, len(said.labels), level):
        return None
    present = table.sum(1) > 0
    moved = [(r, c) for r, c in zip(rows, columns, strict=True) if r != c and present[r]]
    shown = "; ".join(
        f"class {r} of the data ({classes[r]!r}) is class {c} of the model" for r, c in moved[:5]
    )
    more = f"; and {len(moved) - 5} more" if len(moved) > 5 else ""
    share = 100 / len(said.labels)
    return (
        f"The labels look permuted: {shown}{more}. In that order accuracy on train would be "
        f"{after * share:.1f} %, not {before * share:.1f} %. Number the classes of the data as "
        "they were for training."
    )


def other_inputs(model: nn.Module, train: InMemory, level: float = 0.95) -> str | None:
    """Words, if the model is right much more often when its inputs are prepared otherwise.

    All remedies within two points of the best are named.
    """
    chosen = np.linspace(0, len(train) - 1, min(SAMPLE, len(train))).round().astype(np.int64)
    sample = train.subset(np.unique(chosen))
    inputs, count = inputs_of(sample), len(sample)
    before = _hits(model, inputs, sample)
    scored = {
        name: _hits(model, change(inputs), sample) for name, change in remedies(inputs).items()
    }
    after = max((hits or 0 for hits in scored.values()), default=0)
    if before is None or not _lifts(before, after, count, level):
        return None
    helpful = [name for name, hits in scored.items() if hits and hits >= after - 0.02 * count]
    return (
        f"The inputs look wrongly prepared: with {', or '.join(helpful)}, accuracy on {count} "
        f"training examples would be {100 * after / count:.1f} %, not {100 * before / count:.1f} "
        "%. Prepare them as they were for training."
    )


def remedies(inputs: Tensor) -> dict[str, Remedy]:
    """What often goes wrong on the way to a model, undone: by what it is called."""
    if not inputs.is_floating_point() and inputs.dtype != torch.uint8:
        return {}  # words and the like have no scale
    known: dict[str, Remedy] = {
        "inputs divided by 255": lambda x: x.float() / 255,
        "inputs multiplied by 255": lambda x: x.float() * 255,
        "inputs from [0, 1] stretched to [-1, 1]": lambda x: 2 * x.float() - 1,
        "every channel standardised to mean 0 and deviation 1": _standardised,
        "light and dark exchanged": lambda x: inputs.max() + inputs.min() - x,
    }
    if inputs.dtype == torch.uint8:
        known.pop("inputs multiplied by 255")
        known["inputs divided by 255 and stretched to [-1, 1]"] = lambda x: x.float() / 127.5 - 1
        known.pop("inputs from [0, 1] stretched to [-1, 1]")
        known["inputs as floats in [0, 255]"] = lambda x: x.float()
    if inputs.ndim == 4 and inputs.shape[1] == 3:
        known["the channels in reverse order (RGB, BGR)"] = lambda x: x.flip(1)
    return known


def _standardised(x: Tensor) -> Tensor:
    """Channel by channel for images, feature by feature for vectors."""
    dims = (0, *range(2, x.ndim))
    values = x.float()
    mean, std = values.mean(dims, keepdim=True), values.std(dims, keepdim=True, unbiased=False)
    return (values - mean) / std.clamp_min(1e-6)


def _hits(model: nn.Module, inputs: Tensor, sample: InMemory) -> int | None:
    """Right answers on ``sample`` with other inputs; None where the model cannot take them."""
    try:
        said = predict(model, Examples(inputs, sample.labels, sample.classes))
    except (InvalidInput, RuntimeError):
        return None
    return int((said.classes == said.labels).sum())


def _lifts(before: int, after: int, count: int, level: float) -> bool:
    """Whether ``after`` hits are ten points more than ``before``, and their intervals apart."""
    much = 100 * (after - before) / count >= LIFT
    return (
        much
        and wilson_interval(after, count, level).low > wilson_interval(before, count, level).high
    )
