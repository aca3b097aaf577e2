"""``expunge train`` and ``retrain``: the initial model, and the ideal one."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from expunge._files import check_weights_out
from expunge._options import Option, Schedule
from expunge.cli import _options as options
from expunge.cli._output import Output, Quiet, Verbose
from expunge.engine import Recipe
from expunge.models import check_model, read_model_spec

RECIPE = (
    Option("epochs", int, Recipe.epochs, "Passes over the data."),
    Option("batch_size", int, Recipe.batch_size, "Examples per step."),
    Option("lr", float, Recipe.lr, "Learning rate: the first (step) or the highest (one-cycle)."),
    Option(
        "schedule",
        Schedule,
        Recipe.schedule,
        "Of the rate: step is x0.1 after 91 % of the epochs; one-cycle suits short trainings.",
    ),
)


@options.expand_options("recipe", options=RECIPE)
def train_command(
    out: options.Out,
    recipe: dict[str, Any],
    data: options.Data = "digits",
    model: Annotated[
        str | None,
        typer.Option(
            help=f"{options.MODEL}, with options as in vgg16,dropout=0 (default: by the inputs).",
            autocompletion=options.complete_model,
        ),
    ] = None,
    width: Annotated[float, typer.Option(help="Factor on the channels of every layer.")] = 1.0,
    seed: Annotated[
        int, options.seed_option("Seed of initial weights, order and augmentation.")
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
    chosen = Recipe(**{name: value for name, value in recipe.items() if value is not None})
    check_weights_out(out, force=force)
    check_model(read_model_spec(model or "small-cnn")[0], width)
    options.check_inputs(model=model, data=data)
    output = Output(quiet=quiet, verbose=verbose)

    from expunge.evaluation import train_initial

    artifact = train_initial(
        data,
        out,
        model=model,
        width=width,
        recipe=chosen,
        seed=seed,
        limit=limit,
        device=device,
        force=force,
        progress=output.progress,
    )
    output.wrote(f"{out} ({artifact.seconds:.1f} s of steps).")


@options.expand_options(
    "recipe", options=RECIPE, defaults={each.name: "as trained" for each in RECIPE}
)
def retrain_command(
    initial: options.Initial,
    forget: options.Scenario,
    out: options.Out,
    recipe: dict[str, Any],
    model: options.ForeignModel = None,
    data: options.MovedData = None,
    scenario_seed: options.ScenarioSeed = 0,
    seed: Annotated[
        int | None,
        options.seed_option("Seed of the new weights (default: the initial model's + 1000)."),
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
    options.check_inputs(initial, forget=forget, model=model, data=data)
    changes = {name: value for name, value in recipe.items() if value is not None}
    Recipe(**changes)  # refuses what cannot be used, before anything heavy is imported
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
