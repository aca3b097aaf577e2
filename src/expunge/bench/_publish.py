"""Publish the results of a protocol: records, tables, figures, claims, and a page on them all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from expunge._files import write_text
from expunge.bench._protocol import Protocol
from expunge.bench._records import Record, collect, save_records
from expunge.bench._stages import PlannedRun
from expunge.bench.claims import CLAIMS, ClaimLedger, claim_ledger
from expunge.bench.plots import FIGURES, write_figures
from expunge.bench.tables._formats import markdown_table
from expunge.bench.tables._paper import overview, write_tables
from expunge.bench.tables._registry import TABLES, make_table
from expunge.report import render_bench, write_page
from expunge.store import Store

OVERVIEW_FIGURES = ("focus-methods", "addons-srl")
HELD = (
    "Held says that the statement is true of these runs, not that their result is good: an add-on "
    "may lower |rUA| and leave much of it. The ledger has the numbers."
)
DIGEST = ".records.sha256"
"""The file that says which records a folder was written from, and what was written."""


@dataclass(frozen=True)
class Publication:
    """The files that were written, and notes on what was left out."""

    paths: tuple[Path, ...]
    notes: tuple[str, ...] = ()


def write_results(
    protocol: Protocol, planned: Sequence[PlannedRun], store: Store, folder: Path
) -> Publication:
    """Publish the finished runs of a plan; nothing where their records have not changed."""
    records = collect(planned, store)
    return _if_changed(records, folder, lambda: publish(protocol, records, folder))


def publish(protocol: Protocol, records: Sequence[Record], folder: Path) -> Publication:
    """Write records, tables, figures, claims and the pages on them into ``folder``."""
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
    return Publication((*(folder / name for name in names), *tables, *figures.paths), notes)


def write_overview(records: Sequence[Record], folder: Path) -> Publication:
    """Write records, one table and two figures, where the records have changed: for the demo."""
    return _if_changed(records, folder, lambda: _publish_overview(records, folder))


def _publish_overview(records: Sequence[Record], folder: Path) -> Publication:
    (summary,) = overview(records)
    texts = {"md": summary.markdown(), "tex": summary.latex(label="tab:demo"), "csv": summary.csv()}
    save_records(folder / "records.jsonl", records)
    for ending, text in texts.items():
        write_text(folder / f"table.{ending}", text)
    figures = write_figures(records, folder, OVERVIEW_FIGURES)
    names = ("records.jsonl", *(f"table.{ending}" for ending in texts))
    return Publication((*(folder / name for name in names), *figures.paths))


def _if_changed(
    records: Sequence[Record], folder: Path, write: Callable[[], Publication]
) -> Publication:
    """What ``write`` writes, unless the folder was written from the same records and is whole.

    Tables, figures and claims that are new since then are written, too.
    """
    if not records:
        return Publication(())
    made_of = [*TABLES, *FIGURES, *CLAIMS, *(record.dump() for record in records)]
    digest = hashlib.sha256("\n".join(made_of).encode()).hexdigest()
    mark = folder / DIGEST
    if mark.is_file():
        latest, *names = mark.read_text(encoding="utf-8").splitlines()
        if latest == digest and names and all((folder / name).is_file() for name in names):
            return Publication(())
    written = write()
    names = [path.relative_to(folder).as_posix() for path in written.paths]
    write_text(mark, "\n".join([digest, *names]) + "\n")
    return written


def results_page(
    protocol: Protocol,
    records: Sequence[Record],
    ledger: ClaimLedger,
    tables: Sequence[Path],
    figures: Sequence[Path],
    folder: Path,
) -> str:
    """What ran, which claims held, every table, every figure; links are relative to ``folder``."""
    parts = [
        f"# {protocol.title or protocol.name}",
        _what_ran(protocol, records),
        "The same to explore, in a browser: [report.html](report.html).",
        "## Claims",
        _claims(ledger),
        "The whole ledger, with every comparison: [claims.md](claims.md).",
        "## Tables",
        *_tables(records, tables, folder),
        "## Figures",
        *(
            f"![{path.stem}]({path.relative_to(folder).as_posix()})"
            for path in figures
            if path.suffix == ".png"
        ),
    ]
    return "\n\n".join(parts) + "\n"


def interactive_page(protocol: Protocol, records: Sequence[Record], ledger: ClaimLedger) -> str:
    """The same as one HTML file: pick metric, rows and epoch; filter the claims."""
    claims = [
        {
            "claim": finding.claim.name,
            "statement": finding.claim.statement,
            "group": finding.group,
            "status": finding.status,
            "effect": finding.effect,
            "low": None if finding.interval is None else finding.interval[0],
            "high": None if finding.interval is None else finding.interval[1],
            "n": finding.n,
            "unit": finding.unit,
            "detail": finding.detail,
        }
        for finding in ledger.findings
    ]
    plain = [json.loads(record.dump()) for record in records]
    return render_bench(plain, protocol.title or protocol.name, claims)


def _what_ran(protocol: Protocol, records: Sequence[Record]) -> str:
    unlearned = [record for record in records if not record.is_reference]
    wanted = len(protocol.seeds) * sum(len(c.block.scenarios) for c in protocol.configurations)
    machines = {
        f"{e.get('processor', '?')} ({e.get('machine', '?')}), torch {e.get('torch', '?')}"
        for e in (record.environment for record in records)
    }
    diverged = [record for record in unlearned if record.diverged]
    sentences = [
        f"Protocol `{protocol.name}`: {len(unlearned)} of {wanted} unlearning runs finished, seeds "
        f"{', '.join(map(str, protocol.seeds))}."
    ]
    if machines:
        sentences.append(f"Computed on {'; '.join(sorted(machines))}.")
    if diverged:
        labels = ", ".join(sorted({record.label for record in diverged}))
        sentences.append(f"{len(diverged)} runs diverged: {labels}.")
    return " ".join(sentences)


def _claims(ledger: ClaimLedger) -> str:
    """How many comparisons of each claim came to which end."""
    ends = ("held", "not held", "inconclusive")
    rows = []
    for name in dict.fromkeys(finding.claim.name for finding in ledger.findings):
        findings = [finding for finding in ledger.findings if finding.claim.name == name]
        counts = [sum(finding.status == end for finding in findings) for end in ends]
        if any(counts):
            statement = f"**{name}**: {findings[0].claim.statement}"
            rows.append([statement, *(str(count or "") for count in counts)])
    return "\n".join([f"{ledger.count}. {HELD}", "", *markdown_table(["claim", *ends], rows)])


def _tables(records: Sequence[Record], tables: Sequence[Path], folder: Path) -> list[str]:
    sections = []
    for name in TABLES:
        files = [path for path in tables if path.stem == name]
        if not files:
            continue
        links = ", ".join(f"[{p.suffix[1:]}]({p.relative_to(folder).as_posix()})" for p in files)
        sections.append(f"### {name}\n\nAlso as {links}.")
        sections += [summary.markdown().strip() for summary in make_table(name, records)]
    return sections
