"""Write the tables of docs/paper-order.md: the paper's tables beside ours, and its claims.

    python docs/_site/paper_order.py

The page follows the paper. Its numbers come from ``paper-eighth`` (all images) and ``paper-mini``
(all configurations), the claims about the start from ``benchmarks/focus_alpha.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

from expunge._files import write_text
from expunge.bench._results import BenchResult, load_results
from expunge.bench.paper.claims import CLAIMS, claim_ledger, counts_of
from expunge.bench.tables import TABLES
from reproduction import FOCUS_ALPHA, MINI, REGION, RESULTS, ROOT, table

PAGE = ROOT / "docs" / "paper-order.md"
SOURCES = {
    "all images": RESULTS,
    "in miniature": MINI,
    "at the start": FOCUS_ALPHA / "claims.jsonl",
}
Results = dict[str, Sequence[BenchResult]]


def tables_beside(results: Results, number: int) -> str:
    """A table of the paper beside ours, as far as it was run: all images first."""
    own = [each for name in ("all images", "in miniature") for each in results[name]]
    parts = [part for part in TABLES["beside"](own) if part.title.startswith(f"Table {number} ")]
    return "\n".join(part.markdown() for part in parts)


def claims_table(results: Results) -> str:
    """How many comparisons of each claim came to which end, by where they were made."""
    findings = {name: claim_ledger(own).findings for name, own in results.items()}
    rows = []
    for name in CLAIMS:
        claim, cells = CLAIMS[name], []
        for own in findings.values():
            counts = counts_of([f for f in own if f.claim.name == name])
            cells.append(" / ".join(count or "0" for count in counts) if any(counts) else "")
        bound = " (a bound on cost)" if claim.bound else ""
        rows.append([f"**{name}**{bound}: {claim.statement} *{claim.source}*", *cells])
    return table(["claim", *results], rows)


def without_data(results: Results) -> list[str]:
    """The claims that no run has data for."""
    known = {
        finding.claim.name
        for own in results.values()
        for finding in claim_ledger(own).findings
        if finding.status != "no data"
    }
    return [name for name in CLAIMS if name not in known]


def load() -> Results:
    """The results of each source."""
    return {name: load_results(path) for name, path in SOURCES.items()}


def filled(text: str, results: Results) -> str:
    """The page with the content of every region made from the results."""
    makers = {
        "table1": lambda: tables_beside(results, 1),
        "table2": lambda: tables_beside(results, 2),
        "claims": lambda: claims_table(results),
        "missing": lambda: f"{', '.join(without_data(results)) or 'none'}.",
    }
    return REGION.sub(lambda m: f"{m[1]}{makers[m[2]]()}\n{m[3]}", text)


def main() -> None:
    """Rewrite the page."""
    write_text(PAGE, filled(PAGE.read_text(encoding="utf-8"), load()))
    print(f"Wrote {PAGE.relative_to(ROOT)}.")


if __name__ == "__main__":
    main()
