"""``expunge demo``: the built-in protocol of that name, in a minute."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from expunge._files import refuse_existing
from expunge.cli._bench_options import stage_progress
from expunge.cli._output import NARROW, AsJson, Output, Quiet

BLOCK = "digits"
"""The block of the protocol that the demo runs; the others are for ``expunge bench run demo``."""


def demo_command(
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the table, the figures and the store.")
    ] = Path("demo"),
    seeds: Annotated[int, typer.Option(min=1, help="How often to repeat everything.")] = 3,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Worker processes (default: one per core).")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite a table that is not an earlier demo's.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """See in a minute what unlearning does: methods and add-ons on handwritten digits.

    Trains small models on 120 images, forgets half of them in some twenty ways, and compares each
    with the model retrained without them. Writes a table (Markdown, LaTeX, CSV), two figures and
    the records.

    It is the block "digits" of the protocol demo; "expunge bench run demo" runs all of it. Finished
    models and runs are kept in OUT/store: if the demo is interrupted, the same command resumes it,
    and a second one only prints the table. Remove OUT to compute everything again.

    Example:  expunge demo --seeds 5 --out demo5
    """
    kept = out / "store"
    if not kept.is_dir():
        refuse_existing(out / "table.md", force=force)

    from expunge.bench._protocol_file import load_protocol
    from expunge.bench._publish import write_overview
    from expunge.bench._records import collect
    from expunge.bench._run import run_planned, stages_of
    from expunge.bench._stages import StageOptions, plan
    from expunge.bench.tables._formats import table_data
    from expunge.bench.tables._paper import overview
    from expunge.evaluation import METRICS
    from expunge.store import Store

    protocol = load_protocol("demo").only((BLOCK,)).with_seeds(seeds)
    start = time.perf_counter()
    planned, store = plan(protocol, StageOptions(device="cpu")), Store(kept)
    output = Output(as_json=as_json, quiet=quiet, width=NARROW)
    with stage_progress("demo", len(stages_of(planned)), output.messages) as report:
        run_planned(planned, store, workers=workers, report=report).check()
    records = collect(planned, store)
    written = write_overview(records, out)
    (summary,) = overview(records)
    output.data(lambda: table_data(summary))
    output.show(summary.terminal(), highlight=True)
    output.show("  * best of its group", style="dim")
    for name in summary.metrics:
        metric = METRICS[name]
        output.show(f"  {metric.label:<11} {metric.definition} ({metric.unit}); {metric.good}")
    files = f"Wrote {len(written.paths)} files to" if written.paths else "Nothing new for"
    output.show(f"\n{files} {out}/; begin with table.md.")
    output.show(f"{time.perf_counter() - start:.0f} s in all.")
