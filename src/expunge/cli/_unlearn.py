"""``expunge unlearn``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Table

from expunge._files import check_weights_out
from expunge.cli import _options as options
from expunge.cli._output import AsJson, Output, Quiet, Verbose, number_table
from expunge.distributed import check_timeout, launched_group
from expunge.engine import EXECUTION_OPTIONS, Execution, Procedure
from expunge.evaluation import METRICS, score_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from expunge.evaluation import Scores, TextScores


PREFERRED = ("aggregate", "epochs", "batch_size", "lr", "batchnorm", "schedule")
"""Options that methods have preferences for."""


@options.expand_options("procedure", defaults=dict.fromkeys(PREFERRED, "what suits the method"))
@options.expand_options("machine", options=EXECUTION_OPTIONS)
def unlearn_command(
    initial: options.Initial,
    forget: options.Scenario,
    out: options.Out,
    procedure: dict[str, Any],
    machine: dict[str, Any],
    seed: Annotated[int, options.seed_option("Seed of order, augmentation and random labels.")] = 0,
    scenario_seed: options.ScenarioSeed = 0,
    ideal: Annotated[
        Path | None,
        typer.Option(help="The ideal model, from `expunge retrain`: for rUA and FID."),
    ] = None,
    evaluate: Annotated[
        Literal["never", "end", "every-epoch"], typer.Option(help="When to score the model.")
    ] = "end",
    model: options.ForeignModel = None,
    data: options.MovedData = None,
    device: options.Device = "auto",
    timeout: Annotated[
        float, typer.Option(help="Under torchrun: seconds to wait for other processes.")
    ] = 1800.0,
    force: options.Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Unlearn a part of the training data. If interrupted, the same command resumes.

    To share the work among processes:  torchrun --nproc-per-node 2 -m expunge unlearn …

    Example:  expunge unlearn initial.safetensors --forget random:0.1 --method SRL --addon FOCUS
    --ideal ideal.safetensors -o unlearned.safetensors
    """
    check_weights_out(out, force=force)
    options.check_inputs(initial, ideal, forget=forget, model=model, data=data)
    check_timeout(timeout)
    output = Output(as_json=as_json, quiet=quiet, verbose=verbose)
    chosen = Procedure.from_plain(procedure)

    from expunge.engine import load_artifact
    from expunge.evaluation import recipe_to_follow, unlearn_artifact

    with launched_group(device, timeout) as group:
        first = load_artifact(initial, model=model, data=data)
        recipe = recipe_to_follow(chosen.method, first.card)
        unlearned, scores = unlearn_artifact(
            first,
            forget,
            out,
            Procedure.from_plain(procedure, recipe),
            execution=Execution.from_plain(
                machine, seed=seed, device=device, group=group, progress=output.progress
            ),
            data=data,
            scenario_seed=scenario_seed,
            ideal=None
            if ideal is None
            else load_artifact(ideal, model=model, data=data, stage="ideal"),
            evaluate_at=evaluate,
            force=force,
        )
    if not group.is_first:
        return
    seconds = unlearned.seconds
    output.data({"file": out, "seconds": seconds, "scores": scores_data(scores)})
    if scores:
        show_scores(output, scores)
    output.wrote(f"{out} ({seconds:.1f} s of steps).")


def show_scores(output: Output, columns: dict[str, Scores]) -> None:
    """The table of scores, and why others are not in it."""
    output.show(scores_table(columns))
    left_out: dict[str, list[str]] = {}
    for name, why in next(iter(columns.values())).left_out.items():
        left_out.setdefault(why, []).append(METRICS[name].label)
    for why, names in left_out.items():
        output.show(f"[dim]No {', '.join(names)}: {why}.[/]")


def scores_data(columns: dict[str, Scores]) -> dict[str, Any]:
    """The same as JSON."""
    data: dict[str, Any] = {name: score.as_dict() for name, score in columns.items()}
    left_out = next((score.left_out for score in columns.values()), {})
    return data | ({"left_out": dict(left_out)} if left_out else {})


def scores_table(columns: Mapping[str, Scores | TextScores]) -> Table:
    """One row per metric, one column per model."""
    rows = score_rows([score.as_dict() for score in columns.values()], METRICS)
    shown = ([*cells, f"[dim]{text}[/]"] for *cells, text in rows)
    heads = ["", *columns, ""]
    table = number_table(heads, shown, (0, len(heads) - 1), padding=(0, 1))
    table.columns[0].no_wrap = True
    return table
