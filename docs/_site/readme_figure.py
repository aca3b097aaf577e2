"""Draw the figure at the top of the README: before, after, after benign steps, retrained.

    python docs/_site/readme_figure.py

VGG16 of an eighth of its width forgets 500 of 5,000 images of CIFAR-10 by ``refresh``. The rows
are those of ``benchmarks/requests.py`` in ``results/requests/methods.jsonl``, as soon as they have
three such models, and until then older ones in ``results/refresh/rows.jsonl``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")

from matplotlib import pyplot as plt

ROOT = Path(__file__).resolve().parents[2]
ROWS = ROOT / "results" / "requests" / "methods.jsonl"
OLDER_ROWS = ROOT / "results" / "refresh" / "rows.jsonl"
FIGURE = ROOT / "docs" / "images" / "forget.png"
KIND = "vgg"
MIN_SEEDS = 3
COLUMNS = ("before", "after", "after 50\nbenign steps", "retrained")
COLOURS = ("#b2182b", "#1b6ca8", "#1b6ca8", "#555555")
PANELS = (("ua", "right on the forgotten records, %"), ("auc", "AUC of the loss attack"))
Values = dict[str, list[list[float]]]
"""Per panel and column, a value per model."""


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of this kind of model in a file of JSON lines."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [row for row in rows if row["kind"] == KIND]


def from_methods() -> Values | None:
    """What the rows of methods say; nothing while there are too few."""
    chosen = [row for row in read_rows(ROWS) if row["start"] == "initial"]
    columns = (("initial", "delivered"), ("refresh", "delivered"), ("refresh", "relearned"),
               ("retrained", "delivered"))  # fmt: skip
    metrics = {"ua": "ua", "auc": "auc_loss"}
    values = {
        panel: [[row[moment][metric] for row in chosen if row["name"] == name]
                for name, moment in columns]
        for panel, metric in metrics.items()
    }  # fmt: skip
    return values if min(len(column) for column in values["ua"]) >= MIN_SEEDS else None


def from_refresh() -> Values:
    """The same from the older rows: the default settings of ``refresh``."""
    default = {"keep": None, "epochs": 5, "rate": 1.0}
    settings = ({"role": "initial"}, default, default, {"role": "ideal"})
    rows, later = read_rows(OLDER_ROWS), ("", "", "after_", "")
    return {
        panel: [[row[prefix + panel] for row in rows if row["setting"] == setting]
                for setting, prefix in zip(settings, later, strict=True)]
        for panel, _ in PANELS
    }  # fmt: skip


def draw(values: Values) -> None:
    """Write the figure: a line for the mean, a dot per model, dashes at the retrained models."""
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.2), constrained_layout=True)
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
    figure.suptitle(
        f"refresh: 500 of 5,000 CIFAR-10 images forgotten by VGG16 of width 1/8, {seeds} models",
        fontsize=10,
    )
    figure.savefig(FIGURE, dpi=150)


if __name__ == "__main__":
    draw(from_methods() or from_refresh())
