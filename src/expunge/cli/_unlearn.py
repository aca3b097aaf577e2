"""``expunge unlearn``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from expunge._files import refuse_existing, require_file
from expunge._options import SEEDS
from expunge.cli._options import Device, Force, Initial, MovedData, Out, Scenario, ScenarioSeed
from expunge.cli._procedure_options import takes_procedure_options
from expunge.cli._train import report_written
from expunge.data import parse_scenario
from expunge.data._formats import find_data
from expunge.distributed._launch import check_timeout, launched_group
from expunge.engine import Procedure
from expunge.evaluation import METRICS

if TYPE_CHECKING:
    from expunge.evaluation import Scores


@takes_procedure_options("procedure")
def unlearn_command(
    initial: Initial,
    forget: Scenario,
    out: Out,
    procedure: dict[str, Any],
    seed: Annotated[
        int,
        typer.Option(min=0, max=SEEDS[-1], help="Seed of order, augmentation and random labels."),
    ] = 0,
    scenario_seed: ScenarioSeed = 0,
    ideal: Annotated[
        Path | None,
        typer.Option(help="The ideal model, from `expunge retrain`: for rUA and FID."),
    ] = None,
    evaluate: Annotated[
        Literal["never", "end", "every-epoch"], typer.Option(help="When to score the model.")
    ] = "end",
    data: MovedData = None,
    device: Device = "auto",
    timeout: Annotated[
        float, typer.Option(help="Under torchrun: seconds to wait for other processes.")
    ] = 1800.0,
    force: Force = False,
) -> None:
    """Unlearn a part of the training data. If interrupted, the same command resumes.

    To share the work among processes:  torchrun --nproc-per-node 2 -m expunge unlearn …

    Example:  expunge unlearn initial.safetensors --forget random:0.1 --method SRL --addon FOCUS
    --ideal ideal.safetensors -o unlearned.safetensors
    """
    refuse_existing(out, force=force)
    for path in (initial, ideal):
        if path is not None:
            require_file(path)
    parse_scenario(forget)
    if data is not None:
        find_data(data)
    check_timeout(timeout)
    chosen = Procedure.from_plain(procedure)

    from expunge.engine._artifact import load_artifact
    from expunge.evaluation._model_files import unlearn_artifact

    with launched_group(device, timeout) as group:
        done = unlearn_artifact(
            load_artifact(initial),
            forget,
            out,
            chosen,
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
    report_written(out, done.artifact.seconds)


def scores_table(columns: dict[str, Scores]) -> Table:
    """One row per metric, one column per model."""
    table = Table(box=None, header_style="bold")
    table.add_column("", no_wrap=True)
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    scores = {name: score.as_dict() for name, score in columns.items()}
    for key in METRICS:
        metric = METRICS[key]
        values = [scores[name].get(key) for name in columns]
        if all(value is None for value in values):
            continue
        shown = ["" if v is None else f"{v:.{metric.decimals}f}" for v in values]
        table.add_row(metric.label, *shown, f"[dim]{metric.definition} ({metric.unit})[/]")
    return table
