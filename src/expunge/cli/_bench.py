"""``expunge bench plan``, ``run`` and ``status``: carry out a protocol of experiments."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.markup import escape

from expunge._errors import ExpungeError, InvalidInput
from expunge._files import refuse_no_folder
from expunge.cli import _bench_options as options
from expunge.cli._options import complete_names
from expunge.cli._output import AsJson, Output, Quiet, number_table
from expunge.store import Store
from expunge.track import TRACKERS, open_tracker

if TYPE_CHECKING:
    from expunge.bench._protocol import Protocol
    from expunge.bench._results import BenchResult
    from expunge.bench._run import StageStatus
    from expunge.dispatch import Engine
    from expunge.track import Tracker


def plan_command(
    protocol: options.ProtocolName,
    store: options.StorePath = options.STORE,
    data: options.DataRoot = None,
    only: options.Only = None,
    seeds: options.SeedCount = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show the stages of a protocol, and how many of them are done.

    Example:  expunge bench plan paper
    """
    chosen, planned = options.planned_runs(protocol, data, only, seeds)

    from expunge.bench._run import count_stages

    # Count configurations, runs and stages.
    counts = count_stages(planned, Store(store))
    configurations = {dataclasses.replace(run, seed=0, stage=None) for run in planned}
    with_addons = sum(not each.baseline for each in configurations)
    seed_count = len({run.seed for run in planned})
    run_count = len({run.stage for run in planned})

    # Show them.
    output = Output(as_json=as_json, quiet=quiet)
    output.data(
        {
            "protocol": chosen.name,
            "configurations": len(configurations),
            "addon_configurations": with_addons,
            "seeds": seed_count,
            "runs": run_count,
            "kinds": counts,
        }
    )
    output.show(f"[bold]{escape(chosen.name)}[/]: {escape(chosen.title)}", highlight=True)
    output.show(
        f"{with_addons} configurations of method and add-on, "
        f"{len(configurations) - with_addons} of baselines; "
        f"{seed_count} seeds: {run_count} unlearning runs."
    )
    rows = []
    for count in counts:
        uses, stages, there = (count[name] for name in ("uses", "stages", "there"))
        numbers = (uses, uses - stages, stages, there, stages - there)
        rows.append([count["kind"], *(f"{number:,}" for number in numbers)])
    heads = ("stage", "needed", "shared", "stages", "done", "to run")
    output.show(number_table(heads, rows), highlight=True)


