"""Claims tested on results, and the ledger of findings: terminal, Markdown and CSV."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE
from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from expunge.bench._results import BenchResult
from expunge.bench._tasks import group_results
from expunge.bench.paper.claims import CLAIMS
from expunge.bench.paper.claims._base import STATUSES, Claim, ClaimFinding
from expunge.bench.tables._summary import csv_text, markdown_table

HEADER = ("group", "status", "effect", "95 % interval", "n")
CAUTION = (
    "Intervals are 95 % each, over seeds; with many findings some are bound to fall on a side by "
    "chance."
)
DECIMALS = {"share": 3, "%": 1, "|cos|": 3}
MAGNITUDES = ("|cos|", "× epochs", "× time", "× unseen", "points off")
"""Units of what has no sign."""


def claim_ledger(results: Iterable[BenchResult], names: Sequence[str] | None = None) -> ClaimLedger:
    """Test claims (default: all) on results of images; notes say which settings were compared."""
    tasks = [runs for runs in group_results(results) if runs.unlearned and not runs.task.is_text]
    wanted = {CLAIMS.name(name) for name in (CLAIMS if names is None else names)}
    claims = [CLAIMS[name] for name in CLAIMS if name in wanted]
    notes = []
    for runs in tasks:
        main = runs.main_hyperparameters
        assert main is not None  # there are runs
        weights = f"linear, alpha {main.alpha:g}, beta {main.beta:g}" if main.alpha else ""
        notes.append(
            f"{runs.name}: {weights or next(iter(runs.variants)).aggregate}, lr {main.lr:g}, "
            f"batches of {main.batch_size}, {main.total_epochs} epochs."
        )
    findings = (finding for claim in claims for finding in claim.judge(tasks))
    return ClaimLedger(tuple(findings), tuple(notes))


@dataclass(frozen=True)
class ClaimLedger:
    """Findings in the order of their claims, the same in every format."""

    findings: tuple[ClaimFinding, ...]
    notes: tuple[str, ...] = ()

    @property
    def count(self) -> str:
        """``12 held, 5 not held, 9 inconclusive``; upper bounds on cost apart."""
        bounds = [finding for finding in self.findings if finding.claim.bound]
        text = _count([finding for finding in self.findings if not finding.claim.bound])
        return f"{text}; upper bounds on cost: {_count(bounds)}" if bounds else text

    def _sections(self) -> Iterator[tuple[Claim, list[ClaimFinding]]]:
        """The claims that have data, with their findings."""
        for claim, findings in itertools.groupby(self.findings, key=lambda f: f.claim):
            with_data = [finding for finding in findings if finding.status != "no data"]
            if with_data:
                yield claim, with_data

    def _missing(self) -> list[tuple[str, str]]:
        """Claims without data, each with the groups where it has none."""
        missing: dict[str, list[str]] = {}
        for finding in self.findings:
            if finding.status == "no data":
                missing.setdefault(finding.claim.name, []).append(finding.group or "anywhere")
        return [(name, ", ".join(groups)) for name, groups in missing.items()]

    def terminal(self) -> RenderableType:
        """A table for each claim under its statement."""
        columns = [Column(name, overflow="fold", no_wrap=name != "group") for name in HEADER]
        parts: list[RenderableType] = [Text(self.count, style="bold")]
        for claim, findings in self._sections():
            table = Table(*(column.copy() for column in columns), box=SIMPLE)
            for finding in findings:
                group, *others = cells_of(finding)
                table.add_row(*map(Text, (f"{group}\n{finding.detail}".strip(), *others)))
            parts += [Text(f"\n{claim.name}: {claim.statement} ({claim.source})"), table]
        parts += [Text(f"{name}: no data of {groups}") for name, groups in self._missing()]
        return Group(*parts, Text("\n" + " ".join([CAUTION, *self.notes])))

    def markdown(self) -> str:
        """A heading and a table for each claim; details in the last column."""
        lines = [f"{self.count}. {CAUTION}", ""]
        lines += [f"- {note}" for note in self.notes] + ([""] if self.notes else [])
        for claim, findings in self._sections():
            lines += [f"### {claim.name}", "", f"{claim.statement} *({claim.source})*", ""]
            rows = [[*cells_of(finding), finding.detail] for finding in findings]
            lines += [*markdown_table([*HEADER, "detail"], rows, alignment="llrrrl"), ""]
        if self._missing():
            lines += ["### No data", ""]
            lines += [f"- {name}: {groups}" for name, groups in self._missing()] + [""]
        return "\n".join(lines)

    def rows(self) -> list[dict[str, Any]]:
        """A dict per finding, "no data" included, for programs."""
        rows = []
        for finding in self.findings:
            claim, (low, high) = finding.claim, finding.interval or (None, None)
            found = {name: getattr(finding, name) for name in ("group", "status", "effect")}
            found |= {"low": low, "high": high, "unit": finding.unit, "n": finding.n}
            found |= {"detail": finding.detail, "statement": claim.statement}
            rows.append({"claim": claim.name} | found | {"source": claim.source})
        return rows

    def csv(self) -> str:
        """One line per finding."""
        return csv_text(self.rows())

    def data(self) -> dict[str, Any]:
        """As values of JSON: notes, and a dict per finding."""
        return {"title": "", "notes": [*self.notes], "rows": self.rows()}


def counts_of(findings: Sequence[ClaimFinding]) -> list[str]:
    """How many held, did not, and are inconclusive; in brackets, how many of the last have a mean
    as claimed. Where there are many tasks with few seeds, that says more than the intervals.

    >>> counts_of([ClaimFinding(CLAIMS["order"], "a", "inconclusive", as_claimed=True)])
    ['', '', '1 (1)']
    """
    of_status = [[f for f in findings if f.status == s] for s in STATUSES if s != "no data"]
    counts = [str(len(found) or "") for found in of_status]
    if counts[2]:
        counts[2] += f" ({sum(finding.as_claimed for finding in of_status[2])})"
    return counts


def _count(findings: Sequence[ClaimFinding]) -> str:
    numbers = {s: sum(f.status == s for f in findings) for s in STATUSES}
    text = ", ".join(f"{numbers[s]} {s}" for s in STATUSES if s != "no data")
    return text + (f", {numbers['no data']} without data" if numbers["no data"] else "")


def cells_of(finding: ClaimFinding) -> list[str]:
    """Group, status, effect with sign and unit, interval, n."""
    decimals = DECIMALS.get(finding.unit, 2)
    sign = "" if finding.unit in MAGNITUDES else "+"

    def shown(number: float) -> str:
        return f"{round(number, decimals) + 0.0:{sign}.{decimals}f}"  # + 0.0 makes -0.0 zero

    effect = "" if finding.effect is None else f"{shown(finding.effect)} {finding.unit}"
    ends = finding.interval
    interval = "" if ends is None else f"[{shown(ends[0])}, {shown(ends[1])}]"
    return [finding.group, finding.status, effect, interval, str(finding.n)]
