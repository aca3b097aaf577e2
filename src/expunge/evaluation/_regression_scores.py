"""What can be scored of a regression, and what cannot, each with its reason."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from expunge._arrays import Array
from expunge.engine import Predictions, as_numbers
from expunge.evaluation._views import Views
from expunge.evaluation.attacks._population import sample
from expunge.evaluation.attacks._svc import fit_svc

_ACCURACY = "accuracy counts right classes, and a regression has none; see {}"
_PROBABILITY = "it reads the probabilities of classes, and a regression has none; see mia_error"
LEFT_OUT = {
    "ua": _ACCURACY.format("forget_rmse"),
    "ra": _ACCURACY.format("retain_rmse"),
    "ta": _ACCURACY.format("test_rmse and test_r2"),
    "va": _ACCURACY.format("val_rmse"),
    "rua": _ACCURACY.format("gap_forget_rmse"),
    "fid": "it counts equal classes, and two numbers are hardly ever equal; see fid_rmse",
    "mia_correctness": _PROBABILITY,
    "mia_confidence": _PROBABILITY,
    "mia_entropy": _PROBABILITY,
    "mia_modified_entropy": _PROBABILITY,
    "mia_logits": "the output is the prediction itself, no measure of confidence; see mia_error",
}
"""Metrics of classes, and why a regression does not have them."""


def regression_scores(views: Views, *, attacks: bool = False, seed: int = 0) -> dict[str, Any]:
    """Root mean squared errors on every split, R² on test, and the membership attack on errors."""
    values: dict[str, Any] = {f"{name}_rmse": rmse(part) for name, part in views.items()}
    values["test_r2"] = r_squared(views.test)
    if attacks:
        values["mia_error"] = member_share_by_error(views, seed)
    return values


def rmse(predictions: Predictions) -> float:
    """The root of the mean squared error, in units of the label."""
    return float(_errors(predictions).square().mean().sqrt())


def r_squared(predictions: Predictions) -> float:
    """1 - the squared error over that of always predicting the mean; NaN if all labels are equal.

    >>> import torch
    >>> labels = torch.tensor([1.0, 3.0])
    >>> r_squared(Predictions(torch.tensor([[1.0], [3.0]]), labels))
    1.0
    >>> r_squared(Predictions(torch.tensor([[2.0], [2.0]]), labels))
    0.0
    """
    labels = predictions.labels.double()
    spread = float((labels - labels.mean()).square().sum())
    return 1.0 - float(_errors(predictions).square().sum()) / spread if spread else float("nan")


def rms_difference(a: Predictions, b: Predictions) -> float:
    """The root of the mean squared difference of two models' predictions."""
    first, second = (as_numbers(part.logits).double() for part in (a, b))
    return float((first - second).square().mean().sqrt())


def member_share_by_error(views: Views, seed: int) -> float:
    """The share of the forget set that an SVC on the absolute error classifies as retained data.

    Members to learn from are retained examples, non-members test examples, as many of either: the
    paper's attacks with the one feature that a regression has.
    """
    members = sample(views.split("retain"), len(views.test.labels), seed)
    others = sample(views.test, len(members.labels), seed)
    features = [_absolute_errors(part) for part in (members, others)]
    flags = np.arange(len(features[0]) + len(features[1])) < len(features[0])
    decide = fit_svc(np.concatenate(features), flags, seed)
    return float((decide(_absolute_errors(views.forget)) > 0).mean())


def _absolute_errors(predictions: Predictions) -> Array:
    result: Array = _errors(predictions).abs().numpy()[:, np.newaxis]
    return result


def _errors(predictions: Predictions) -> Tensor:
    return as_numbers(predictions.logits).double() - predictions.labels.double()
