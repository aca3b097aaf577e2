"""Options that several commands on models share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from expunge._options import SEEDS

Data = Annotated[
    str,
    typer.Option(
        help="digits, cifar10:PATH, svhn:PATH, folder:PATH, npz:FILE; see `expunge list datasets`."
    ),
]
Out = Annotated[Path, typer.Option("--out", "-o", help="File for the weights.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the output if it exists.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")]
Initial = Annotated[Path, typer.Argument(help="The initial model, from `expunge train`.")]
Scenario = Annotated[
    str,
    typer.Option(
        "--forget",
        "-f",
        help="What to forget: random:0.1, class:3:0.4 (40 % of class 3) or ids:FILE.",
    ),
]
ScenarioSeed = Annotated[
    int,
    typer.Option(min=0, max=SEEDS[-1], help="Seed of the examples that a scenario draws."),
]
MovedData = Annotated[
    str | None, typer.Option("--data", help="Where the data are now, if they have moved.")
]
