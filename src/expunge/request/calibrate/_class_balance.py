"""Balance the classes of a model that has forgotten, by the bias of its last layer."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from expunge.data._batches import Data
from expunge.evaluation import Predictions, predict
from expunge.methods._class_balance import balancing_offsets
from expunge.request.calibrate._target import EXPONENTS, ClassCounts, grown_error


def balancing_offsets_on(val: Predictions, counts: ClassCounts, lost: Sequence[int]) -> Tensor:
    """Offsets [K] by which no class is farther from what is to be expected of it than others.

    To be expected is the accuracy of the given model, ``counts``, less what it owes to the records
    of each class, as in the target.
    """
    errors = counts.val_errors
    grown = np.mean([grown_error(errors, counts, b) for b in EXPONENTS], axis=0)
    return balancing_offsets(val.logits, val.labels, torch.from_numpy(1.0 - grown), lost)


def with_offsets(predictions: Predictions, offsets: Tensor) -> Predictions:
    """The predictions of the same model, were ``offsets`` [K] added to its logits."""
    return predictions._replace(logits=predictions.logits + offsets.to(predictions.logits.dtype))


def output_bias(model: nn.Module, data: Data) -> str | None:
    """The name of the parameter [K] that is added to the logits; None if the model has none.

    It is the bias of the last layer with K outputs, if what is added to it shows in the logits of
    ``data`` as it is; some models scale or normalise their outputs.
    """
    plain = predict(model, data).logits
    shape = plain.shape[1:]
    names = [n for n, p in model.named_parameters() if n.endswith("bias") and p.shape == shape]
    if not names:
        return None
    changed = copy.deepcopy(model)
    added = torch.linspace(-1.0, 1.0, len(plain[0]))
    bias = changed.get_parameter(names[-1])
    bias.data += added.to(bias)
    moved = predict(changed, data).logits
    return names[-1] if torch.allclose(moved, plain + added, atol=1e-3) else None
