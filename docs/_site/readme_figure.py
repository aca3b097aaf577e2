"""Draw the figure at the top of the README, from a real request on CIFAR-10.

    python docs/_site/readme_figure.py cifar10:DATA STORE REQUESTS
    python docs/_site/readme_figure.py --redraw

STORE has the models of ``expunge bench run cpu``, REQUESTS what ``benchmarks/requests.py`` wrote:
the request to forget ``random:0.1``, default settings, from the first model of 10,000 images. The
numbers are kept in docs/images/forget.json; ``--redraw`` draws from those.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch

from expunge import _tensors as tensors
from expunge.engine._model_from_config import build_from_config, fit_weights, sizes_for
from expunge.evaluation import Predictions, run_attack, view

mpl.use("agg")

from matplotlib import pyplot as plt

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"
NUMBERS = IMAGES / "forget.json"
SCENARIO = "random:0.1"
BINS = np.linspace(-8, 12, 21)
FORGOTTEN, UNSEEN = "#d95f02", "#7a8794"
TITLES = {
    "before": "Before",
    "after": "After expunge forget",
    "retrained": "Retrained without them",
}


def measure(data: str, store: Path, requests: Path) -> dict[str, Any]:
    """The models before, after and retrained, each on the records, test data and all the rest."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from request_worlds import stored_worlds

    world = next(w for w in stored_worlds(store, data, requests / "retrained") if w.seed == 0)
    splits, ids = world.splits, world.forget_set(SCENARIO)
    gone = set(ids)
    forget = splits.train.subset(ids)
    retain = splits.train.subset([i for i in range(len(splits.train)) if i not in gone])
    bundle = requests / "requests" / f"default-{world.name}-0-{SCENARIO.replace(':', '_')}-0/0001"
    after = build_from_config(world.config["model"] | sizes_for(splits))
    fit_weights(after, tensors.load(bundle / "weights.safetensors")[0], str(bundle))
    evidence = json.loads((bundle / "evidence.json").read_text())
    models = {"before": world.initial, "after": after.eval(), "retrained": world.ideal(ids)}
    numbers: dict[str, Any] = {
        "status": evidence["verdict"]["status"],
        "records": len(ids),
        "models": {},
    }
    for name, model in models.items():
        views = view(model, forget=forget, retain=retain, test=splits.test, val=splits.val)
        numbers["models"][name] = {
            "forgotten": _histogram(views.forget),
            "unseen": _histogram(views.test),
            "auc": [round(value, 4) for value in run_attack("loss", views).auc],
            "accuracy on the records": _accuracy(views.forget),
            "accuracy on test data": _accuracy(views.test),
        }
    return numbers


def draw(numbers: dict[str, Any]) -> None:
    """Three panels: how sure each model is of the records, and of images it never saw."""
    plt.rcParams |= {"font.size": 11, "font.family": "DejaVu Sans"}
    figure, panels = plt.subplots(1, 3, figsize=(11, 4.2), sharey=True)
    for panel, (name, row) in zip(panels, numbers["models"].items(), strict=True):
        for kind, colour in (("unseen", UNSEEN), ("forgotten", FORGOTTEN)):
            panel.stairs(row[kind], BINS, fill=True, color=colour, alpha=0.35)
            panel.stairs(row[kind], BINS, color=colour, lw=1.8)
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
    labels = [f"the {numbers['records']:,} records to forget", "images the model never saw"]
    figure.legend(handles, labels, loc="lower center", ncols=2, frameon=False)
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    figure.savefig(IMAGES / "forget.png", dpi=150, metadata={"Software": None})


def _histogram(predictions: Predictions) -> list[float]:
    """The percentage of examples in each bin of log p_y/(1 - p_y); the outer bins are open."""
    log_p = torch.log_softmax(predictions.logits.double(), dim=1)
    of_label = log_p.gather(1, predictions.labels.long()[:, None])[:, 0]
    odds = of_label - torch.log(-torch.expm1(of_label).clamp(max=-1e-12))
    counts, _ = np.histogram(odds.clamp(float(BINS[0]), float(BINS[-1])).numpy(), BINS)
    return [round(float(share), 3) for share in 100 * counts / counts.sum()]


def _accuracy(predictions: Predictions) -> float:
    return 100 * float((predictions.classes == predictions.labels).double().mean())


if __name__ == "__main__":
    torch.set_num_threads(1)  # rounding depends on the number of threads
    if "--redraw" not in sys.argv:
        data, store, requests = sys.argv[1:]
        NUMBERS.write_text(json.dumps(measure(data, Path(store), Path(requests)), indent=1) + "\n")
    draw(json.loads(NUMBERS.read_text()))
