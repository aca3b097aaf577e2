"""``expunge bench table``, ``figure``, ``claims`` and ``show``: read the results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from expunge._errors import ExpungeError, InvalidInput
from expunge._files import require_file
from expunge.bench.paper.claims import CLAIMS
from expunge.bench.plots import FIGURES
from expunge.bench.protocols import protocol_text
from expunge.bench.tables import TABLES, make_table
from expunge.cli import _bench_options as options
from expunge.cli._output import WIDE, AsJson, Output, Quiet

if TYPE_CHECKING:
    from expunge.bench._results import BenchResult
    from expunge.bench.paper.claims import ClaimLedger
    from expunge.bench.tables._summary import Summary


def table_command(
    protocol: options.MaybeProtocol = None,
    name: Annotated[list[str] | None, options.name_option(TABLES)] = None,
    form: options.Format = "terminal",
    store: options.StorePath = options.STORE,
    results: options.ResultsPath = None,
    data: options.DataRoot = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Print the tables of the paper, and those behind its claims: mean ± std over seeds.

    Example:  expunge bench table demo --name table2
    """
    wanted = [TABLES.name(each) for each in name or TABLES]
    chosen = _results(protocol, store, results, data)
    summaries = [summary for each in wanted for summary in make_table(each, chosen)]
    if not summaries:
        raise ExpungeError(f"The results hold nothing for {', '.join(name or ['any table'])}.")
    _print(summaries, form, Output(as_json=as_json, quiet=quiet, width=WIDE))


def figure_command(
    protocol: options.MaybeProtocol = None,
    name: Annotated[list[str] | None, options.name_option(FIGURES)] = None,
    store: options.StorePath = options.STORE,
    results: options.ResultsPath = None,
    data: options.DataRoot = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the figures.")] = Path(
        "figures"
    ),
    quiet: Quiet = False,
) -> None:
    """Draw the paper's figures from the results, as PDF and PNG.

    Example:  expunge bench figure demo --name agreement --name heatmap
    """
    for figure in name or []:
        FIGURES.name(figure)
    chosen = _results(protocol, store, results, data)

    from expunge.bench.plots import write_figures

    written = write_figures(chosen, out, names=name)
    output = Output(quiet=quiet)
    for figure, why in written.left_out.items():
        output.message(f"left out, {escape(figure)}: {escape(why)}", style="dim")
    output.wrote(f"{len(written.paths)} files to {out}/.")


def claims_command(
    protocol: options.MaybeProtocol = None,
    name: Annotated[list[str] | None, options.name_option(CLAIMS, "Name of a claim")] = None,
    form: options.ClaimFormat = "terminal",
    store: options.StorePath = options.STORE,
    results: options.ResultsPath = None,
    data: options.DataRoot = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Test the claims of the paper on the results: held, not held or inconclusive, by how much.

    Runs are paired by seed; no claim is held on fewer than three seeds.

    Example:  expunge bench claims demo
    """
    for claim in name or []:
        CLAIMS.name(claim)
    chosen = _results(protocol, store, results, data)

    from expunge.bench.paper.claims import claim_ledger

    output = Output(as_json=as_json, quiet=quiet, width=WIDE)
    _print([claim_ledger(chosen, names=name)], form, output)


def show_command(protocol: options.ProtocolName) -> None:
    """Print the TOML of a protocol, as the start of one of your own.

    Example:  expunge bench show demo > mine.toml
    """
    Output().text(protocol_text(protocol))


def _results(
    protocol: str | None, store: Path, results: Path | None, data: Path | None
) -> list[BenchResult]:
    """The results of a protocol in a store, or those of a file."""
    if (protocol is None) == (results is None):
        raise InvalidInput("Give a protocol, or --results FILE.")
    if results is not None:
        require_file(results)
        from expunge.bench._results import load_results

        read = load_results(results)
        if not read:
            raise ExpungeError(f"There are no results in {results}.")
        return read
    assert protocol is not None
    _, planned = options.planned_runs(protocol, data)

    from expunge.bench._run import collect
    from expunge.store import Store

    finished = collect(planned, Store(store))
    if not finished:
        raise ExpungeError(
            f"There are no finished runs of {protocol} in {store}. Start with `expunge bench run "
            f"{protocol}`."
        )
    return finished


def _print(tables: Sequence[Summary | ClaimLedger], form: str, output: Output) -> None:
    output.data(lambda: [table.data() for table in tables])
    for table in tables:
        text = getattr(table, form)()
        if form == "terminal":
            output.show(text, highlight=True)
        else:
            output.text(f"{text}\n")
