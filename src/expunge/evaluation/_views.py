"""The predictions of one model on every split: all that metrics and attacks see."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, RandomSampler

from expunge._errors import InvalidInput
from expunge._kinds import check_arguments, check_fields
from expunge.data import Data
from expunge.distributed import sampler_of
from expunge.engine import Predictions, check_predictions, predict

SPLITS = ("forget", "retain", "test", "val")


@dataclass(frozen=True, eq=False)
class Views:
    """One model's predictions, split by split.

    Args:
        forget: the examples whose membership is in question.
        test: examples the model never saw: the other side of the question.
        retain: examples it was trained on and still may know.
        val: more examples it never saw, for attacks to learn from.
    """

    forget: Predictions
    test: Predictions
    retain: Predictions | None = None
    val: Predictions | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        for name, part in self.items():
            check_predictions(part, f"the {name} set")
        widths = {part.logits.shape[1] for _, part in self.items()}
        if len({part.labels.is_floating_point() for _, part in self.items()}) > 1:
            raise InvalidInput(
                "All splits should have class numbers for labels, or all the numbers of a "
                "regression. (got both)"
            )
        if len(widths) > 1:
            raise InvalidInput(f"All splits should have the same classes. (got {sorted(widths)})")

    @property
    def is_regression(self) -> bool:
        """Whether labels are numbers rather than classes."""
        return self.forget.labels.is_floating_point()

    def items(self) -> Iterator[tuple[str, Predictions]]:
        """The splits that were given, by name."""
        for name in SPLITS:
            part = getattr(self, name)
            if part is not None:
                yield name, part

    def split(self, name: str) -> Predictions:
        """One split by name; an error if it was not given."""
        part = getattr(self, name) if name in SPLITS else None
        if part is None:
            raise InvalidInput(f"Predictions of the {name} set are needed, and were not given.")
        return part  # type: ignore[no-any-return]

    def of_forget_classes(self) -> Views:
        """The same with unseen data of the forget set's classes only, for a fair comparison."""
        classes = torch.unique(self.forget.labels)

        def restrict(part: Predictions) -> Predictions:
            return part.take(torch.isin(part.labels, classes).nonzero()[:, 0])

        val = None if self.val is None else restrict(self.val)
        return Views(self.forget, restrict(self.test), self.retain, val)


def view(
    model: nn.Module,
    *,
    forget: Data,
    test: Data,
    retain: Data | None = None,
    val: Data | None = None,
) -> Views:
    """Predict every split, in one pass over each."""
    check_arguments(view, locals())
    given = {"forget": forget, "test": test, "retain": retain, "val": val}
    for name, data in given.items():
        if isinstance(data, DataLoader) and isinstance(sampler_of(data), RandomSampler):
            raise InvalidInput(
                f"`{name}` should keep its order, since models are compared example by example. "
                "(got a DataLoader that shuffles) Pass its dataset, or one without `shuffle`."
            )
    return Views(**{k: predict(model, v, name=k) for k, v in given.items() if v is not None})


def check_same_labels(ideal: Predictions, model: Predictions) -> None:
    """Refuse predictions of an ideal model on other classes or other examples."""
    check_arguments(check_same_labels, locals())
    if ideal.logits.shape[1] != model.logits.shape[1]:
        raise InvalidInput(
            "Models to compare should have the same classes. "
            f"(got {ideal.logits.shape[1]} and {model.logits.shape[1]})"
        )
    if ideal.labels.shape != model.labels.shape or bool((ideal.labels != model.labels).any()):
        raise InvalidInput(
            "Predictions to compare should be of the same examples, in the same order. "
            f"(got {len(ideal.labels)} and {len(model.labels)} examples, or other labels)"
        )
