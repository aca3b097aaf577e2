"""Every metric of the paper, from one pass per split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import nn

from expunge._errors import InvalidInput
from expunge._kinds import NaturalNumber, check_arguments
from expunge.data import Data
from expunge.data.text import TextSet
from expunge.engine import Predictions, as_numbers, check_disjoint
from expunge.evaluation._benign_steps import after_benign_steps, benign_rate, loss_auc
from expunge.evaluation._metric import NamedScores
from expunge.evaluation._metrics import METRICS
from expunge.evaluation._views import Views, check_same_labels, view
from expunge.evaluation.attacks._features import errors_of
from expunge.evaluation.attacks._population import member_shares
from expunge.evaluation.attacks._registry import PAPER_FIVE

Released = Literal["released"]
LEFT_OUT = dict.fromkeys(
    ("ua", "ra", "ta", "va", "rua", "fid", *(f"mia_{n.replace('-', '_')}" for n in PAPER_FIVE)),
    "they are of classes, and a regression has none; see the errors (RMSE, R²) and the attack on "
    "errors",
)
"""Metrics that a regression does not have, and why."""


@dataclass(frozen=True, repr=False)
class Scores(NamedScores):
    """Accuracies and fidelity in percent, rUA in points, ``mia_*`` in [0, 1]; None: not computed.

    ``gaps`` holds, for RA, TA, VA and the attacks, the score minus the ideal model's; rUA is that
    of UA. A regression has the ``*_rmse`` instead, in units of its label, and ``left_out`` says
    why it lacks the others; UA, RA and TA are NaN then. ``per_class`` holds the accuracy on each
    class, in percent, for every split (``"ua"``, ``"ra"``, …); NaN where a split has no example of
    a class. :data:`~expunge.evaluation.METRICS` defines each.
    """

    metrics = METRICS

    ua: float
    ra: float
    ta: float
    rua: float | None = None
    fid: float | None = None
    va: float | None = None
    mia_correctness: float | None = None
    mia_confidence: float | None = None
    mia_logits: float | None = None
    mia_entropy: float | None = None
    mia_modified_entropy: float | None = None
    forget_rmse: float | None = None
    retain_rmse: float | None = None
    test_rmse: float | None = None
    val_rmse: float | None = None
    test_r2: float | None = None
    fid_rmse: float | None = None
    mia_error: float | None = None
    loss_auc: float | None = None
    relearned_ua: float | None = None
    relearned_ta: float | None = None
    relearned_auc: float | None = None
    relearned_rua: float | None = None
    gaps: Mapping[str, float] = field(default_factory=dict, hash=False, compare=False)
    per_class: Mapping[str, tuple[float, ...]] = field(
        default_factory=dict, hash=False, compare=False
    )
    left_out: Mapping[str, str] = field(default_factory=dict, hash=False, compare=False)
    """Metrics that make no sense for these data, and why."""

    def as_dict(self, *, per_class: bool = False) -> dict[str, float]:
        """The scores that exist, by name; gaps as ``gap_ra``, classes as ``ua_class_3``."""
        values_by_name = super().as_dict()
        if per_class:
            for split, values in self.per_class.items():
                values_by_name |= {f"{split}_class_{k}": v for k, v in enumerate(values) if v == v}
        return values_by_name


def evaluate(
    model: nn.Module,
    *,
    forget: Data,
    retain: Data,
    test: Data,
    val: Data | None = None,
    ideal: nn.Module | Predictions | Views | None = None,
    attacks: bool | Released = False,
    benign_steps: NaturalNumber = 0,
    seed: int = 0,
) -> Scores:
    """Score ``model`` from one pass over each split.

    For a causal language model see :func:`~expunge.evaluation.evaluate_text`.

    rUA (27) is UA minus the ideal's UA: near zero is good, above it the data are still remembered,
    below it more was forgotten than retraining would. FID (28) is the share of the forget set where
    both predict the same class.

    Where labels are floats, the model is a regression: it is scored by root mean squared errors,
    R² and a membership attack on errors, and ``left_out`` of the scores says which of the metrics
    above it does not have, and why.

    Args:
        model, forget, retain, test, val: as for :func:`expunge.unlearn`; loaders should not
            shuffle.
        ideal: a model trained without the forget set; or its :class:`Views`, to score several
            models and predict it once; or its predictions on ``forget`` alone, which give rUA and
            FID but no gaps.
        attacks: also run the paper's five membership attacks (4), on the ideal model too;
            ``"released"`` with the features of its released code.
        benign_steps: also train a copy on ``retain`` this many steps (50 is usual), and score it
            on ``forget`` and ``test``: what comes back was hidden, not forgotten. Gives the AUC of
            the loss attack before and after, UA, TA and, with an ``ideal`` model, rUA.
        seed: draws the retained examples that the attacks learn from.

    Example:
        >>> data = torch.utils.data.TensorDataset(torch.eye(6), torch.arange(6))
        >>> forget, retain, test = torch.utils.data.random_split(data, [2, 2, 2])
        >>> scores = evaluate(
        ...     nn.Identity(), forget=forget, retain=retain, test=test, ideal=nn.ReLU()
        ... )
        >>> scores.as_dict() == {"ua": 100.0, "ra": 100.0, "ta": 100.0, "rua": 0.0, "fid": 100.0,
        ...                      "gap_ra": 0.0, "gap_ta": 0.0}
        True
    """
    check_arguments(evaluate, locals())
    if isinstance(forget, TextSet):
        raise InvalidInput("Score texts by `expunge.evaluation.evaluate_text`. (got a TextSet)")
    check_disjoint(forget, test, "test")
    if val is not None:
        check_disjoint(forget, val, "val")
    views = view(model, forget=forget, retain=retain, test=test, val=val)
    known: Any = ideal
    if isinstance(ideal, nn.Module):
        known = view(ideal, forget=forget, retain=retain, test=test, val=val)
    scores = score(views, known, attacks=attacks, seed=seed)
    if not benign_steps:
        return scores
    if views.is_regression:
        raise InvalidInput(
            f"`benign_steps` does not apply to a regression. (got {benign_steps}) Leave it out."
        )

    def later(model: nn.Module) -> Views:
        rate = benign_rate(model)
        stepped = after_benign_steps(model, retain, steps=benign_steps, lr=rate, seed=seed)
        return view(stepped, forget=forget, test=test)

    best = later(ideal).forget if isinstance(ideal, nn.Module) else None
    more: dict[str, Any] = relearned_scores(later(model), best)
    return replace(scores, loss_auc=loss_auc(views.forget, views.test), **more)


def relearned_scores(views: Views, ideal: Predictions | None) -> dict[str, float]:
    """Scores of a model after benign steps, against the ideal model after the same, by name."""
    values = {
        "relearned_ua": accuracy(views.forget),
        "relearned_ta": accuracy(views.test),
        "relearned_auc": loss_auc(views.forget, views.test),
    }
    if ideal is not None:
        values["relearned_rua"] = values["relearned_ua"] - accuracy(ideal)
    return values


def score(
    views: Views,
    ideal: Predictions | Views | None = None,
    *,
    attacks: bool | Released = False,
    seed: int = 0,
) -> Scores:
    """The scores of :func:`evaluate`, from existing predictions.

    Without predictions of the retain set there is no RA; the attacks need them.
    """
    check_arguments(score, locals())
    measure = _regression_values if views.is_regression else _class_values
    values = measure(views, attacks, seed)
    gaps: dict[str, float] = {}
    if ideal is not None:
        # On the forget set, and with all views of the ideal model on every split.
        reference = ideal if isinstance(ideal, Predictions) else ideal.forget
        check_same_labels(reference, views.forget)
        best = measure(ideal, attacks, seed) if isinstance(ideal, Views) else {}
        if views.is_regression:
            best["forget_rmse"] = rmse(reference)
            values["fid_rmse"] = rms_difference(views.forget, reference)
        else:
            values["rua"] = values["ua"] - accuracy(reference)
            values["fid"] = agreement(views.forget, reference)
        same = [name for name in values if name in best and name not in ("ua", "test_r2")]
        gaps = {name: values[name] - best[name] for name in same}
    nan = float("nan")
    more: dict[str, Any] = {"ua": nan, "ra": nan, "ta": nan} | values
    if views.is_regression:
        return Scores(**more, gaps=gaps, left_out=LEFT_OUT)
    classes = {name: class_accuracies(part) for name, part in _parts(views).items()}
    return Scores(**more, gaps=gaps, per_class=classes)


def _parts(views: Views) -> dict[str, Predictions]:
    """The splits that were given, by the name of the accuracy on them."""
    names = {"forget": "ua", "retain": "ra", "test": "ta", "val": "va"}
    return {names[split]: part for split, part in views.items()}


def _class_values(views: Views, attacks: bool | Released, seed: int) -> dict[str, float]:
    """Accuracies, and the shares of the forget set that the paper's attacks take for members."""
    values = {name: accuracy(part) for name, part in _parts(views).items()}
    if attacks:
        shares = member_shares(views, seed=seed, released=attacks == "released")
        values |= {f"mia_{name.replace('-', '_')}": value for name, value in shares.items()}
    return values


