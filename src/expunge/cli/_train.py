"""``expunge train`` and ``retrain``: the initial model, and the ideal one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from expunge._files import refuse_existing, require_file
from expunge._options import SEEDS
from expunge.cli._options import (
    Data,
    Device,
    Force,
    Initial,
    MovedData,
    Out,
    Scenario,
    ScenarioSeed,
)
from expunge.data import parse_scenario
from expunge.data._formats import find_data
from expunge.engine import Recipe
from expunge.models._build import check_model


def train_command(
    out: Out,
    data: Data = "digits",
    model: Annotated[
        str | None,
        typer.Option(help="small-cnn, resnet18 or vgg16 (default: by the size of the images)."),
    ] = None,
    width: Annotated[float, typer.Option(help="Factor on the channels of every layer.")] = 1.0,
    epochs: Annotated[int, typer.Option(help="Passes over the training data.")] = 100,
    batch_size: Annotated[int, typer.Option(help="Examples per step.")] = 256,
    lr: Annotated[
        float, typer.Option(help="Learning rate: the first (step) or the highest (one-cycle).")
    ] = 0.1,
    schedule: Annotated[
        Literal["step", "one-cycle"],
        typer.Option(help="step: x0.1 after 91 % of the epochs; one-cycle: for short trainings."),
    ] = "step",
    seed: Annotated[
        int,
        typer.Option(min=0, max=SEEDS[-1], help="Seed of initial weights, order and augmentation."),
    ] = 0,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Train on at most this many images.")
    ] = None,
    device: Device = "auto",
    force: Force = False,
) -> None:
    """Train an initial model. If interrupted, the same command resumes.

    Example:  expunge train --data digits --epochs 40 --batch-size 64 -o initial.safetensors
    """
    recipe = Recipe(epochs=epochs, batch_size=batch_size, lr=lr, schedule=schedule)
    refuse_existing(out, force=force)
    check_model(model or "small-cnn", width)
    find_data(data)

    from expunge.evaluation._model_files import train_initial

    artifact = train_initial(
        data,
        out,
        model=model,
        width=width,
        recipe=recipe,
        seed=seed,
        limit=limit,
        device=device,
        force=force,
    )
    report_written(out, artifact.seconds)


def retrain_command(
    initial: Initial,
    forget: Scenario,
    out: Out,
    data: MovedData = None,
    scenario_seed: ScenarioSeed = 0,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=SEEDS[-1],
            help="Seed of the new weights (default: the initial model's + 1000).",
        ),
    ] = None,
    device: Device = "auto",
    force: Force = False,
) -> None:
    """Retrain without the forgotten data: the ideal model that unlearning is compared with.

    Example:  expunge retrain initial.safetensors --forget random:0.1 -o ideal.safetensors
    """
    refuse_existing(out, force=force)
    require_file(initial)
    parse_scenario(forget)
    if data is not None:
        find_data(data)

    from expunge.engine._artifact import load_artifact
    from expunge.evaluation._model_files import retrain_ideal

    artifact = retrain_ideal(
        load_artifact(initial),
        forget,
        out,
        data=data,
        scenario_seed=scenario_seed,
        seed=seed,
        device=device,
        force=force,
    )
    report_written(out, artifact.seconds)


def report_written(out: Path, seconds: float) -> None:
    """Say which file was written, and how long its training took."""
    Console(stderr=True).print(f"Wrote {out} ({seconds:.1f} s of steps).", highlight=False)
