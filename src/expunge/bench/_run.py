"""Run a protocol: bring its stages into the store, tidy up, write what came of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from expunge import dispatch
from expunge._files import write_text
from expunge.bench._protocol import Protocol
from expunge.bench._records import Record, collect, save_records
from expunge.bench._stages import Planned
from expunge.dispatch import RunSummary
from expunge.dispatch._engine import Engine, Report
from expunge.store import Stage, Store

DIGEST = ".records.sha256"


def stages_of(planned: Iterable[Planned]) -> list[Stage]:
    """Every stage once, parents first."""
    return list({stage.key: stage for run in planned for stage in run.stages}.values())


def run_planned(
    planned: Sequence[Planned],
    store: Store,
    *,
    workers: int | None = None,
    retries: int = 1,
    report: Report | None = None,
    engine: Engine | None = None,
    keep: str = "last",
) -> RunSummary:
    """Run what is missing. With ``keep="none"``, trained weights go once nothing needs them."""
    wanted = [stage for run in planned for stage in (run.reference, run.unlearn)]
    summary = dispatch.run(
        wanted, store, workers=workers, retries=retries, report=report, engine=engine
    )
    if keep == "none":
        drop_trained(planned, store)
    return summary


def drop_trained(planned: Sequence[Planned], store: Store) -> list[Stage]:
    """Remove initial and ideal models that no missing stage of the plan needs."""
    needed = {
        parent.key
        for run in planned
        for stage in (run.reference, run.unlearn)
        if not store.has(stage)
        for parent in (run.initial, run.ideal)
    }
    trained = {s.key: s for run in planned for s in (run.initial, run.ideal)}
    gone = [stage for key, stage in trained.items() if key not in needed and store.has(stage)]
    for stage in gone:
        store.remove(stage)
    return gone


@dataclass(frozen=True)
class Written:
    """What :func:`write_results` wrote; nothing where the records were the same as before."""

    paths: tuple[Path, ...]
    notes: tuple[str, ...] = ()


def write_results(
    protocol: Protocol, planned: Sequence[Planned], store: Store, folder: Path
) -> Written:
    """Records, tables, figures, ledger and a summary page, if the records have changed."""
    records = collect(planned, store)
    if not records:
        return Written(())
    lines = "".join(record.dump() + "\n" for record in records)
    digest = hashlib.sha256(lines.encode()).hexdigest()
    mark = folder / DIGEST
    if mark.is_file() and mark.read_text(encoding="utf-8").strip() == digest:
        return Written(())
    written = publish(protocol, records, folder)
    write_text(mark, digest + "\n")
    return written


def publish(protocol: Protocol, records: Sequence[Record], folder: Path) -> Written:
    """Write everything that can be said about ``records`` into ``folder``."""
    from expunge.bench._publish_page import interactive_page, results_page
    from expunge.bench.claims import claim_ledger
    from expunge.bench.plots import write_figures
    from expunge.bench.tables._paper import write_tables
    from expunge.report import write_page

    save_records(folder / "records.jsonl", records)
    ledger = claim_ledger(records)
    tables = write_tables(records, folder / "tables")
    figures = write_figures(records, folder / "figures")
    write_text(folder / "claims.md", ledger.markdown())
    write_text(folder / "claims.csv", ledger.csv())
    write_text(folder / "claims.tex", ledger.latex())
    page = results_page(protocol, records, ledger, tables, figures.paths, folder)
    write_text(folder / "README.md", page)
    write_page(folder / "report.html", interactive_page(protocol, records, ledger))
    names = ("records.jsonl", "claims.md", "claims.csv", "claims.tex", "README.md", "report.html")
    notes = tuple(f"figure {name}: {why}" for name, why in figures.left_out.items())
    return Written((*(folder / name for name in names), *tables, *figures.paths), notes)
