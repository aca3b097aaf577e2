"""A model in a file: its weights, and a card that states how to build it and its origin."""

from __future__ import annotations

import json
import math
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
import torch
from torch import nn

from expunge import _tensors as tensors
from expunge._environment import versions
from expunge._errors import DataError, InvalidInput
from expunge._files import TORCH_SUFFIXES, atomic, write_text
from expunge._specs import join_spec
from expunge._strict_json import as_model, read_json
from expunge.data import Division, Splits, absolute_spec, load, no_downloads
from expunge.engine._model_from_config import (
    build_from_config,
    check_model_fits,
    load_checked_weights,
    sizes_for,
)
from expunge.engine._recipe import check_recipe
from expunge.engine._weights import (
    StateDict,
    describe_imports_of_data,
    describe_imports_of_model,
    read_state,
    without_prefix,
)
from expunge.models import is_external, read_model_spec

ModelStage = Literal["initial", "ideal", "unlearned"]


class _Card(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class ModelCard(_Card):
    """How to build the model: the arguments of :func:`expunge.build_model`, its options apart."""

    name: str
    num_classes: int
    in_channels: int
    width: float = 1.0
    options: dict[str, Any] = pydantic.Field(default={}, exclude_if=lambda given: not given)


class DataCard(_Card):
    """Which data it was trained on; ``fingerprint`` is a hash of the training part.

    ``encoding`` describes how a table was turned into tensors, without any of its values.
    ``val_from`` is the split that val is taken out of, where the data have none.
    """

    spec: str
    seed: int = 0
    val_fraction: float = 0.1
    limit: int | None = None
    fingerprint: str = ""
    encoding: list[dict[str, Any]] | None = pydantic.Field(
        default=None, exclude_if=lambda rules: rules is None
    )
    val_from: Literal["train", "test"] = pydantic.Field(
        default="train", exclude_if=lambda split: split == "train"
    )


class Card(_Card):
    """What later commands need to know about a weights file."""

    stage: ModelStage = "initial"
    model: ModelCard
    data: DataCard
    seed: int = 0
    scenario: str | None = None
    scenario_seed: int | None = None
    forgotten: str | None = None
    """Fingerprint of the images that the scenario chose; an ids file may have changed since."""
    recipe: Annotated[dict[str, Any], pydantic.AfterValidator(check_recipe)] = {}
    procedure: dict[str, Any] | None = None
    epochs: list[dict[str, float]] = []
    versions: dict[str, str] = {}


@dataclass(frozen=True)
class Artifact:
    """A model, its card, and the seconds of the steps of the run that has just made it."""

    model: nn.Module
    card: Card
    seconds: float = 0.0


def save_artifact(path: str | Path, model: nn.Module, card: Card) -> None:
    """Write weights (mode 600) and card, each atomically, in one or two files.

    Times are left out, and what JSON has no number for.
    """
    path = Path(path)
    epochs = [
        {k: v for k, v in row.items() if "seconds" not in k and math.isfinite(v)}
        for row in card.epochs
    ]
    stamped = card.model_copy(update={"versions": versions(), "epochs": epochs})
    notes = stamped.model_dump(mode="json")
    if path.suffix.lower() not in TORCH_SUFFIXES:
        tensors.save(path, model.state_dict(), notes)
        return
    write_text(sidecar_of(path), json.dumps(notes, indent=1) + "\n")
    with atomic(path, private=True) as scratch:
        torch.save({name: value.cpu() for name, value in model.state_dict().items()}, scratch)


def load_artifact(
    path: str | Path,
    *,
    model: str | None = None,
    data: str | None = None,
    stage: ModelStage = "initial",
) -> Artifact:
    """Build the model that a file describes, with the weights in the file.

    ``path`` may also be weights of any other origin: then a card beside them (``NAME.card.json``),
    or ``model``, a name with options, and ``data`` describe them, and ``stage`` says which model of
    a run they are. A function of the user that a card names is only called if ``model`` names it,
    too: a weights file must not run code. ``data`` is also for data that have moved.
    """
    path = Path(path)
    state, card = read_weights(path)
    if card is None:
        card = _card_of_foreign(path, model, data, stage)
    else:
        check_named_model(path, card, model)
    if not card.data.fingerprint:
        known = describe_data(card.data, load_card_data(card, data))
        card = card.model_copy(update={"data": known})
    net = build_from_config(card.model.model_dump())
    load_checked_weights(net, without_prefix(state, net), str(path))
    return Artifact(net.eval(), card)


def check_named_model(path: Path, card: Card, model: str | None) -> None:
    """Raise if ``model`` is not that of the card, or if the card alone names code."""
    name = card.model.name
    if model and read_model_spec(model)[0] != name:
        raise InvalidInput(
            f"{path} holds a {name}, as its card says. (got the model {model!r}) Leave `model` out."
        )
    if model and is_external(name) and read_model_spec(model)[1] != card.model.options:
        raise InvalidInput(
            f"The card of {path} passes other options to {name} than were named. (got the model "
            f"{model!r}) If you know them: --model {join_spec(name, card.model.options)}."
        )
    if not model and (code := describe_imports_of_model(name, card.model.options)):
        raise InvalidInput(
            f"The card of {path} names code, {code}, which was not imported. If you know it, name "
            f"it yourself: --model {join_spec(name, card.model.options)}."
        )


def read_weights(path: Path) -> tuple[StateDict, Card | None]:
    """Weights by name, and their card: in the file, or beside it."""
    state, notes = read_state(path)
    if "stage" not in notes:
        path = sidecar_of(path)
        if not path.is_file():
            return state, None
        notes = read_json(path)
    return state, as_model(notes, Card, f"The card of {path} is damaged")


def sidecar_of(path: Path) -> Path:
    """Where the card of weights is, if it is not inside their file."""
    return path.with_name(f"{path.stem}.card.json")


def _card_of_foreign(path: Path, model: str | None, data: str | None, stage: ModelStage) -> Card:
    """A card for weights that somebody else wrote, whose model and data the caller has named."""
    if model is None or data is None:
        raise InvalidInput(
            f"{path} holds weights without a card, so their model is unknown. Give --model (a "
            "built-in name, hf:PATH or package.module:factory) and --data, or put a "
            f"card beside it, {sidecar_of(path).name}."
        )
    name, options = read_model_spec(model)
    width = options.pop("width", 1.0) if not is_external(name) else 1.0
    # Such a model was trained on all of train, so that val comes out of test.
    card = DataCard(spec=absolute_spec(data), val_from="test")
    splits = load_data(card)
    check_model_fits(name, splits.train)
    return Card(
        stage=stage,
        model=ModelCard(name=name, width=width, options=options, **sizes_for(splits)),
        data=describe_data(card, splits),
    )


def describe_data(card: DataCard, splits: Splits) -> DataCard:
    """The card of data with their fingerprint, and how they were encoded."""
    encoding = None if splits.encoding is None else splits.encoding.rule
    known = {"fingerprint": splits.train.fingerprint(), "encoding": encoding}
    return card.model_copy(update=known)


def load_data(card: DataCard, override: str | None = None) -> Splits:
    """Load data as a card describes them, from ``override`` if they have moved."""
    choices = {"seed", "val_fraction", "limit", "val_from"}
    return load(override or card.spec, **{name: getattr(card, name) for name in choices})


def load_card_data(card: Card, override: str | None = None) -> Splits:
    """Load the data that a model was trained on, from ``override`` if they have moved.

    A weights file must not run code, nor start a download: only ``override`` may name such data.
    """
    spec = override or card.data.spec
    if override is None and (code := describe_imports_of_data(spec)):
        raise InvalidInput(
            f"The card of the weights names code, {code}, which was not imported. If you know it, "
            f"name it yourself: --data {spec}."
        )
    with no_downloads() if override is None else nullcontext():
        splits = load_data(card.data, override)
    if card.data.fingerprint and splits.train.fingerprint() != card.data.fingerprint:
        raise DataError(
            f"The training data at {spec} are not those the model was trained on: their "
            "fingerprint differs. Point --data at the original data."
        )
    return splits


def matching_ideal(
    ideal: Artifact | None, card: Card, division: Division, scenario: str, scenario_seed: int
) -> nn.Module | None:
    """The ideal model, refused unless it was retrained without exactly this forget set."""
    if ideal is None:
        return None
    if ideal.card.model.num_classes != card.model.num_classes:
        raise InvalidInput(
            f"The ideal model has {ideal.card.model.num_classes} classes, the model "
            f"{card.model.num_classes}."
        )
    if ideal.card.stage == "ideal" and ideal.card.forgotten is None:
        return ideal.model  # weights without a card: whoever named them so vouches for it
    expected = (division.forget.fingerprint(), card.data.fingerprint)
    actual = (ideal.card.forgotten, ideal.card.data.fingerprint)
    if ideal.card.stage != "ideal" or expected != actual:
        raise InvalidInput(
            f"The ideal model should be retrained without {scenario} (scenario seed "
            f"{scenario_seed}) of the same data. (got {ideal.card.stage}, {ideal.card.scenario}, "
            f"seed {ideal.card.scenario_seed})"
        )
    return ideal.model
