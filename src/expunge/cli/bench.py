"""``expunge bench``: plan, run and read a protocol of experiments."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from expunge.bench.protocol import BUILT_IN, Protocol, load_protocol, protocol_text
from expunge.bench.records import Record, collect, load_records, save_records, where
from expunge.bench.stages import Planned, Where, plan
from expunge.dispatch import Display, Event
from expunge.errors import ExpungeError, InvalidInput
from expunge.files import refuse_existing
from expunge.store import Store

if TYPE_CHECKING:
    from expunge.dispatch import Engine

bench_app = typer.Typer(
    name="bench",
    help="Run a whole protocol of experiments, resumable, and read what came of it.\n\n"
    "A protocol is a small TOML file; demo, cpu and paper come with the package. Every trained "
    "model and every run is a stage in a store, computed once, whatever asks for it.",
    epilog="Start with:  expunge bench run demo",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

ProtocolName = Annotated[
    str, typer.Argument(help=f"{', '.join(BUILT_IN)}, or a TOML file.", show_default=False)
]
StorePath = Annotated[
    Path, typer.Option("--store", "-s", help="Folder of finished stages; any number may share it.")
]
DataRoot = Annotated[
    Path | None, typer.Option("--data", "-d", help="Folder that holds CIFAR-10 or SVHN.")
]
Only = Annotated[list[str] | None, typer.Option("--only", help="A block of the protocol; repeat.")]
Keep = Annotated[
    Literal["all", "last", "none"],
    typer.Option(help="Weights to keep: of every evaluated epoch, of the last, or none."),
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps.")]
RecordsPath = Annotated[
    Path | None, typer.Option("--records", "-r", help="Read a records.jsonl instead of the store.")
]
Conditions = Annotated[
    list[str] | None, typer.Option("--where", "-w", help="name=value, name=a,b; repeat for more.")
]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Write here instead of printing.")]
MaybeProtocol = Annotated[
    str | None,
    typer.Argument(help=f"{', '.join(BUILT_IN)}, or a TOML file; not with --records."),
]
STORE = Path("bench-store")


@bench_app.command("plan")
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
    from expunge.bench.estimate import estimate
    from expunge.store.environment import cores

    chosen, planned, place = _planned(protocol, data, only, keep, device)
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
        costs = ("", "") if quick else (_duration(kind.seconds), _size(kind.bytes))
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
            f"About {_duration(found.seconds)} of this machine in all, with {side} workers or one,"
            f" and {_size(found.bytes)} of disk.",
            highlight=False,
        )
    if stages:
        for stage in {s.key: s for run in planned for s in run.stages}.values():
            mark = "there" if Store(store).has(stage) else "     "
            console.print(f"{mark} {stage.key[:12]} {escape(stage.title)}", highlight=False)


@bench_app.command("run")
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
    from expunge.bench.run import run_planned, stages_of, write_results

    began = time.perf_counter()
    chosen, planned, _ = _planned(protocol, data, only, keep, device)
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


@bench_app.command("status")
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
    from expunge.bench.status import STATES, status

    chosen, planned, _ = _planned(protocol, data, only, "last", "auto")
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


@bench_app.command("table")
def table_command(
    protocol: MaybeProtocol = None,
    like: Annotated[
        str | None,
        typer.Option(help="table1, table2, attacks, moments, epochs, cost; all if left out."),
    ] = None,
    rows: Annotated[
        str | None, typer.Option(help="A free pivot: what to put in rows, such as addon.")
    ] = None,
    cols: Annotated[str, typer.Option(help="What to put in columns.")] = "metric",
    metrics: Annotated[str, typer.Option(help="Metrics, with commas.")] = (
        "mia_entropy,rua,ta,ra,ua,fid"
    ),
    epoch: Annotated[int | None, typer.Option(help="Epoch; the last one if left out.")] = None,
    conditions: Conditions = None,
    form: Annotated[
        Literal["terminal", "markdown", "latex", "csv"], typer.Option("--format", "-f")
    ] = "terminal",
    store: StorePath = STORE,
    records: RecordsPath = None,
    data: DataRoot = None,
    out: Out = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the output.")] = False,
) -> None:
    """Print a table of the paper, or a free pivot: mean ± std over seeds, the best marked.

    Example:  expunge bench table demo --rows addon --cols metric --where method=SRL
    """
    from expunge.bench.paper_tables import TABLES
    from expunge.bench.pivot import pivot
    from expunge.bench.writing import render

    found = _records(protocol, store, records, data, conditions)
    names = [name.strip() for name in metrics.split(",")]
    if rows is not None:
        if like is not None:
            raise InvalidInput("Give --like or --rows, not both.")
        summaries = [pivot(found, rows=rows, cols=cols, metrics=names, epoch=epoch)]
    else:
        wanted = [like] if like is not None else list(TABLES)
        summaries = [summary for name in wanted for summary in TABLES[name](found)]
    if not summaries:
        raise ExpungeError(f"The records at hand hold nothing for {like or 'any table'}.")
    _emit([render(summary, form) for summary in summaries], form, out, force)


@bench_app.command("figure")
def figure_command(
    protocol: MaybeProtocol = None,
    name: Annotated[
        list[str] | None, typer.Option("--name", "-n", help="A figure; repeat; all if left out.")
    ] = None,
    conditions: Conditions = None,
    store: StorePath = STORE,
    records: RecordsPath = None,
    data: DataRoot = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder.")] = Path("figures"),
) -> None:
    """Draw the paper's figures from the records, as PDF, SVG and PNG.

    Names: masking, noisy-masking, agreement, heatmap, addons-srl, focus-methods, addons-ngplus,
    baselines-srl, baselines-ngplus, frontier.

    Example:  expunge bench figure demo --name agreement --name frontier
    """
    from expunge.bench.plots import write_figures

    found = _records(protocol, store, records, data, conditions)
    written = write_figures(found, out, names=name)
    errors = Console(stderr=True)
    for figure, why in written.left_out.items():
        errors.print(f"left out, {escape(figure)}: {escape(why)}", style="dim", highlight=False)
    errors.print(f"Wrote {len(written.paths)} files to {out}/.", highlight=False)


@bench_app.command("claims")
def claims_command(
    protocol: MaybeProtocol = None,
    name: Annotated[
        list[str] | None, typer.Option("--name", "-n", help="A claim; repeat; all if left out.")
    ] = None,
    conditions: Conditions = None,
    form: Annotated[
        Literal["terminal", "markdown", "latex", "csv"], typer.Option("--format", "-f")
    ] = "terminal",
    store: StorePath = STORE,
    records: RecordsPath = None,
    data: DataRoot = None,
    out: Out = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the output.")] = False,
) -> None:
    """Test each claim of the paper on the records: held, not held or inconclusive, and by how much.

    Seeds are paired; no claim is called held on fewer than three.

    Example:  expunge bench claims demo
    """
    from expunge.bench.claims import Ledger

    ledger = Ledger.of(_records(protocol, store, records, data, conditions), names=name)
    text: Any = getattr(ledger, form)()
    _emit([text], form, out, force)


@bench_app.command("records")
def records_command(
    protocol: ProtocolName,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write, JSON lines.")],
    conditions: Conditions = None,
    store: StorePath = STORE,
    data: DataRoot = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the output.")] = False,
) -> None:
    """Write the records of finished runs to one file, to keep or to share; no weights.

    Example:  expunge bench records cpu -o records.jsonl
    """
    refuse_existing(out, force=force)
    found = _records(protocol, store, None, data, conditions)
    save_records(out, found)
    Console(stderr=True).print(f"Wrote {len(found)} records to {out}.", highlight=False)


@bench_app.command("show")
def show_command(protocol: ProtocolName) -> None:
    """Print a protocol's TOML: the start of one of your own.

    Example:  expunge bench show demo > mine.toml
    """
    typer.echo(protocol_text(protocol), nl=False)


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


def _planned(
    protocol: str, data: Path | None, only: list[str] | None, keep: str, device: str
) -> tuple[Protocol, list[Planned], Where]:
    chosen = load_protocol(protocol).only(tuple(only or ()))
    root = None if data is None else str(data.expanduser().resolve())
    if root is not None and not Path(root).exists():
        raise InvalidInput(f"There is no folder {data}.")
    place = Where(root=root, device=device, keep=keep)
    return chosen, plan(chosen, place), place


def _records(
    protocol: str | None,
    store: Path,
    records: Path | None,
    data: Path | None,
    conditions: list[str] | None,
) -> list[Record]:
    if (protocol is None) == (records is None):
        raise InvalidInput("Give a protocol, or --records FILE.")
    if records is not None:
        found = load_records(records)
    else:
        assert protocol is not None
        _, planned, _ = _planned(protocol, data, None, "last", "auto")
        found = collect(planned, Store(store))
    chosen = where(found, conditions or [])
    if not chosen:
        raise ExpungeError(
            "No finished run fits the conditions."
            if found
            else f"There are no finished runs of {protocol} in {store}. Start with `expunge bench "
            f"run {protocol}`."
        )
    return chosen


def _engine(
    store: Store,
    engine: str,
    address: str | None,
    cpus: float,
    gpus: float,
    retries: int,
) -> Engine | None:
    if engine == "local":
        if address is not None:
            raise InvalidInput("--address goes with --engine ray.")
        return None
    from expunge.dispatch.ray import RayEngine

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


def _emit(parts: list[Any], form: str, out: Path | None, force: bool) -> None:
    from expunge.files import write_text

    if out is not None:
        refuse_existing(out, force=force)
        if form == "terminal":
            raise InvalidInput("--out goes with --format markdown, latex or csv.")
        write_text(out, "\n".join(str(text) for text in parts))
        return
    console = Console() if Console().is_terminal else Console(width=120)
    for text in parts:
        if form == "terminal":
            console.print(text)
        else:
            typer.echo(str(text))


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} min"
    if seconds < 2 * 86_400:
        return f"{seconds / 3600:.1f} h"
    return f"{timedelta(seconds=seconds).days} days"


def _size(count: int) -> str:
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} B"
