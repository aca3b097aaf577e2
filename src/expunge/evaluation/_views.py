"""The predictions of one model on every split: all that metrics and attacks see."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.utils.data import DataLoader, RandomSampler

from expunge._errors import InvalidInput
from expunge._kinds import check_arguments, check_fields
from expunge.data import Data, as_arrays
from expunge.distributed import sampler_of
from expunge.engine import Predictions, check_predictions, model_digest, predict

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


_KEPT: weakref.WeakKeyDictionary[nn.Module, tuple[Any, tuple[Any, ...], Views]] = (
    weakref.WeakKeyDictionary()
)


def view_once(model: nn.Module, **splits: Data | None) -> Views:
    """Like :func:`view`, but the passes are made once for the same model, weights and data.

    The weights are compared by a hash, the data by identity (and by the write counters of their
    tensors). Data loaders, which may shuffle, are gone through every time.
    """
    data = tuple(splits.values())
    if any(isinstance(part, DataLoader) for part in data):
        return view(model, **splits)  # type: ignore[arg-type]
    key = (model_digest(model), *((id(part), _writes(part)) for part in data))
    kept = _KEPT.get(model)
    if kept is None or kept[0] != key:
        # Holding the data keeps their identities from being given to others.
        kept = _KEPT[model] = (key, data, view(model, **splits))  # type: ignore[arg-type]
    return kept[2]


def _writes(data: Any) -> tuple[int, ...]:
    """How often each tensor of ``data`` was written to."""
    arrays = as_arrays(data) if data is not None else None
    return () if arrays is None else tuple(part._version for part in arrays)


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
