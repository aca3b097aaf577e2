"""The results of a protocol as one page: Markdown to read, HTML to explore."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from expunge.bench._protocol import Protocol
from expunge.bench._records import Record
from expunge.bench.claims import ClaimLedger
from expunge.bench.tables._paper import TABLES


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
        _setting(protocol, records),
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
    from expunge.report import render_bench

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


def _setting(protocol: Protocol, records: Sequence[Record]) -> str:
    unlearned = [record for record in records if record["model"] == "unlearned"]
    wanted = sum(len(protocol.seeds) * len(arm.block.scenarios) for arm in protocol.arms)
    machines = {
        f"{e.get('processor', '?')} ({e.get('machine', '?')}), torch {e.get('torch', '?')}"
        for e in (record.environment for record in records)
    }
    failed = [record for record in unlearned if record.diverged]
    lines = [
        f"Protocol `{protocol.name}`: {len(unlearned)} of {wanted} unlearning runs finished, seeds "
        f"{', '.join(map(str, protocol.seeds))}.",
        f"Computed on {'; '.join(sorted(machines))}." if machines else "",
        f"{len(failed)} runs diverged: {', '.join(sorted({r.label for r in failed}))}."
        if failed
        else "",
    ]
    return " ".join(line for line in lines if line)


def _claims(ledger: ClaimLedger) -> str:
    """One line a claim: how many of its comparisons came to which end."""
    lines = [f"{ledger.count}.", "", "| claim | held | not held | inconclusive |"]
    lines.append("| --- | ---: | ---: | ---: |")
    for name in dict.fromkeys(finding.claim.name for finding in ledger.findings):
        found = [f for f in ledger.findings if f.claim.name == name]
        counts = [
            sum(f.status == status for f in found)
            for status in ("held", "not held", "inconclusive")
        ]
        if any(counts):
            statement = found[0].claim.statement.replace("|", r"\|")
            lines.append(
                f"| **{name}**: {statement} | " + " | ".join(str(c or "") for c in counts) + " |"
            )
    return "\n".join(lines)


def _tables(records: Sequence[Record], tables: Sequence[Path], folder: Path) -> list[str]:
    found = []
    for name in TABLES:
        files = [path for path in tables if path.stem == name]
        if not files:
            continue
        links = ", ".join(f"[{p.suffix[1:]}]({p.relative_to(folder).as_posix()})" for p in files)
        found.append(f"### {name}\n\nAlso as {links}.")
        found += [summary.markdown().strip() for summary in TABLES[name](records)]
    return found