def run_command(
    protocol: options.ProtocolName,
    store: options.StorePath = options.STORE,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Folder for the results (default: bench-results/PROTOCOL)."
        ),
    ] = None,
    data: options.DataRoot = None,
    only: options.Only = None,
    seeds: options.SeedCount = None,
    finished: Annotated[
        bool, typer.Option("--finished", help="Run nothing: write what is finished.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, help="Worker processes, which share the threads (default: one per core)."
        ),
    ] = None,
    keep: Annotated[
        Literal["last", "none"], typer.Option(help="Whether to keep the unlearned weights.")
    ] = "last",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")] = "auto",
    retries: Annotated[
        int, typer.Option(min=0, help="How often to retry a stage whose worker died.")
    ] = 1,
    engine: Annotated[
        Literal["local", "ray"], typer.Option(help="Worker processes here, or a Ray cluster.")
    ] = "local",
    address: Annotated[
        str | None, typer.Option(help="Ray: the cluster, such as auto or ray://host:10001.")
    ] = None,
    cpus: Annotated[float, typer.Option(help="Ray: processors per stage.")] = 1.0,
    gpus: Annotated[
        float, typer.Option(help="Ray: GPUs per stage; with 0.5, two stages share one.")
    ] = 0.0,
    track: Annotated[
        list[str] | None,
        typer.Option(
            help="Tracker: mlflow:URI, tensorboard:DIR or wandb:DIR (repeatable).",
            autocompletion=complete_names(TRACKERS),
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Run the missing stages of a protocol; then write results, tables, figures and claims.

    If it is interrupted at any moment, the same command resumes it. Several such commands on one
    store share the work. A stage that fails takes only those that depend on it with it.

    Example:  expunge bench run cpu --data ~/data --only cifar10
    """
    # Check the arguments before anything heavy is imported.
    if engine == "local" and address is not None:
        raise InvalidInput("--address goes with --engine ray.")
    for spec in track or []:
        TRACKERS.name(spec.partition(":")[0])
    if out is not None:
        refuse_no_folder(out)
    chosen, planned = options.planned_runs(protocol, data, only, seeds, keep, device)
    folder = out or Path("bench-results") / chosen.name
    refuse_no_folder(folder)

    from expunge.bench._publish import publish
    from expunge.bench._run import collect, run_planned
    from expunge.dispatch import Display

    # Open the trackers now: one that does not answer should not be found out after the run.
    trackers = [open_tracker(spec) for spec in track or []]

    # Run what is missing.
    stages = Store(store)
    output = Output(quiet=quiet)
    power: Engine | None = None
    if engine == "ray":
        from expunge.dispatch import RayEngine

        power = RayEngine(stages, address=address, cpus=cpus, gpus=gpus, retries=retries)
    try:
        with Display(chosen.name, console=output.messages, log=True) as report:
            wanted = [] if finished else planned
            outcome = run_planned(
                wanted, stages, workers=workers, retries=retries, report=report, engine=power
            )
    finally:
        if power is not None:
            power.close()
    for warning in outcome.warnings:
        output.message(f"[yellow]Warning:[/] {escape(warning)}")

    # Publish what is finished of the whole protocol, whatever was asked for this time.
    try:
        chosen, planned = options.planned_runs(protocol, data, seeds=seeds, besides=True)
    except ExpungeError as error:  # data of another block that are elsewhere
        output.message(f"[yellow]Warning:[/] published without other blocks: {escape(str(error))}")
    results = collect(planned, stages)
    if finished and not results:
        raise ExpungeError(f"Nothing of {chosen.name} is finished in {store}.")
    paths, notes = publish(chosen, results, folder) if results else ([], [])
    for tracker in trackers:
        _track(tracker, results, chosen)

    # Say what happened.
    for note in notes:
        output.message(f"  left out, {escape(note)}", style="dim")
    output.message(f"{outcome}.")
    if paths:
        output.wrote(f"{len(paths)} files to {folder}/; begin with README.md.")
    if outcome.failed:
        raise ExpungeError(
            f"{len(outcome.failed)} stages failed, the first: {outcome.failed[0]}. "
            f"`expunge bench status {protocol} --store {store}` shows why."
        )


def status_command(
    protocol: options.ProtocolName,
    store: options.StorePath = options.STORE,
    data: options.DataRoot = None,
    only: options.Only = None,
    seeds: options.SeedCount = None,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Show traceback and output of failed stages."),
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show how far a protocol has come, which stages failed, and why.

    Example:  expunge bench status cpu
    """
    chosen, planned = options.planned_runs(protocol, data, only, seeds)

    from expunge.bench._run import STATES, status

    statuses = status(planned, Store(store))
    output = Output(as_json=as_json, quiet=quiet)
    output.data(
        [
            {"block": one.block, "key": one.stage.key, "title": one.stage.title}
            | {"state": one.state, "failure": one.failure}
            for one in statuses
        ]
    )
    rows = []
    for block in chosen.block:
        states = [one.state for one in statuses if one.block == block.name]
        rows.append([block.name, *(str(states.count(state) or "") for state in STATES)])
    output.show(number_table(["block", *STATES], rows, title=chosen.name), highlight=True)
    for one in statuses:
        _show_unfinished(one, output, verbose=verbose)
    if any(one.state != "done" for one in statuses):
        again = ["expunge", "bench", "run", protocol, "--store", str(store)]
        again += [] if data is None else ["--data", str(data)]
        output.show(f"Resume with:  {shlex.join(again)}", highlight=True)


def _show_unfinished(one: StageStatus, output: Output, *, verbose: bool) -> None:
    if one.state in ("running", "interrupted", "damaged"):
        output.show(f"{one.state}: {escape(one.stage.title)}")
    if one.failure is not None:
        why = f"{one.failure.get('error')}: {one.failure.get('message')}"
        output.show(f"[red]failed[/]: {escape(one.stage.title)}\n  {escape(why)}")
        if verbose:
            for part in ("traceback", "output"):
                output.show(escape(str(one.failure.get(part, ""))), style="dim", highlight=True)


def _track(tracker: Tracker, results: list[BenchResult], protocol: Protocol) -> None:
    from expunge.track import track_runs

    runs = [
        {
            "name": f"{protocol.name}/{r.block}/{r.scenario}/{r.label}/seed-{r.seed}",
            "key": r.key,
            "params": r.settings,
            "epochs": r.epochs,
            "status": "failed" if r.diverged else "finished",
        }
        for r in results
    ]
    track_runs(runs, tracker)
