"""The figures of a bundle: the way to the target, and how sure the model is of what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from expunge.plotting import COLOURS, draw_grid, hide_frame, legend_beside, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def epochs_figure(evidence: Mapping[str, Any]) -> Figure:
    """Accuracy on forgotten and validation data over epochs, with the target's interval."""
    figure = new_figure(6.4, 3.6)
    ax = figure.subplots()
    target = evidence["target"]
    ax.axhspan(target["low"], target["high"], color=COLOURS[2], alpha=0.15, lw=0, label="target")
    ax.axhline(target["value"], color=COLOURS[2], linewidth=1, linestyle=":")
    metrics = {m["name"]: m for m in evidence["metrics"]}
    rows = evidence["epochs"]
    for k, (name, label) in enumerate((("ua", "forgotten data"), ("va", "validation data"))):
        values = [metrics[name]["before"]["value"], *(row[name] for row in rows)]
        epochs = [0, *(row["epoch"] for row in rows)]
        ax.plot(epochs, values, color=COLOURS[k], marker="os"[k], markersize=4, label=label)
    back = [row for row in rows if row.get("action") == "rolled back"]
    if back:
        ax.plot(
            [row["epoch"] for row in back],
            [row["ua"] for row in back],
            "x",
            color="#000000",
            label="rolled back",
        )
    stopped = evidence["stopped"]["epoch"]
    if stopped:
        ax.axvline(stopped, color="#666666", linewidth=1, linestyle="--", label="chosen")
    ax.set_xlabel("epoch")
    ax.set_ylabel("accuracy (%)")
    draw_grid(ax)
    hide_frame(ax)
    legend_beside(ax)
    return figure


def scores_figure(evidence: Mapping[str, Any]) -> Figure:
    """Confidence in the true label before and after, as shares."""
    figure = new_figure(7.2, 3.2)
    axes = figure.subplots(1, 2, sharey=True)
    bins = np.linspace(0.0, 1.0, 21)
    for ax, when in zip(axes, ("before", "after"), strict=True):
        for k, (split, label) in enumerate(
            (("forget", "forgotten"), ("val", "unseen"), ("retain", "retained"))
        ):
            values = np.asarray(evidence["scores"][when][split])
            shares = np.histogram(values, bins)[0] / max(len(values), 1)
            ax.stairs(
                shares,
                bins,
                color=COLOURS[k],
                linewidth=1.6,
                linestyle=("-", "--", ":")[k],
                label=label,
            )
        ax.set_title(when, fontsize=10)
        ax.set_xlabel(evidence["scores"]["name"])
        hide_frame(ax)
    axes[0].set_ylabel("share")
    legend_beside(axes[1])
    return figure
