"""Draw the figure at the top of the README from the rows of ``benchmarks/refresh.py``.

    python docs/_site/readme_figure.py

VGG16 of an eighth of its width on 5,000 images of CIFAR-10, 500 of them to be forgotten: before,
after ``refresh`` with its own choice of λ, and retrained, each as it is and after benign steps.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")

from matplotlib import pyplot as plt

ROOT = Path(__file__).resolve().parents[2]
ROWS = ROOT / "results" / "refresh" / "rows.jsonl"
FIGURE = ROOT / "docs" / "images" / "forget.png"
KIND = "vgg"
NAMES = {"initial": "before", "refresh": "after refresh", "ideal": "retrained"}
PANELS = (("ua", "right on the forgotten records, %"), ("auc", "AUC of the loss attack"))
AS_IS, LATER = "#1b6ca8", "#d95f02"


def read_rows() -> dict[str, list[dict[str, Any]]]:
    """The rows of each model, by what the figure calls it."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in NAMES}
    for line in ROWS.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        setting = row["setting"]
        name = setting.get("role", "refresh")
        chosen = setting == {"keep": None, "epochs": 5, "rate": 1.0}
        if row["kind"] == KIND and name in rows and (name != "refresh" or chosen):
            rows[name].append(row)
    return rows


def draw() -> None:
    """Write the figure: a dot per seed, a bar for their mean."""
    rows = read_rows()
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.4), constrained_layout=True)
    for ax, (metric, label) in zip(axes, PANELS, strict=True):
        for place, name in enumerate(NAMES):
            moments = ((metric, -0.16, AS_IS), (f"after_{metric}", 0.16, LATER))
            for key, shift, colour in moments:
                values = [row[key] for row in rows[name]]
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
    seeds = min(len(each) for each in rows.values())
    figure.suptitle(
        f"500 of 5,000 CIFAR-10 images forgotten, VGG16 of width 1/8, {seeds} seeds", fontsize=10
    )
    figure.savefig(FIGURE, dpi=150)


if __name__ == "__main__":
    draw()
