"""A model in one file: its weights, and a card that states how to build it and its origin."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pydantic
from torch import nn

from expunge import _tensors as tensors
from expunge._errors import DataError, InvalidInput
from expunge._versions import versions
from expunge.data import Division, Splits, load
from expunge.engine._model_from_config import fit_weights
from expunge.engine._recipe import Recipe
from expunge.models import build_model


class _Card(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class ModelCard(_Card):
    """How to build the model."""

    name: str
    num_classes: int
    in_channels: int
    width: float = 1.0


class DataCard(_Card):
    """Which data it was trained on; ``fingerprint`` is a hash of the training part."""

    spec: str
    seed: int = 0
    val_fraction: float = 0.1
    limit: int | None = None
    fingerprint: str


class Card(_Card):
    """What later commands need to know about a weights file."""

    stage: Literal["initial", "ideal", "unlearned"]
    model: ModelCard
    data: DataCard
    seed: int = 0
    scenario: str | None = None
    scenario_seed: int | None = None
    forgotten: str | None = None
    """Fingerprint of the images that the scenario chose; an ids file may have changed since."""
    recipe: dict[str, Any] = {}
    procedure: dict[str, Any] | None = None
    epochs: list[dict[str, float]] = []
    seconds: float = 0.0
    """In files of earlier versions. Times are in a file beside it: equal runs give equal files."""
    versions: dict[str, str] = {}

    @pydantic.field_validator("recipe")
    @classmethod
    def _makes_a_recipe(cls, values: dict[str, Any]) -> dict[str, Any]:
        try:
            Recipe(**values)
        except TypeError as error:
            raise ValueError(f"{error}") from error
        return values


@dataclass(frozen=True)
class Artifact:
    """A model, its card, and the seconds of the steps of the run that has just made it."""

    model: nn.Module
    card: Card
    seconds: float = 0.0


def save_artifact(path: str | Path, model: nn.Module, card: Card) -> None:
    """Write weights and card to one safetensors file, atomically; without times."""
    epochs = [{k: v for k, v in row.items() if "seconds" not in k} for row in card.epochs]
    stamped = card.model_copy(update={"versions": versions(), "epochs": epochs})
    tensors.save(path, model.state_dict(), stamped.model_dump(mode="json", exclude={"seconds"}))


def load_artifact(path: str | Path) -> Artifact:
    """Build the model that a file describes, with the weights in the file."""
    if Path(path).suffix.lower() in (".pt", ".pth", ".bin", ".ckpt"):
        raise InvalidInput(
            "A model should be a file written by `expunge train`, `retrain` or `unlearn`. (got "
            f"{path}, a torch file, which does not say what model it is of) To forget records of "
            "such a model, use `expunge forget --weights FILE --model package.module:factory "
            "--data ...`, or expunge.unlearn in Python."
        )
    state, notes = tensors.load(path)
    if not notes:
        raise DataError(
            f"{path} holds weights without a card, so their model is unknown. Use a file written "
            "by `expunge train`, `retrain` or `unlearn`."
        )
    try:
        card = Card.model_validate(notes)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise DataError(f"The card of {path} is damaged: {where}: {first['msg']}.") from error
    model = build_model(**card.model.model_dump())
    fit_weights(model, state, str(path))
    return Artifact(model.eval(), card)


def load_card_data(card: Card, override: str | None = None) -> Splits:
    """Load the data that a model was trained on, from ``override`` if they have moved.

    They are checked by their fingerprint.
    """
    spec = override or card.data.spec
    splits = load(
        spec, seed=card.data.seed, val_fraction=card.data.val_fraction, limit=card.data.limit
    )
    if splits.train.fingerprint() != card.data.fingerprint:
        raise DataError(
            f"The training data at {spec} are not those the model was trained on: their "
            "fingerprint differs. Point --data at the original data."
        )
    return splits


def matching_ideal(
    ideal: Artifact | None, card: Card, division: Division, scenario: str, scenario_seed: int
) -> nn.Module | None:
    """The ideal model, refused if it was not retrained without just this forget set."""
    if ideal is None:
        return None
    if ideal.card.model.num_classes != card.model.num_classes:
        raise InvalidInput(
            f"The ideal model has {ideal.card.model.num_classes} classes, the model "
            f"{card.model.num_classes}."
        )
    expected = (division.forget.fingerprint(), card.data.fingerprint)
    actual = (ideal.card.forgotten, ideal.card.data.fingerprint)
    if ideal.card.stage != "ideal" or expected != actual:
        raise InvalidInput(
            f"The ideal model should be retrained without {scenario} (scenario seed "
            f"{scenario_seed}) of the same data. (got {ideal.card.stage}, {ideal.card.scenario}, "
            f"seed {ideal.card.scenario_seed})"
        )
    return ideal.model
