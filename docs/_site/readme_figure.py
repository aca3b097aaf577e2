"""Draw the figure at the top of the README from the rows of ``benchmarks/requests.py``.

    python docs/_site/readme_figure.py

VGG16 of an eighth of its width on 5,000 images of CIFAR-10, 500 of them to be forgotten: before,
after methods, and retrained, each as it is and after benign steps.
"""

from __future__ import annotations

import matplotlib as mpl

mpl.use("agg")

from matplotlib import pyplot as plt

from request_tables import ROOT, Methods, read_rows

FIGURE = ROOT / "docs" / "images" / "forget.png"
KIND = "vgg"
NAMES = {"initial": "before", "MATCH": "MATCH", "refresh": "refresh", "retrained": "retrained"}
PANELS = (("ua", "right on the forgotten records, %"), ("auc_loss", "AUC of the loss attack"))
AS_IS, LATER = "#1b6ca8", "#d95f02"


def draw() -> None:
    """Write the figure: a dot per seed, a bar for their mean."""
    rows = Methods(read_rows("methods"), KIND).rows
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.4), constrained_layout=True)
    for ax, (metric, label) in zip(axes, PANELS, strict=True):
        for place, name in enumerate(NAMES):
            moments = (("delivered", -0.16, AS_IS), ("relearned", 0.16, LATER))
            for moment, shift, colour in moments:
                values = [row[moment][metric] for row in rows[name]]
                ax.plot([place + shift] * len(values), values, "o", color=colour, alpha=0.5, ms=4)
                mean = sum(values) / len(values)
                ax.plot([place + shift - 0.12, place + shift + 0.12], [mean, mean], color=colour)
                shown = f"{mean:.0f}" if metric == "ua" else f"{mean:.3f}".lstrip("0")
                ax.annotate(shown, (place + shift, mean), xytext=(0, 9), ha="center",
                            textcoords="offset points", fontsize=9, color=colour)  # fmt: skip
        ax.set_xticks(range(len(NAMES)), NAMES.values())
        ax.set_ylabel(label)
        ax.margins(y=0.15)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
    axes[1].axhline(0.5, color="#999999", lw=1, ls=":")
    handles = [plt.Line2D([], [], color=c, marker="o") for c in (AS_IS, LATER)]
    labels = ["as delivered", "after 50 benign steps"]
    axes[0].legend(handles, labels, frameon=False, fontsize=9)
    seeds = min(len(rows[name]) for name in NAMES)
    figure.suptitle(
        f"500 of 5,000 CIFAR-10 images forgotten, VGG16 of width 1/8, {seeds} seeds", fontsize=10
    )
    figure.savefig(FIGURE, dpi=150)


if __name__ == "__main__":
    draw()
