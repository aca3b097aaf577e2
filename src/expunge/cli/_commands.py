"""``expunge train``, ``retrain`` and ``unlearn``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from expunge.cli._procedure_options import takes_procedure_options
from expunge.cli._tables import scores_table
from expunge.distributed._launch import joined
from expunge.engine import Procedure, Recipe
from expunge.engine._artifact import load_artifact
from expunge.evaluation import _model_files as model_files

Data = Annotated[
    str,
    typer.Option(
        help="digits, cifar10:PATH, svhn:PATH, folder:PATH, npz:FILE; `expunge list datasets`."
    ),
]
Out = Annotated[Path, typer.Option("--out", "-o", help="Where to write the weights.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the output if it exists.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps.")]
Initial = Annotated[Path, typer.Argument(help="The initial model, from `expunge train`.")]
Scenario = Annotated[
    str,
    typer.Option(
        "--forget",
        "-f",
        help="What to forget: random:0.1, class:3:0.4 (40 % of class 3), ids:FILE.",
    ),
]
ScenarioSeed = Annotated[int, typer.Option(help="Decides which examples a scenario draws.")]
MovedData = Annotated[
    str | None, typer.Option("--data", help="Where the data are now, if they have moved.")
]


def train_command(
    out: Out,
    data: Data = "digits",
    model: Annotated[
        str | None, typer.Option(help="small-cnn, resnet18, vgg16; by the image size if left out.")
    ] = None,
    width: Annotated[float, typer.Option(help="Multiplies every layer's channels.")] = 1.0,
    epochs: Annotated[int, typer.Option(help="Passes over the training part.")] = 100,
    batch_size: Annotated[int, typer.Option(help="Examples a step.")] = 256,
    lr: Annotated[float, typer.Option(help="Initial (step) or highest (one-cycle) rate.")] = 0.1,
    schedule: Annotated[
        Literal["step", "one-cycle"],
        typer.Option(help="step: x0.1 after 91 % of the epochs; one-cycle: for short trainings."),
    ] = "step",
    seed: Annotated[int, typer.Option(help="Of initial weights, order and augmentation.")] = 0,
    limit: Annotated[int | None, typer.Option(help="Train on only so many images.")] = None,
    device: Device = "auto",
    force: Force = False,
) -> None:
    """Train an initial model. Killed, the same command goes on where it was.

    Example:  expunge train --data digits --epochs 40 --batch-size 64 -o initial.safetensors
    """
    recipe = Recipe(epochs=epochs, batch_size=batch_size, lr=lr, schedule=schedule)
    artifact = model_files.train_initial(
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
    _say_written(out, artifact.card.seconds)


def retrain_command(
    initial: Initial,
    forget: Scenario,
    out: Out,
    data: MovedData = None,
    scenario_seed: ScenarioSeed = 0,
    seed: Annotated[
        int | None, typer.Option(help="Of the new weights; the initial seed + 1000 if left out.")
    ] = None,
    device: Device = "auto",
    force: Force = False,
) -> None:
    """Retrain without the forgotten data: the ideal model that unlearning is measured against.

    Example:  expunge retrain initial.safetensors --forget random:0.1 -o ideal.safetensors
    """
    artifact = model_files.retrain_ideal(
        load_artifact(initial),
        forget,
        out,
        data=data,
        scenario_seed=scenario_seed,
        seed=seed,
        device=device,
        force=force,
    )
    _say_written(out, artifact.card.seconds)


@takes_procedure_options("procedure")
def unlearn_command(
    initial: Initial,
    forget: Scenario,
    out: Out,
    procedure: dict[str, Any],
    seed: Annotated[int, typer.Option(help="Of order, augmentation and random labels.")] = 0,
    scenario_seed: ScenarioSeed = 0,
    ideal: Annotated[
        Path | None, typer.Option(help="The ideal model, for rUA and FID: `expunge retrain`.")
    ] = None,
    evaluate: Annotated[
        Literal["never", "end", "every-epoch"], typer.Option(help="When to score the model.")
    ] = "end",
    data: MovedData = None,
    device: Device = "auto",
    timeout: Annotated[
        float, typer.Option(help="Under torchrun: seconds to wait for another process.")
    ] = 1800.0,
    force: Force = False,
) -> None:
    """Unlearn a part of the training data. Killed, the same command goes on where it was.

    Several processes share the work:  torchrun --nproc-per-node 2 -m expunge unlearn …

    Example:  expunge unlearn initial.safetensors --forget random:0.1 --method SRL --addon FOCUS
    --ideal ideal.safetensors -o unlearned.safetensors
    """
    with joined(device, timeout) as group:
        done = model_files.unlearn_artifact(
            load_artifact(initial),
            forget,
            out,
            Procedure.from_plain(procedure),
            seed=seed,
            device=device,
            data=data,
            scenario_seed=scenario_seed,
            ideal=None if ideal is None else load_artifact(ideal),
            evaluate_at=evaluate,
            force=force,
            group=group,
        )
    if not group.is_first:
        return
    if done.before is not None and done.after is not None:
        columns = {"initial": done.before, "unlearned": done.after, "ideal": done.ideal}
        Console().print(scores_table({k: s for k, s in columns.items() if s is not None}))
    _say_written(out, done.artifact.card.seconds)


def _say_written(out: Path, seconds: float) -> None:
    Console(stderr=True).print(f"Wrote {out} ({seconds:.1f} s of steps).", highlight=False)
