"""``expunge train`` and ``retrain``: the initial model, and the ideal one."""

from __future__ import annotations

from typing import Annotated

import typer

from expunge._files import check_weights_out, require_file
from expunge._options import Schedule
from expunge.cli import _options as options
from expunge.cli._output import Output, Quiet, Verbose
from expunge.data import parse_scenario
from expunge.engine import Recipe
from expunge.models import check_model, read_model_spec

SCHEDULE = "constant, linear, step (x0.1 after 91 % of the epochs), one-cycle (for short ones)."


def train_command(
    out: options.Out,
    data: options.Data = "digits",
    model: Annotated[
        str | None,
        typer.Option(
            help=f"{options.MODEL}, with options as in vgg16,dropout=0 (default: by the inputs).",
            autocompletion=options.complete_model,
        ),
    ] = None,
    width: Annotated[float, typer.Option(help="Factor on the channels of every layer.")] = 1.0,
    epochs: Annotated[int, typer.Option(help="Passes over the training data.")] = 100,
    batch_size: Annotated[int, typer.Option(help="Examples per step.")] = 256,
    lr: Annotated[
        float, typer.Option(help="Learning rate: the first (step) or the highest (one-cycle).")
    ] = 0.1,
    schedule: Annotated[Schedule, typer.Option(metavar="NAME", help=SCHEDULE)] = "step",
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of initial weights, order and augmentation.")
    ] = 0,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Train on at most this many examples.")
    ] = None,
    device: options.Device = "auto",
    force: options.Force = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Train an initial model. If interrupted, the same command resumes.

    Example:  expunge train --data digits --epochs 40 --batch-size 64 -o initial.safetensors
    """
    recipe = Recipe(epochs=epochs, batch_size=batch_size, lr=lr, schedule=schedule)
    check_weights_out(out, force=force)
    check_model(read_model_spec(model or "small-cnn")[0], width)
    options.check_model_and_data(model, data)
    output = Output(quiet=quiet, verbose=verbose)

    from expunge.evaluation import train_initial

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
        progress=output.progress,
    )
    output.wrote(f"{out} ({artifact.seconds:.1f} s of steps).")


def retrain_command(
    initial: options.Initial,
    forget: options.Scenario,
    out: options.Out,
    model: options.ForeignModel = None,
    data: options.MovedData = None,
    scenario_seed: options.ScenarioSeed = 0,
    epochs: Annotated[
        int | None, typer.Option(help="Passes over the retained data (default: as trained).")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Examples per step (default: as trained).")
    ] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate (default: as trained).")] = None,
    schedule: Annotated[
        Schedule | None,
        typer.Option(metavar="NAME", help=f"{SCHEDULE[:-1]} (default: as trained)."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Seed of the new weights (default: the initial model's + 1000)."),
    ] = None,
    device: options.Device = "auto",
    force: options.Force = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Retrain without the forgotten data: the ideal model that unlearning is compared with.

    Example:  expunge retrain initial.safetensors --forget random:0.1 -o ideal.safetensors
    """
    check_weights_out(out, force=force)
    require_file(initial)
    parse_scenario(forget)
    options.check_model_and_data(model, data)
    given = {"epochs": epochs, "batch_size": batch_size, "lr": lr, "schedule": schedule}
    changes = {name: value for name, value in given.items() if value is not None}
    Recipe(**changes)  # type: ignore[arg-type]
    output = Output(quiet=quiet, verbose=verbose)

    from expunge.engine import load_artifact
    from expunge.evaluation import retrain_ideal

    first = load_artifact(initial, model=model, data=data)
    artifact = retrain_ideal(
        first,
        forget,
        out,
        data=data,
        scenario_seed=scenario_seed,
        seed=seed,
        recipe=Recipe(**(first.card.recipe | changes)) if changes else None,
        device=device,
        force=force,
        progress=output.progress,
    )
    output.wrote(f"{out} ({artifact.seconds:.1f} s of steps).")
