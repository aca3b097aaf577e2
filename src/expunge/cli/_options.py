"""Options that several commands on models share, and the names that a shell completes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from expunge._kinds import SEEDS
from expunge._registry import Registry
from expunge.data import DATASETS, SCENARIOS, find_data
from expunge.models import MODELS, read_model_spec


def complete_names(registry: Registry[Any]) -> Callable[[str], list[tuple[str, str]]]:
    """Complete the names and short names of a registry, each with a line about it."""

    def complete(incomplete: str) -> list[tuple[str, str]]:
        spellings = ((word, name) for name in registry for word in (name, registry.label(name)))
        return [
            (word, registry.summary(name))
            for word, name in dict(spellings).items()
            if word.lower().startswith(incomplete.lower())
        ]

    return complete


complete_data = complete_names(DATASETS)
complete_model = complete_names(MODELS)
complete_scenario = complete_names(SCENARIOS)
DATA = "digits, cifar10:PATH, svhn:PATH, folder:PATH, npz:FILE, csv:FILE, parquet:FILE, hf:PATH"
DATA += " or package.module:factory; see `expunge list datasets`."
MODEL = "small-cnn, resnet18, vgg16, mlp, text-bag, hf:PATH or package.module:factory"

Data = Annotated[str, typer.Option(help=DATA, autocompletion=complete_data)]
Out = Annotated[
    Path, typer.Option("--out", "-o", help="File for the weights: .safetensors or .pt.")
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the output if it exists.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")]
Initial = Annotated[
    Path, typer.Argument(help="The initial model: from `expunge train`, or .pt or .safetensors.")
]
Scenario = Annotated[
    str,
    typer.Option(
        "--forget",
        "-f",
        help="What to forget: random:0.1, class:3:0.4 (40 % of class 3) or ids:FILE.",
        autocompletion=complete_scenario,
    ),
]
KnownScenario = Annotated[
    str | None,
    typer.Option(
        "--forget",
        "-f",
        help="What was to be forgotten, if the weights do not say: random:0.1, ids:FILE, …",
        autocompletion=complete_scenario,
    ),
]
ScenarioSeed = Annotated[
    int, typer.Option(min=0, max=SEEDS[-1], help="Seed of the examples that a scenario draws.")
]
MovedData = Annotated[
    str | None,
    typer.Option(
        "--data",
        help="Where the data are, if the weights do not say, or if they have moved.",
        autocompletion=complete_data,
    ),
]
ForeignModel = Annotated[
    str | None,
    typer.Option(
        "--model",
        help=f"What the weights are of, if they do not say: {MODEL}.",
        autocompletion=complete_model,
    ),
]


def check_model_and_data(model: str | None, data: str | None) -> None:
    """Refuse a model or data that cannot be meant, before anything heavy is imported."""
    if model is not None:
        read_model_spec(model)
    if data is not None:
        find_data(data)
