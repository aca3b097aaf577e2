"""``expunge demo``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from expunge._files import refuse_existing
from expunge.evaluation import METRICS


def demo_command(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the table and figure.")] = (
        Path("demo")
    ),
    seeds: Annotated[int, typer.Option(help="How often to repeat everything.")] = 3,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an earlier demo.")] = False,
) -> None:
    """See in a minute what unlearning does: methods and add-ons on handwritten digits.

    Trains small models, forgets 30 % of their training images in a dozen ways, and compares each
    with the model retrained without them. Writes a table (Markdown, CSV) and a figure.

    Example:  expunge demo --seeds 5 --out demo5
    """
    refuse_existing(out / "table.md", force=force)

    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    from expunge.bench._demo import (
        METRIC_NAMES,
        Demo,
        run_demo,
        summarise,
        total_parts,
        write_demo,
    )

    demo = Demo(seeds=seeds)
    start = time.perf_counter()
    errors = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=errors,
        transient=True,
        disable=not errors.is_terminal,
    ) as progress:
        task = progress.add_task("starting", total=total_parts(demo))
        records = run_demo(
            demo, tick=lambda name: progress.update(task, advance=1, description=name)
        )
    written = write_demo(demo, records, out)
    console = Console() if Console().is_terminal else Console(width=100)
    title = f"Forgetting {demo.scenario} of {demo.limit} digits, mean ± std over {seeds} seeds"
    console.print(summarise(demo, records).terminal(title))
    console.print("  * best of its group", style="dim")
    for name in METRIC_NAMES:
        metric = METRICS[name]
        console.print(
            f"  {metric.label:<11} {metric.definition} ({metric.unit}); {metric.good}",
            highlight=False,
        )
    console.print(f"\nWrote {', '.join(path.name for path in written)} to {out}/", highlight=False)
    console.print(f"{time.perf_counter() - start:.0f} s in all.", highlight=False)