def _regression_values(views: Views, attacks: bool | Released, seed: int) -> dict[str, float]:
    """Root mean squared errors on every split, R² on test, and the membership attack on errors."""
    values = {f"{name}_rmse": rmse(part) for name, part in views.items()}
    values["test_r2"] = r_squared(views.test)
    if attacks:
        values["mia_error"] = member_shares(views, ["error"], seed=seed)["error"]
    return values


def accuracy(predictions: Predictions) -> float:
    """The share of correct predictions (3), in percent; of texts, of correct tokens."""
    return 100.0 * float(predictions.right.mean())


def class_accuracies(predictions: Predictions) -> tuple[float, ...]:
    """The accuracy on the examples of each class, in percent; NaN for a class without any."""
    classes = predictions.logits.shape[1]
    right = predictions.labels[predictions.classes == predictions.labels]
    counts = [torch.bincount(part, minlength=classes) for part in (right, predictions.labels)]
    return tuple((100.0 * counts[0].double() / counts[1].double()).tolist())


def agreement(a: Predictions, b: Predictions) -> float:
    """The share of the same examples for which both models predict one class, in percent."""
    return 100.0 * float((a.classes == b.classes).double().mean())


def rmse(predictions: Predictions) -> float:
    """The root of the mean squared error, in units of the label."""
    return float(errors_of(predictions).square().mean().sqrt())


def r_squared(predictions: Predictions) -> float:
    """1 - the squared error over that of predicting the mean; NaN if all labels are equal."""
    labels = predictions.labels.double()
    spread = float((labels - labels.mean()).square().sum())
    return 1.0 - float(errors_of(predictions).square().sum()) / spread if spread else float("nan")


def rms_difference(a: Predictions, b: Predictions) -> float:
    """The root of the mean squared difference of two models' predictions."""
    first, second = (as_numbers(part.logits).double() for part in (a, b))
    return float((first - second).square().mean().sqrt())
