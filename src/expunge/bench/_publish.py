"""Publish the results of a protocol: results, tables, figures, claims, and a page on them all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from expunge._files import write_text
from expunge.bench._page import machines_of, render_page
from expunge.bench._protocol import Protocol
from expunge.bench._results import BenchResult, save_results
from expunge.bench.paper.claims import ClaimLedger, claim_ledger, counts_of
from expunge.bench.plots import FIGURES, WrittenFigures, write_figures
from expunge.bench.tables import TABLES, make_table
from expunge.bench.tables._summary import csv_text, markdown_table

HELD = (
    "Held says that the statement is true of these runs, not that their result is good: an add-on "
    "may lower |rUA| and leave much of it. The ledger has the numbers."
)
OURS = re.compile(
    rf"({'|'.join(TABLES)})\.(md|tex|csv)|(figure\d+-)?({'|'.join(FIGURES)})(-.*)?\.(pdf|png)"
)
"""The names of tables and figures."""


def publish(
    protocol: Protocol, results: Sequence[BenchResult], folder: Path
) -> tuple[list[Path], list[str]]:
    """Write results, tables, figures, claims and pages; the paths, and what was left out.

    Tables and figures of an earlier time that these results do not have are removed.
    """
    of_images = any(not result.is_text for result in results)
    ledger = claim_ledger(results) if of_images else ClaimLedger(())
    figures = write_figures(results, folder / "figures") if of_images else WrittenFigures()
    save_results(folder / "results.jsonl", results)
    tables = write_tables(results, folder / "tables")
    names = ["results.jsonl"]
    if of_images:
        write_text(folder / "claims.md", ledger.markdown())
        write_text(folder / "claims.csv", ledger.csv())
        names += ["claims.md", "claims.csv"]
    page = results_page(protocol, results, ledger, tables, figures.paths, folder)
    write_text(folder / "README.md", page)
    title = protocol.title or protocol.name
    write_text(folder / "report.html", render_page(results, title, ledger.rows()))
    paths = [folder / name for name in (*names, "README.md", "report.html")]
    notes = [f"figure {name}: {why}" for name, why in figures.left_out.items()]
    written = [*paths, *tables, *figures.paths]
    for path in {*folder.glob("tables/*"), *folder.glob("figures/*")}.difference(written):
        if OURS.fullmatch(path.name):
            path.unlink()
    return written, notes


def write_tables(results: Iterable[BenchResult], folder: str | Path) -> list[Path]:
    """Write every table as ``name.md``, ``.tex`` and ``.csv``, if the results have it.

    A table may have several parts, one per task; the first column of the CSV is their title.
    """
    results, written = list(results), []
    for name in TABLES:
        parts = make_table(name, results)
        labels = [f"tab:{name}", *(f"tab:{name}-{number}" for number in range(2, len(parts) + 1))]
        rows = [{"part": part.title} | cell for part in parts for cell in part.cells()]
        latex = (part.latex(label=label) for part, label in zip(parts, labels, strict=False))
        texts = {
            "md": "\n".join(part.markdown() for part in parts),
            "tex": "\n".join(latex),
            "csv": csv_text(rows),
        }
        for ending, text in texts.items() if parts else ():
            written.append(Path(folder) / f"{name}.{ending}")
            write_text(written[-1], text)
    return written


def results_page(
    protocol: Protocol,
    results: Sequence[BenchResult],
    ledger: ClaimLedger,
    tables: Sequence[Path],
    figures: Sequence[Path],
    folder: Path,
) -> str:
    """What ran, which claims held, every table, every figure; links are relative to ``folder``."""
    parts = [
        f"# {protocol.title or protocol.name}",
        _what_ran(protocol, results),
        "The same to explore, in a browser: [report.html](report.html).",
    ]
    if ledger.findings:
        whole = "The whole ledger, with every comparison: [claims.md](claims.md)."
        parts += ["## Claims", _claims(ledger), whole]
    parts += ["## Tables", *_tables(tables, folder)]
    if images := [path for path in figures if path.suffix == ".png"]:
        links = (f"![{path.stem}]({path.relative_to(folder).as_posix()})" for path in images)
        parts += ["## Figures", *links]
    return "\n\n".join(parts) + "\n"


def _what_ran(protocol: Protocol, results: Sequence[BenchResult]) -> str:
    unlearned = [result for result in results if not result.is_reference]
    diverged = [result for result in unlearned if result.diverged]
    sentences = [
        f"Protocol `{protocol.name}`: {len(unlearned)} of {protocol.size} unlearning runs "
        f"finished, seeds {', '.join(map(str, protocol.seeds))}."
    ]
    if machines := machines_of(results):
        sentences.append(f"Computed on {machines}.")
    if diverged:
        labels = ", ".join(sorted({result.label for result in diverged}))
        sentences.append(f"{len(diverged)} runs diverged: {labels}.")
    return " ".join(sentences)


def _claims(ledger: ClaimLedger) -> str:
    """How many comparisons of each claim came to which end."""
    rows = []
    for name in dict.fromkeys(finding.claim.name for finding in ledger.findings):
        findings = [finding for finding in ledger.findings if finding.claim.name == name]
        counts = counts_of(findings)
        if any(counts):
            rows.append([f"**{name}**: {findings[0].claim.statement}", *counts])
    head = ["claim", "held", "not held", "inconclusive (mean as claimed)"]
    return "\n".join([f"{ledger.count}. {HELD}", "", *markdown_table(head, rows)])


def _tables(tables: Sequence[Path], folder: Path) -> list[str]:
    sections = []
    for name in TABLES:
        files = {path.suffix[1:]: path for path in tables if path.stem == name}
        if files:
            links = (f"[{kind}]({p.relative_to(folder).as_posix()})" for kind, p in files.items())
            text = files["md"].read_text(encoding="utf-8").strip()
            sections += [f"### {name}\n\nAlso as {', '.join(links)}.", text]
    return sections
