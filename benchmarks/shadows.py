"""How much sooner shadow models are trained by a short recipe, and whether they still serve.

    python benchmarks/shadows.py --shadows 16 --targets 3

LiRA on digits (SmallCNN at width 1/4, few images, so that some are learnt by heart): each target
model is trained by the published recipe on half of the candidates, and the attack has to tell that
half from the other. Shadows are trained by the published recipe (100 epochs of SGD, rate 0.1, a
tenth of it after epoch 91) and by one-cycle recipes of fewer epochs, in turns, on the same draws.
The seconds per shadow are medians, with quartiles; the AUC is the mean over the target models, with
the lowest and the highest.

``--clock cpu --threads 1`` counts processor time, for a machine with other work.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

from expunge.data import ImageSet, load
from expunge.engine import Execution, Recipe, train
from expunge.evaluation import predict
from expunge.evaluation.attacks._lira import ShadowScores, lira, scaled_confidence
from expunge.evaluation.attacks._shadow_models import draw_members, join
from expunge.models import build_model

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
RECIPES = {
    "published, 100 epochs": Recipe(),
    "one-cycle, 20 epochs": Recipe(epochs=20, schedule="one-cycle"),
    "one-cycle, 10 epochs": Recipe(epochs=10, schedule="one-cycle"),
}


def confidences(data: ImageSet, candidates: ImageSet, recipe: Recipe, seed: int) -> np.ndarray:
    """Train one model; its confidence in each candidate."""
    model = build_model("small-cnn", width=0.25, in_channels=1, seed=seed)
    execution = Execution(seed=seed, progress=False)
    trained = train(model, data, recipe=recipe, execution=execution).model
    return scaled_confidence(*predict(trained, candidates))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shadows", type=int, default=16)
    parser.add_argument("--targets", type=int, default=3)
    parser.add_argument("--candidates", type=int, default=400)
    parser.add_argument("--retain", type=int, default=200)
    parser.add_argument("--threads", type=int, help="of torch; all cores unless given")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    clock = CLOCKS[options.clock]
    everything = load("digits").train
    order = np.random.default_rng(0).permutation(len(everything))
    candidates = everything.subset(order[: options.candidates])
    retain = everything.subset(order[options.candidates :][: options.retain])

    def draw(index: int) -> tuple[np.ndarray, ImageSet]:
        config = {"seed": 0, "index": index, "share": 0.5}
        seen, kept = draw_members(len(candidates), len(retain), config)
        return seen, join(candidates.subset(np.flatnonzero(seen)), retain.subset(kept))

    seconds: dict[str, list[float]] = {name: [] for name in RECIPES}
    found: dict[str, list[np.ndarray]] = {name: [] for name in RECIPES}
    draws = [draw(index) for index in range(options.shadows)]
    for index, (_, data) in enumerate(draws):
        for name, recipe in RECIPES.items():
            start = clock()
            found[name].append(confidences(data, candidates, recipe, index))
            seconds[name].append(clock() - start)
    seen = np.stack([row for row, _ in draws])
    areas: dict[str, list[float]] = {name: [] for name in RECIPES}
    for target in range(options.targets):
        members, data = draw(1000 + target)
        confidence = confidences(data, candidates, Recipe(), 1000 + target)
        for name in RECIPES:
            scores = lira(confidence, ShadowScores(np.stack(found[name]), seen))
            areas[name].append(float(roc_auc_score(members, scores)))
    print(
        f"{torch.get_num_threads()} of {os.cpu_count()} threads, torch {torch.__version__}, "
        f"{options.clock} clock, load {os.getloadavg()[0]:.1f}; {options.shadows} shadows, "
        f"{options.targets} targets, {len(candidates)} candidates, {len(retain)} others"
    )
    published = seconds["published, 100 epochs"]
    for name, values in seconds.items():
        low, middle, high = statistics.quantiles(values, n=4)
        ratio = statistics.median([a / b for a, b in zip(published, values, strict=True)])
        print(
            f"{name:24}{middle:7.2f} s [{low:.2f}, {high:.2f}]{ratio:7.1f}x   "
            f"AUC {statistics.mean(areas[name]):.3f} "
            f"[{min(areas[name]):.3f}, {max(areas[name]):.3f}]"
        )


if __name__ == "__main__":
    main()
