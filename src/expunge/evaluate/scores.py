"""UA, RA, TA, rUA and FID, from one pass a split."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from torch import Tensor, nn

from expunge.data.batches import Data
from expunge.errors import InvalidInput
from expunge.evaluate.predict import Predictions, predict


@dataclass(frozen=True)
class Scores:
    """Accuracies and fidelity in percent, rUA in points; None where there is no ideal model."""

    ua: float
    ra: float
    ta: float
    rua: float | None = None
    fid: float | None = None

    def as_dict(self) -> dict[str, float]:
        """The scores that exist, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def evaluate(
    model: nn.Module,
    *,
    forget: Data,
    retain: Data,
    test: Data,
    ideal: nn.Module | Predictions | None = None,
) -> Scores:
    """Score ``model``; with an ``ideal`` model (or its predictions on ``forget``) also against it.

    rUA (27) is UA minus the ideal's UA: near zero is good, above means still remembered, below
    means too brutal. FID (28) is the share of the forget set where both predict the same class.
    """
    forgotten = predict(model, forget)
    ua = accuracy(forgotten)
    scores = Scores(ua=ua, ra=accuracy(predict(model, retain)), ta=accuracy(predict(model, test)))
    if ideal is None:
        return scores
    reference = predict(ideal, forget) if isinstance(ideal, nn.Module) else ideal
    return Scores(
        scores.ua,
        scores.ra,
        scores.ta,
        rua=ua - accuracy(reference),
        fid=agreement(forgotten.classes, reference.classes),
    )


def accuracy(predictions: Predictions) -> float:
    """The share of correct predictions (3), in percent."""
    return agreement(predictions.classes, predictions.labels)


def agreement(a: Tensor, b: Tensor) -> float:
    """The share of places where ``a`` and ``b`` are equal, in percent."""
    if a.shape != b.shape:
        raise InvalidInput(
            "Predictions to compare should be of the same examples. "
            f"(got {tuple(a.shape)} and {tuple(b.shape)})"
        )
    return 100.0 * float((a == b).double().mean())
