"""``expunge bench plan``, ``run`` and ``status``: carry out a protocol of experiments."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from expunge._durations import format_duration
from expunge._errors import ExpungeError, InvalidInput
from expunge.cli._bench_options import (
    STORE,
    DataRoot,
    Device,
    Keep,
    Only,
    ProtocolName,
    StorePath,
    planned_of,
)
from expunge.store import Store
from expunge.track import TRACKERS

if TYPE_CHECKING:
    from expunge.bench._protocol import Protocol
    from expunge.bench._records import Record
    from expunge.dispatch import Engine, Event


def plan_command(
    protocol: ProtocolName,
    store: StorePath = STORE,
    data: DataRoot = None,
    only: Only = None,
    workers: Annotated[int | None, typer.Option(help="Workers to reckon with.")] = None,
    keep: Keep = "last",
    device: Device = "auto",
    stages: Annotated[bool, typer.Option("--stages", help="List every stage.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Count only; time no steps.")] = False,
) -> None:
    """Show the stages of a protocol, what is shared or there already, and what the rest costs.

    Example:  expunge bench plan paper
    """
    chosen, planned, place = planned_of(protocol, data, only, keep, device)

    from expunge.bench._estimate import estimate
    from expunge.store._environment import cores

    found = estimate(planned, Store(store), place, measure=not quick)
    console = Console()
    console.print(f"[bold]{escape(chosen.name)}[/]: {escape(chosen.title)}")
    console.print(
        f"{found.addon_configurations} configurations of method and add-on, "
        f"{found.configurations - found.addon_configurations} of baselines; "
        f"{found.seeds} seeds: {len({run.unlearn.key for run in planned})} unlearning runs.",
        highlight=False,
    )
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    names = ("stage", "asked for", "shared", "stages", "there", "to run", "work", "disk")
    for name in names:
        table.add_column(name, justify="left" if name == "stage" else "right")
    for kind in found.kinds:
        left = kind.stages - kind.there
        costs = ("", "") if quick else (format_duration(kind.seconds), _size(kind.bytes))
        counts = (kind.uses, kind.uses - kind.stages, kind.stages, kind.there, left)
        table.add_row(kind.kind, *(f"{n:,}" for n in counts), *costs)
    console.print(table)
    if not quick and found.paces:
        side = workers or cores()
        for name, pace in found.paces.items():
            console.print(
                f"  {name}: {1e3 * pace.training:.3g} ms an image to train, "
                f"{1e3 * pace.inference:.3g} ms to run, measured just now",
                highlight=False,
                style="dim",
            )
        console.print(
            f"About {format_duration(found.seconds)} of this machine in all, with {side} workers "
            f"or one, and {_size(found.bytes)} of disk.",
            highlight=False,
        )
    if stages:
        for stage in {s.key: s for run in planned for s in run.stages}.values():
            mark = "there" if Store(store).has(stage) else "     "
            console.print(f"{mark} {stage.key[:12]} {escape(stage.title)}", highlight=False)


def run_command(
    protocol: ProtocolName,
    store: StorePath = STORE,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder for the results; bench-results/PROTOCOL."),
    ] = None,
    data: DataRoot = None,
    only: Only = None,
    workers: Annotated[
        int | None, typer.Option(help="Worker processes; one a core, threads divided.")
    ] = None,
    keep: Keep = "last",
    device: Device = "auto",
    retries: Annotated[
        int, typer.Option(min=0, help="How often a stage whose worker died is tried again.")
    ] = 1,
    engine: Annotated[
        Literal["local", "ray"], typer.Option(help="Worker processes here, or a Ray cluster.")
    ] = "local",
    address: Annotated[
        str | None, typer.Option(help="Ray: the cluster, such as auto or ray://host:10001.")
    ] = None,
    cpus: Annotated[float, typer.Option(help="Ray: processors a stage.")] = 1.0,
    gpus: Annotated[float, typer.Option(help="Ray: GPUs a stage; 0.5 lets two share one.")] = 0.0,
    track: Annotated[
        list[str] | None,
        typer.Option(help="mlflow, mlflow:URI or tensorboard:DIR; repeat for more."),
    ] = None,
) -> None:
    """Run what is missing of a protocol; then write records, tables, figures and the claims.

    Killed at any moment, the same command takes up what is missing. Two of them on one store share
    the work. A stage that fails takes its descendants with it, not the rest.

    Example:  expunge bench run cpu --data ~/data --only cifar10
    """
    began = time.perf_counter()
    if engine == "local" and address is not None:
        raise InvalidInput("--address goes with --engine ray.")
    for spec in track or []:
        TRACKERS.name(spec.partition(":")[0])
    chosen, planned, _ = planned_of(protocol, data, only, keep, device)

    from expunge.bench._records import collect
    from expunge.bench._run import run_planned, stages_of, write_results
    from expunge.dispatch import Display

    used = Store(store)
    errors = Console(stderr=True)
    power = _engine(used, engine, address, cpus, gpus, retries)
    try:
        if errors.is_terminal:
            with Display(chosen.name, console=errors) as display:
                outcome = run_planned(
                    planned,
                    used,
                    workers=workers,
                    retries=retries,
                    report=display,
                    engine=power,
                    keep=keep,
                )
        else:
            lines = Lines(errors, len(stages_of(planned)))
            outcome = run_planned(
                planned,
                used,
                workers=workers,
                retries=retries,
                report=lines,
                engine=power,
                keep=keep,
            )
    finally:
        if power is not None:
            power.close()
    for warning in outcome.warnings:
        errors.print(f"[yellow]Warning:[/] {escape(warning)}", highlight=False)
    folder = out or Path("bench-results") / chosen.name
    written = write_results(chosen, planned, used, folder)
    for spec in track or []:
        _track(spec, collect(planned, used), chosen)
    spent = time.perf_counter() - began
    if not outcome.done and not outcome.failed and not written.paths:
        errors.print(
            f"Nothing to do: all {len(outcome.found)} stages are there, and {folder}/ is up to "
            f"date. ({spent:.1f} s)",
            highlight=False,
        )
        return
    for note in written.notes:
        errors.print(f"  left out, {escape(note)}", style="dim", highlight=False)
    errors.print(f"{outcome}.", highlight=False)
    if written.paths:
        errors.print(
            f"Wrote {len(written.paths)} files to {folder}/; begin with README.md.", highlight=False
        )
    if outcome.failed:
        raise ExpungeError(
            f"{len(outcome.failed)} stages failed, the first: {outcome.failed[0]}. "
            f"`expunge bench status {protocol} --store {store}` shows why."
        )


def status_command(
    protocol: ProtocolName,
    store: StorePath = STORE,
    data: DataRoot = None,
    only: Only = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show tracebacks and output of failures.")
    ] = False,
) -> None:
    """Show how far a protocol is, what failed and why.

    Example:  expunge bench status cpu
    """
    chosen, planned, _ = planned_of(protocol, data, only, "last", "auto")

    from expunge.bench._status import STATES, status

    found = status(planned, Store(store))
    console = Console()
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0), title=chosen.name)
    table.add_column("block")
    for state in STATES:
        table.add_column(state, justify="right")
    for block in chosen.block:
        states = [one.state for one in found if one.block == block.name]
        table.add_row(block.name, *(str(states.count(state) or "") for state in STATES))
    console.print(table)
    for one in found:
        if one.state in ("running", "interrupted", "damaged"):
            console.print(f"{one.state}: {escape(one.stage.title)}", highlight=False)
        if one.failure is not None:
            why = f"{one.failure.get('error')}: {one.failure.get('message')}"
            console.print(
                f"[red]failed[/]: {escape(one.stage.title)}\n  {escape(why)}", highlight=False
            )
            if verbose:
                for part in ("traceback", "output"):
                    console.print(escape(str(one.failure.get(part, ""))), style="dim")
    if any(one.state != "done" for one in found):
        console.print(f"Go on with:  expunge bench run {protocol} --store {store}")


class Lines:
    """A report for logs: one line a finished or failed stage."""

    def __init__(self, console: Console, total: int) -> None:
        self.console, self.total, self.ended = console, total, 0

    def __call__(self, event: Event) -> None:
        if event.what in ("done", "found", "failed", "skipped"):
            self.ended += 1
        if event.what in ("done", "failed", "retried"):
            clock = time.strftime("%H:%M:%S")
            text = f"{clock} {event.what} {self.ended}/{self.total} {event.stage.title}"
            text += f" ({event.seconds:.1f} s)" if event.what == "done" else f": {event.text}"
            self.console.print(text, highlight=False, markup=False, soft_wrap=True)


def _engine(
    store: Store,
    engine: str,
    address: str | None,
    cpus: float,
    gpus: float,
    retries: int,
) -> Engine | None:
    if engine == "local":
        return None
    from expunge.dispatch._ray import RayEngine

    return RayEngine(store, address=address, cpus=cpus, gpus=gpus, retries=retries)


def _track(spec: str, records: list[Record], protocol: Protocol) -> None:
    from expunge.track import open_tracker, track_runs

    runs = [
        {
            "name": f"{protocol.name}/{r['block']}/{r['scenario']}/{r.label}/seed-{r['seed']}",
            "params": r.settings,
            "tags": {"expunge.key": r.key, "expunge.protocol": protocol.name},
            "epochs": r.epochs,
            "status": "failed" if r.diverged else "finished",
        }
        for r in records
    ]
    track_runs(runs, open_tracker(spec))


def _size(count: int) -> str:
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} B"
