"""Options that several commands on models share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from expunge._kinds import SEEDS
from expunge.cli._completion import complete_data, complete_model, complete_scenario

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
    from expunge.data import find_data
    from expunge.models import read_model_spec

    if model is not None:
        read_model_spec(model)
    if data is not None:
        find_data(data)
