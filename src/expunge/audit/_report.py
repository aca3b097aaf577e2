"""The report of an audit: on the terminal, as Markdown, as JSON, and as figures."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from expunge._files import write_text
from expunge.audit._audit import Audit
from expunge.evaluation import METRICS, AttackReport, scaled_confidence, score_rows
from expunge.report import COLOURS, hide_frame, legend_beside, new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Lines = list[list[str]]
STROKES = ("-", "--", "-.", ":")


def score_lines(audit: Audit) -> Lines:
    """One line per metric: its label, a value per model, and its definition."""
    rows = score_rows([scores.as_dict() for scores in audit.scores.values()], METRICS)
    return [["metric", *audit.scores, "what it is"], *rows]


def attack_lines(audit: Audit) -> Lines:
    """One line per attack: AUC, balanced accuracy and TPR with intervals, and a verdict."""
    lines = [["attack", "AUC", "balanced acc.", "TPR@1%", "TPR@0.1%", "verdict"]]
    lines += [_attack_line(report.name, report, report.verdict) for report in audit.attacks]
    if (found := audit.ulira) is not None:
        lines.append(_attack_line(found.report.name, found.report, found.verdict))
        for name, proof in (("initial", found.initial), ("ideal", found.ideal)):
            if proof is not None:
                lines.append(_attack_line(f"  proof: {name} model", proof, proof.verdict))
    return lines


def _attack_line(name: str, report: AttackReport, verdict: str) -> list[str]:
    estimates = [report.auc, report.balanced_accuracy, *report.tpr.values()]
    return [name, *("" if math.isnan(e.value) else str(e) for e in estimates), verdict]


def sentences(audit: Audit) -> list[str]:
    """The verdict and all remarks, one sentence each."""
    remarks = [audit.verdict]
    if audit.ulira is not None and audit.ulira.reason not in audit.verdict:
        remarks.append(f"U-LiRA ({audit.ulira.shadows} shadows): {audit.ulira.reason}")
    if audit.nearness is not None:
        remarks.append(audit.nearness.reason)
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
        rows = [
            "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
        ]
        blocks += ["", f"## {title}", "", rows[0], rule, *rows[1:]]
    return "\n".join(blocks) + "\n"


def as_json(audit: Audit) -> dict[str, Any]:
    """Every number, for programs."""
    attack = audit.ulira
    return {
        "verdict": audit.verdict,
        "words": sentences(audit),
        "scores": {name: s.as_dict(per_class=True) for name, s in audit.scores.items()},
        "attacks": {
            a.name: {**a.as_dict(), "verdict": a.verdict, "reason": a.reason} for a in audit.attacks
        },
        "nearness": audit.nearness and asdict(audit.nearness) | {"verdict": audit.nearness.verdict},
        "ulira": attack
        and {
            "shadows": attack.shadows,
            "proven": not attack.doubts,
            **attack.report.as_dict(),
            "verdict": attack.verdict,
            "reason": attack.reason,
            "initial": attack.initial and attack.initial.as_dict(),
            "ideal": attack.ideal and attack.ideal.as_dict(),
        },
    }


def write_audit(audit: Audit, folder: Path) -> list[Path]:
    """Write report.json, report.md and the figures to ``folder``."""
    (folder / "report.json").unlink(missing_ok=True)  # of an earlier report
    write_text(folder / "report.md", markdown(audit))
    save_figure(roc_figure(audit), folder / "roc.png")
    save_figure(histogram_figure(audit), folder / "histograms.png")
    # Last: its presence means that the folder is complete.
    write_text(folder / "report.json", json.dumps(as_json(audit), indent=1) + "\n")
    return sorted(folder.iterdir())


def roc_figure(audit: Audit) -> Figure:
    """True against false positives on log axes, which show the most exposed examples."""
    figure = new_figure(7.4, 4.4)
    ax = figure.subplots()
    reports = [*audit.attacks, *([] if audit.ulira is None else [audit.ulira.report])]
    floor = 1.0
    for k, report in enumerate(reports):
        fpr, tpr = roc(report)
        floor = min(floor, 1.0 / max(len(report.test), len(report.forget)))
        ax.plot(
            np.maximum(fpr, 1e-9),
            np.maximum(tpr, 1e-9),
            color=COLOURS[k % len(COLOURS)],
            linestyle=STROKES[k // len(COLOURS) % len(STROKES)],
            linewidth=1.4,
            label=f"{report.name}: AUC {report.auc.value:.3f}",
        )
    ax.plot([floor, 1], [floor, 1], color="#888888", linewidth=1, linestyle=":", label="chance")
    ax.set(xscale="log", yscale="log", xlim=(floor, 1), ylim=(floor, 1.05))
    ax.set_xlabel("false-positive rate (unseen data called forgotten)")
    ax.set_ylabel("true-positive rate (forgotten data found)")
    ax.grid(alpha=0.25, linewidth=0.5, which="both")
    legend_beside(ax)
    return figure


def roc(report: AttackReport) -> tuple[Any, Any]:
    """The ROC curve of a report: rates at every distinct score, from (0, 0) to (1, 1)."""
    from sklearn.metrics import roc_curve

    scores = np.concatenate([report.forget, report.test])
    forgotten = np.arange(len(scores)) < len(report.forget)
    fpr, tpr, _ = roc_curve(forgotten, scores, drop_intermediate=False)
    return fpr, tpr


def histogram_figure(audit: Audit) -> Figure:
    """Histograms of each model's confidence in the true label, on forget, retain and test data."""
    names = list(audit.views)
    figure = new_figure(3.6 * len(names), 3.0)
    axes = figure.subplots(1, len(names), squeeze=False, sharex=True, sharey=True)[0]
    confidence = {
        name: {
            split: scaled_confidence(part.logits, part.labels)
            for split, part in audit.views[name].items()
            if split != "val"
        }
        for name in names
    }
    everything = np.concatenate([v for parts in confidence.values() for v in parts.values()])
    low, high = np.quantile(everything, [0.001, 0.999])
    bins = np.linspace(low, max(high, low + 1e-6), 60)
    for ax, name in zip(axes, names, strict=True):
        for k, (split, values) in enumerate(confidence[name].items()):
            ax.hist(
                np.clip(values, bins[0], bins[-1]),
                bins=bins,
                density=True,
                histtype="step",
                linewidth=1.5,
                linestyle=STROKES[k % len(STROKES)],
                color=COLOURS[k],
                label=split,
            )
        ax.set_title(name, fontsize=10)
        ax.set_xlabel("log p/(1-p) of the true label")
        hide_frame(ax)
    axes[0].set_ylabel("density")
    axes[-1].legend(fontsize=8, frameon=False)
    return figure
