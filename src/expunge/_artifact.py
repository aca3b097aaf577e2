"""A model in one file: weights, and a card that says how to build it and where it came from."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pydantic
import torch
from torch import nn

from expunge import _tensors as tensors
from expunge._errors import DataError, InvalidInput
from expunge.models import build_model


class _Part(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class ModelCard(_Part):
    """How to build the model."""

    name: str
    num_classes: int
    in_channels: int
    width: float = 1.0


class DataCard(_Part):
    """Which data it saw; ``fingerprint`` is a hash of the training part."""

    spec: str
    seed: int = 0
    val_fraction: float = 0.1
    limit: int | None = None
    fingerprint: str


class Card(_Part):
    """What a later command needs to know about a weights file."""

    stage: Literal["initial", "ideal", "unlearned"]
    model: ModelCard
    data: DataCard
    seed: int = 0
    scenario: str | None = None
    scenario_seed: int | None = None
    forgotten: str | None = None
    """Fingerprint of what the scenario chose, which an ids file alone does not fix."""
    recipe: dict[str, Any] = {}
    procedure: dict[str, Any] | None = None
    epochs: list[dict[str, float]] = []
    seconds: float = 0.0
    versions: dict[str, str] = {}


@dataclass(frozen=True)
class Artifact:
    """A model and its card."""

    model: nn.Module
    card: Card


def save_artifact(path: str | Path, model: nn.Module, card: Card) -> None:
    """Write weights and card to one safetensors file, atomically."""
    stamped = card.model_copy(update={"versions": versions()})
    tensors.save(path, model.state_dict(), stamped.model_dump(mode="json"))


def load_artifact(path: str | Path) -> Artifact:
    """Build the model a file describes and fill in its weights."""
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


def fit_weights(model: nn.Module, state: dict[str, torch.Tensor], source: str) -> None:
    """Load ``state`` into ``model``, or say what does not fit."""
    own = model.state_dict()
    missing, extra = sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys())
    wrong = [k for k in own.keys() & state.keys() if own[k].shape != state[k].shape]
    if missing or extra or wrong:
        parts = [
            *([f"missing {', '.join(missing[:3])}"] if missing else []),
            *([f"unexpected {', '.join(extra[:3])}"] if extra else []),
            *(
                f"{k} is {tuple(state[k].shape)}, not {tuple(own[k].shape)}"
                for k in sorted(wrong)[:3]
            ),
        ]
        raise InvalidInput(f"The weights in {source} do not fit the model: {'; '.join(parts)}.")
    model.load_state_dict(state)


def versions() -> dict[str, str]:
    """What this ran on."""
    from expunge import __version__

    return {
        "expunge": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
    }
