"""The figures of an audit: ROC curves, score histograms, accuracy by class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from expunge.audit._audit import Audit
from expunge.evaluation import AttackReport, scaled_confidence
from expunge.report import COLOURS, hide_frame, legend_beside, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINES = ("-", "--", "-.", ":")


def roc_figure(audit: Audit) -> Figure:
    """True against false positives on log axes, which show the most exposed examples."""
    figure = new_figure(7.4, 4.4)
    ax = figure.subplots()
    reports = [*audit.attacks, *(attack.report for attack in audit.ulira)]
    floor = 1.0
    for k, report in enumerate(reports):
        fpr, tpr = roc(report)
        floor = min(floor, 1.0 / max(len(report.test), len(report.forget)))
        ax.plot(
            np.maximum(fpr, 1e-9),
            np.maximum(tpr, 1e-9),
            color=COLOURS[k % len(COLOURS)],
            linestyle=LINES[k // len(COLOURS) % len(LINES)],
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
    levels = np.unique(np.concatenate([report.forget, report.test]))[::-1]
    detected = len(report.forget) - np.searchsorted(np.sort(report.forget), levels, side="left")
    passed = len(report.test) - np.searchsorted(np.sort(report.test), levels, side="left")
    return (
        np.concatenate([[0.0], passed / len(report.test)]),
        np.concatenate([[0.0], detected / len(report.forget)]),
    )


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
                linestyle=LINES[k % len(LINES)],
                color=COLOURS[k],
                label=split,
            )
        ax.set_title(name, fontsize=10)
        ax.set_xlabel("log p/(1-p) of the true label")
        hide_frame(ax)
    axes[0].set_ylabel("density")
    axes[-1].legend(fontsize=8, frameon=False)
    return figure


def class_figure(audit: Audit, classes: tuple[str, ...]) -> Figure:
    """UA of each class, for each model; classes with no forgotten example are left out."""
    names = list(audit.scores)
    table = np.array([audit.scores[name].per_class["ua"] for name in names])
    present = ~np.isnan(table).all(axis=0)
    positions = np.arange(present.sum())
    figure = new_figure(max(4.0, 0.75 * len(positions) + 1.5), 3.0)
    ax = figure.subplots()
    width = 0.8 / len(names)
    for k, name in enumerate(names):
        ax.bar(
            positions + (k - (len(names) - 1) / 2) * width,
            table[k][present],
            width,
            color=COLOURS[k],
            label=name,
        )
    ax.set_xticks(positions, [c for c, t in zip(classes, present, strict=True) if t], rotation=30)
    ax.set_ylim(max(0.0, float(np.nanmin(table[:, present])) - 10.0), 101.0)
    ax.set_ylabel("UA (%)")
    hide_frame(ax)
    ax.legend(fontsize=8, frameon=False, ncols=len(names), loc="lower left", bbox_to_anchor=(0, 1))
    return figure
