"""Draw the figure at the top of the README, from a real run on handwritten digits.

    python docs/_site/readme_figure.py [--redraw]

Trains a model on 400 digits, carries out a request to forget 80 of them, retrains without them, and
writes docs/images/forget.png. The numbers are kept beside it, in forget.json; ``--redraw`` draws
from those. Half a minute on one core.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch

import expunge
from expunge.data import load
from expunge.evaluation import Predictions, run_attack, view

mpl.use("agg")

from matplotlib import pyplot as plt

IMAGES = Path(__file__).resolve().parents[1] / "images"
NUMBERS = IMAGES / "forget.json"
RECORDS = 80
FORGOTTEN, UNSEEN = "#d95f02", "#7a8794"
TITLES = {
    "before": "Before",
    "after": "After expunge forget",
    "retrained": "Retrained without them",
}


def measure() -> dict[str, Any]:
    """The models before, after and retrained, each on the records, test data and all the rest."""
    digits = load("digits", limit=400)
    ids = range(RECORDS)
    forget = digits.train.subset(ids)
    retain = digits.train.subset(range(RECORDS, len(digits.train)))
    recipe = expunge.Recipe(epochs=25, batch_size=32, lr=0.05, schedule="one-cycle")
    fresh = expunge.build_model("small-cnn", in_channels=1, width=0.5, seed=0)
    before = expunge.train(fresh, digits.train, recipe=recipe, progress=False).model
    retrained = expunge.train(fresh, retain, recipe=recipe, seed=1, progress=False).model
    with tempfile.TemporaryDirectory() as folder:
        outcome = expunge.forget(
            model=before,
            data=(digits.train, digits.val, digits.test),
            ids=ids,
            out=f"{folder}/requests",
            floor=5.0,
            progress=False,
        )
    assert outcome.model is not None
    models = {"before": before, "after": outcome.model, "retrained": retrained}
    numbers: dict[str, Any] = {"status": outcome.status, "records": RECORDS, "models": {}}
    for name, model in models.items():
        views = view(model, forget=forget, retain=retain, test=digits.test, val=digits.val)
        numbers["models"][name] = {
            "forgotten": _log_odds(views.forget),
            "unseen": _log_odds(views.test),
            "auc": list(run_attack("loss", views).auc),
            "accuracy on the records": _accuracy(views.forget),
            "accuracy on test data": _accuracy(views.test),
        }
    return numbers


def draw(numbers: dict[str, Any]) -> None:
    """Three panels: how sure each model is of the records, and of images it never saw."""
    plt.rcParams |= {"font.size": 11, "font.family": "DejaVu Sans"}
    figure, panels = plt.subplots(1, 3, figsize=(11, 4.2), sharey=True)
    bins = np.linspace(-8, 12, 21)
    for panel, (name, row) in zip(panels, numbers["models"].items(), strict=True):
        for kind, colour in (("unseen", UNSEEN), ("forgotten", FORGOTTEN)):
            values = np.clip(row[kind], bins[0], bins[-1])
            shares = np.full(len(values), 100 / len(values))
            panel.hist(values, bins, weights=shares, color=colour, alpha=0.35)
            panel.hist(values, bins, weights=shares, color=colour, histtype="step", lw=1.8)
        low, high = row["auc"][1:]
        panel.set_title(
            f"AUC of an attack on the records {row['auc'][0]:.2f} [{low:.2f}, {high:.2f}]\n"
            f"right on the records {row['accuracy on the records']:.0f} %, "
            f"on test images {row['accuracy on test data']:.0f} %",
            fontsize=9.5,
        )
        panel.text(
            0.5,
            1.2,
            TITLES[name],
            transform=panel.transAxes,
            ha="center",
            fontweight="bold",
            size=13,
        )
        panel.set_xlabel("how sure of the true class (log-odds)")
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("share of the images, %")
    handles = [mpl.patches.Patch(color=c, alpha=0.6) for c in (FORGOTTEN, UNSEEN)]
    labels = [f"the {numbers['records']} records to forget", "images the model never saw"]
    figure.legend(handles, labels, loc="lower center", ncols=2, frameon=False)
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    figure.savefig(IMAGES / "forget.png", dpi=150, metadata={"Software": None})


def _log_odds(predictions: Predictions) -> list[float]:
    """log p_y/(1 - p_y) of each example."""
    log_p = torch.log_softmax(predictions.logits.double(), dim=1)
    of_label = log_p.gather(1, predictions.labels.long()[:, None])[:, 0]
    odds = of_label - torch.log(-torch.expm1(of_label).clamp(max=-1e-12))
    return [round(float(value), 3) for value in odds]


def _accuracy(predictions: Predictions) -> float:
    return 100 * float((predictions.classes == predictions.labels).double().mean())


if __name__ == "__main__":
    torch.set_num_threads(1)  # rounding depends on the number of threads
    if "--redraw" not in sys.argv:
        NUMBERS.write_text(json.dumps(measure()) + "\n")
    draw(json.loads(NUMBERS.read_text()))
