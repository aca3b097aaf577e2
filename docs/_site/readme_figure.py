"""Draw the figure at the top of the README: before, after, after benign steps, retrained.

Once with panels side by side, and once with one below the other, for the site on a phone.

    python docs/_site/readme_figure.py

VGG16 of an eighth of its width forgets 500 of 5,000 images of CIFAR-10 by ``refresh``. The rows
are those of ``benchmarks/requests.py methods``.
"""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib as mpl

mpl.use("agg")

from matplotlib import pyplot as plt

ROOT = Path(__file__).resolve().parents[2]
ROWS = ROOT / "results" / "requests" / "methods.jsonl"
FIGURE, NARROW = (ROOT / "docs" / "images" / f"forget{end}.png" for end in ("", "-narrow"))
KIND = "vgg"
COLUMNS = ("before", "after", "after 50\nbenign steps", "retrained")
COLOURS = ("#b2182b", "#1b6ca8", "#1b6ca8", "#555555")
PANELS = (("ua", "right on the forgotten records, %"), ("auc_loss", "AUC of the loss attack"))
Values = dict[str, list[list[float]]]
"""Per panel and column, a value per model."""


def read_values() -> Values:
    """What the rows say of the models before, after, after benign steps, and retrained."""
    lines = ROWS.read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row["kind"] == KIND]
    columns = (
        ("initial", "delivered"),
        ("refresh", "delivered"),
        ("refresh", "relearned"),
        ("retrained", "delivered"),
    )
    return {
        panel: [
            [row[moment][panel] for row in rows if (row["name"], row["start"]) == (name, "initial")]
            for name, moment in columns
        ]
        for panel, _ in PANELS
    }


def draw(values: Values, path: Path) -> None:
    """Write the figure: a line for the mean, a dot per model, dashes at the retrained models."""
    narrow = path == NARROW
    shape, size = ((2, 1), (4.2, 6.0)) if narrow else ((1, 2), (8.4, 3.2))
    figure, axes = plt.subplots(*shape, figsize=size, constrained_layout=True)
    for ax, (panel, label) in zip(axes, PANELS, strict=True):
        means = [sum(column) / len(column) for column in values[panel]]
        ax.axhline(means[-1], color=COLOURS[-1], lw=1, ls="--")
        for place, (column, mean) in enumerate(zip(values[panel], means, strict=True)):
            ax.plot([place - 0.3, place + 0.3], [mean, mean], color=COLOURS[place], lw=4)
            ax.plot([place] * len(column), column, "o", color="black", ms=3)
            shown = f"{mean:.0f}" if panel == "ua" else f"{mean:.3f}".lstrip("0")
            ax.annotate(shown, (place, max(column)), xytext=(0, 6), ha="center",
                        textcoords="offset points", fontsize=11, weight="bold")  # fmt: skip
        ax.set_xticks(range(len(COLUMNS)), COLUMNS)
        ax.set_title(label, fontsize=11)
        ax.margins(y=0.25)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
    seeds = len(values["ua"][1])
    title = f"refresh: 500 of 5,000 CIFAR-10 images forgotten by VGG16 of width 1/8, {seeds} models"
    figure.suptitle(title.replace(" by", "\n by") if narrow else title, fontsize=10)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    for path in (FIGURE, NARROW):
        draw(read_values(), path)
