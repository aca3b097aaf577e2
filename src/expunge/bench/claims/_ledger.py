"""The ledger: every claim with what was found, for the terminal, Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from expunge.bench._records import Record
from expunge.bench.claims._base import STATUSES, Claim, Finding, Status
from expunge.bench.claims._claim_runs import Runs
from expunge.bench.claims._ledger_cells import cells_of, markdown_line, tex, tex_line
from expunge.bench.claims._registry import CLAIMS

COLOURS: dict[Status, str] = {
    "held": "green",
    "not held": "red",
    "inconclusive": "yellow",
    "no data": "dim",
}
HEADER = ("group", "status", "effect", "95 % interval", "n")
CAUTION = (
    "Intervals are 95 % each, over seeds; with many findings some are bound to fall on a side by "
    "chance."
)


def judge_claims(records: Iterable[Record], names: Sequence[str] | None = None) -> list[Finding]:
    """Test claims on records: those named, or all, in the order of :data:`CLAIMS`."""
    wanted = None if names is None else {CLAIMS.name(name) for name in names}
    runs = Runs(records)
    chosen = [CLAIMS[name] for name in CLAIMS if wanted is None or name in wanted]
    return [finding for claim in chosen for finding in claim.judge(runs)]


@dataclass(frozen=True)
class Ledger:
    """Findings in the order of their claims, and in every format alike."""

    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, records: Iterable[Record], names: Sequence[str] | None = None) -> Ledger:
        """The ledger of records; its notes say what settings were compared."""
        records = list(records)
        runs = Runs(records)
        notes = []
        for situation in runs.situations:
            main = runs.main(situation)
            weights = "" if main.alpha is None else f", alpha {main.alpha:g}, beta {main.beta:g}"
            notes.append(
                f"{runs.name(situation)}: {main.aggregate}{weights}, lr {main.lr:g}, batches of "
                f"{main.batch_size}, {main.budget} epochs."
            )
        return cls(tuple(judge_claims(records, names)), tuple(notes))

    @property
    def count(self) -> str:
        """``12 held, 5 not held, 9 inconclusive``."""
        numbers = {s: sum(f.status == s for f in self.findings) for s in STATUSES}
        text = ", ".join(f"{numbers[s]} {s}" for s in STATUSES if s != "no data")
        return text + (f", {numbers['no data']} without data" if numbers["no data"] else "")

    def _sections(self) -> Iterator[tuple[Claim, list[Finding]]]:
        """The claims that have data, with their findings."""
        for claim, found in itertools.groupby(self.findings, key=lambda f: f.claim):
            kept = [f for f in found if f.status != "no data"]
            if kept:
                yield claim, kept

    def _missing(self) -> list[tuple[str, str]]:
        """Claims without data, each with the groups where it has none."""
        missing: dict[str, list[str]] = {}
        for finding in self.findings:
            if finding.status == "no data":
                missing.setdefault(finding.claim.name, []).append(finding.group or "anywhere")
        return [(name, ", ".join(groups)) for name, groups in missing.items()]

    def terminal(self) -> RenderableType:
        """A table a claim under its statement, statuses in colour."""
        widths = [max(map(len, column)) for column in zip(HEADER, *self._all(), strict=True)]
        parts: list[RenderableType] = [Text(self.count, style="bold")]
        for claim, found in self._sections():
            heading = f"[bold]{claim.name}[/] {escape(claim.statement)}"
            parts.append(Text.from_markup(f"\n{heading} [dim]{escape(claim.source)}[/]"))
            table = Table(box=box.SIMPLE, show_header=False, padding=(0, 1, 0, 0))
            table.add_column(min_width=24, overflow="fold")
            table.add_column(width=widths[1], no_wrap=True)
            for width in widths[2:]:
                table.add_column(width=width, no_wrap=True, justify="right")
            for finding in found:
                group, status, *numbers = cells_of(finding)
                detail = f"\n[dim]{escape(finding.detail)}[/]" if finding.detail else ""
                colour = COLOURS[finding.status]
                shown = [escape(text) for text in numbers]
                table.add_row(escape(group) + detail, f"[{colour}]{status}[/]", *shown)
            parts.append(table)
        if self._missing():
            parts.append(Text("\nno data", style="bold"))
            parts += [Text(f"  {name}: {groups}", style="dim") for name, groups in self._missing()]
        parts.append(Text("\n" + " ".join([CAUTION, *self.notes]), style="dim"))
        return Group(*parts)

    def _all(self) -> list[list[str]]:
        return [cells_of(f) for _, found in self._sections() for f in found]

    def markdown(self) -> str:
        """A heading and a table a claim; details in the last column."""
        lines = [f"{self.count}. {CAUTION}", ""]
        lines += [f"- {note}" for note in self.notes] + ([""] if self.notes else [])
        for claim, found in self._sections():
            lines += [f"### {claim.name}", "", f"{claim.statement} *({claim.source})*", ""]
            lines += [
                markdown_line([*HEADER, "detail"]),
                markdown_line(["---", "---", *["---:"] * 3, "---"]),
            ]
            lines += [markdown_line([*cells_of(f), f.detail]) for f in found] + [""]
        if self._missing():
            lines += ["### No data", ""]
            lines += [f"- {name}: {groups}" for name, groups in self._missing()] + [""]
        return "\n".join(lines)

    def latex(self) -> str:
        """A booktabs table, a line a finding, under the statement of its claim."""
        lines = [r"\begin{tabular}{llrrr}", r"\toprule", tex_line(HEADER)]
        for claim, found in self._sections():
            said = f"{tex(claim.statement)} ({tex(claim.source)})"
            heading = rf"\textbf{{{tex(claim.name)}.}} {said}"
            lines += [r"\midrule", rf"\multicolumn{{5}}{{p{{\linewidth}}}}{{{heading}}} \\"]
            lines += [tex_line(cells_of(f)) for f in found]
        lines += [r"\bottomrule", r"\end{tabular}", "", f"% {self.count}"]
        lines += [f"% no data: {name}: {groups}" for name, groups in self._missing()]
        return "\n".join(lines) + "\n"

    def csv(self) -> str:
        """One line a finding, "no data" included."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        names = ["claim", "group", "status", "effect", "low", "high", "unit", "n", "detail"]
        writer.writerow([*names, "statement", "source"])
        for f in self.findings:
            low, high = f.interval or ("", "")
            effect = "" if f.effect is None else f.effect
            own = [f.claim.name, f.group, f.status, effect, low, high, f.unit, f.n, f.detail]
            writer.writerow([*own, f.claim.statement, f.claim.source])
        return text.getvalue()
