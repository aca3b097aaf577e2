"""The report of an audit: on the terminal, as Markdown, as JSON, and as a folder of files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from expunge._files import write_text
from expunge.audit._audit import Audit, AuditInput
from expunge.audit._figures import class_figure, histogram_figure, roc_figure
from expunge.data import ImageSet
from expunge.evaluation import METRICS, AttackReport, contact_sheet
from expunge.report import save_figure

Lines = list[list[str]]


def score_lines(audit: Audit) -> Lines:
    """One line per metric: its label, a value per model, and its definition."""
    by_model = {name: scores.as_dict() for name, scores in audit.scores.items()}
    lines = [["metric", *by_model, "what it is"]]
    for key in METRICS:
        metric = METRICS[key]
        values = [scores.get(key) for scores in by_model.values()]
        if any(value is not None for value in values):
            shown = ["" if v is None else f"{v:.{metric.decimals}f}" for v in values]
            lines.append([metric.label, *shown, f"{metric.definition} ({metric.unit})"])
    return lines


def attack_lines(audit: Audit) -> Lines:
    """One line per attack: AUC, balanced accuracy and TPR with intervals, and a verdict."""
    lines = [["attack", "AUC", "balanced acc.", "TPR@1%", "TPR@0.1%", "verdict"]]
    lines += [_attack_line(report, report.verdict) for report in audit.attacks]
    for attack in audit.ulira:
        lines.append(_attack_line(attack.report, attack.verdict))
        for name, proof in (("initial", attack.initial), ("ideal", attack.ideal)):
            if proof is not None:
                line = _attack_line(proof, proof.verdict)
                lines.append([f"  proof: {name} model", *line[1:]])
    return lines


def _attack_line(report: AttackReport, verdict: str) -> list[str]:
    estimates = [report.auc, report.balanced_accuracy, *report.tpr.values()]
    shown = [
        "" if e.value != e.value else f"{e.value:.3f} [{e.low:.3f}, {e.high:.3f}]"
        for e in estimates
    ]
    return [report.name, *shown, verdict]


def sentences(audit: Audit) -> list[str]:
    """The verdict and all remarks, one sentence each."""
    remarks = [audit.verdict]
    remarks += [
        f"U-LiRA ({a.variant}, {a.shadows} shadows): {a.reason}"
        for a in audit.ulira
        if a.reason not in audit.verdict
    ]
    remarks += [finding.words for finding in audit.findings]
    if audit.exposure is not None:
        remarks.append(str(audit.exposure))
    if audit.overlap:
        remarks.append(f"{audit.overlap}.")
    return [*remarks, *audit.notes]


def terminal(audit: Audit) -> RenderableType:
    """Two tables, 80 columns wide, and the sentences; gaps and most intervals are in the files."""
    scores = [line for line in score_lines(audit) if not line[0].endswith(" gap")]
    attacks = [
        [line[0], line[1], *(cell.split(" [")[0] for cell in line[2:5]), line[5]]
        for line in attack_lines(audit)
    ]
    attacks[0][2:5] = ["BA", "TPR@1%", "@0.1%"]
    parts: list[RenderableType] = []
    for lines in (scores, attacks):
        table = Table(box=None, header_style="bold", padding=(0, 1, 0, 0))
        for k, name in enumerate(lines[0]):
            last = k == len(lines[0]) - 1
            table.add_column(name, justify="right" if k and not last else "left", no_wrap=not last)
        for line in lines[1:]:
            table.add_row(*(Text(cell) for cell in line))
        parts += [table, Text("")]
    remarks = sentences(audit)
    parts.append(Text(remarks[0], style="bold"))
    parts += [Text(f"- {sentence}") for sentence in remarks[1:]]
    return Group(*parts)


def markdown(audit: Audit) -> str:
    """The report as Markdown."""
    remarks = sentences(audit)
    blocks = [f"**{remarks[0]}**", *(f"- {sentence}" for sentence in remarks[1:])]
    for title, lines in (("Scores", score_lines(audit)), ("Attacks", attack_lines(audit))):
        rule = "| " + " | ".join("---" for _ in lines[0]) + " |"
        rows = ["| " + " | ".join(_plain(cell) for cell in line) + " |" for line in lines]
        blocks += ["", f"## {title}", "", rows[0], rule, *rows[1:]]
    return "\n".join(blocks) + "\n"


def _plain(cell: str) -> str:
    return cell.replace("|", "\\|")


def as_json(audit: Audit) -> dict[str, Any]:
    """Every number, for programs."""
    return {
        "verdict": audit.verdict,
        "words": sentences(audit),
        "scores": {name: s.as_dict(per_class=True) for name, s in audit.scores.items()},
        "attacks": {a.name: _report_json(a, a.verdict, a.reason) for a in audit.attacks},
        "ulira": {
            a.variant: {
                "shadows": a.shadows,
                "proven": a.proven,
                **_report_json(a.report, a.verdict, a.reason),
                "initial": a.initial and a.initial.as_dict(),
                "ideal": a.ideal and a.ideal.as_dict(),
            }
            for a in audit.ulira
        },
        "over_forgetting": [
            {"kind": f.kind, "value": f.estimate.value, "words": f.words} for f in audit.findings
        ],
    }


def _report_json(report: AttackReport, verdict: str, reason: str) -> dict[str, Any]:
    return {**report.as_dict(), "verdict": verdict, "reason": reason}


def write_audit(
    audit: Audit, subject: AuditInput, folder: Path, *, keep_examples: bool = False
) -> list[Path]:
    """Write report.json, report.md, the figures and the table of examples to ``folder``.

    Which forgotten examples stand out, and their images, are left out unless ``keep_examples``.
    """
    (folder / "report.json").unlink(missing_ok=True)  # of an earlier report
    write_text(folder / "report.md", markdown(audit))
    save_figure(roc_figure(audit), folder / "roc.png")
    save_figure(histogram_figure(audit), folder / "histograms.png")
    save_figure(class_figure(audit, subject.forget.classes), folder / "classes.png")
    if audit.exposure is not None:
        audit.exposure.write_csv(folder / "exposure.csv", keep_examples=keep_examples)
        for name, rows in (("forget", audit.exposure.forget), ("retain", audit.exposure.retain)):
            if name == "forget" and not keep_examples:
                (folder / "exposed-forget.png").unlink(missing_ok=True)  # of an earlier report
                continue
            data = getattr(subject, name)
            if not isinstance(data, ImageSet):
                continue  # there is nothing to show
            title = f"{name} examples that stand out (exposure before to after)"
            contact_sheet(folder / f"exposed-{name}.png", rows, data, title=title)
    # Last: its presence means that the folder is complete.
    write_text(folder / "report.json", json.dumps(as_json(audit), indent=1) + "\n")
    return sorted(folder.iterdir())
