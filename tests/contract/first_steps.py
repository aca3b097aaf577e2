"""The first step of every method with every add-on, computed in slightly different ways.

``python -m tests.contract.first_steps FILE`` writes them all to a file, so that a test can compare
them between processes with other arithmetic.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from expunge.methods import METHODS, Batch, Problem
from expunge.update import ADDONS, Addon, Prob, Update
from tests.tiny import CLASSES, TinyConv, images, points

EXAMPLES = 24
"""In each of the two batches."""
FEATURES = 20
Gradients = dict[str, Tensor]
"""By the names of the parameters."""


def mlp() -> nn.Module:
    """Two layers without BatchNorm: at the initial model SCRUB's objective is stationary."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return nn.Sequential(nn.Linear(FEATURES, 32), nn.Tanh(), nn.Linear(32, CLASSES))


def vectors(count: int, seed: int) -> TensorDataset:
    return points(count, seed, FEATURES)


def confident() -> nn.Module:
    """An MLP with large outputs."""
    model = mlp()
    with torch.no_grad():
        model[-1].weight *= 6.0
    return model


@torch.no_grad()
def fitted(count: int, seed: int) -> TensorDataset:
    """The points, of many, that ``confident`` is most certain about, labelled as it says.

    The gradients of its losses are small there, and rounding is not, beside them.
    """
    x = vectors(50 * count, seed).tensors[0]
    best, labels = confident()(x).topk(2).values, confident()(x).argmax(dim=-1)
    certain = (best[:, 0] - best[:, 1]).topk(count).indices
    return TensorDataset(x[certain], labels[certain])


WORLDS: dict[str, tuple[Callable[[], nn.Module], Callable[[int, int], TensorDataset]]] = {
    "mlp": (mlp, vectors),
    "fitted": (confident, fitted),
    "conv": (TinyConv, images),  # with a bias before BatchNorm: its gradient is all rounding
}
QUICK = {"impair-repair": "UNSIR(steps=2)"}
"""Methods with options that make them quick."""
PARTS: dict[str, Addon] = {name: ADDONS[name]() for name in ADDONS} | {"prob 1/2": Prob(p=0.5)}


class WholeSplits:
    """The splits of a world, in their original order, for methods that look at all of them."""

    def __init__(self, world: str, factor: float) -> None:
        make_data = WORLDS[world][1]
        seeds = {"forget": 1, "retain": 2, "unseen": 3}
        data = {split: make_data(EXAMPLES, seed).tensors for split, seed in seeds.items()}
        self.tensors = {split: (x * factor, y) for split, (x, y) in data.items()}

    def labels(self, split: str) -> Tensor:
        return self.tensors[split][1]

    @torch.no_grad()
    def predict(self, model: nn.Module, split: str) -> tuple[Tensor, Tensor]:
        x, y = self.tensors[split]
        training = model.training
        logits = model.eval()(x)
        model.train(training)
        return logits, y

    def strata(self, split: str) -> Tensor:
        return self.labels(split)

    def given(self, split: str) -> Tensor | None:
        return None

    def token_log_probs(self, model: nn.Module, split: str) -> Tensor:
        logits, labels = self.predict(model, split)
        return logits.double().log_softmax(dim=1).gather(1, labels[:, None])


class OrderedProblem(Problem):
    """A problem whose random draws follow the examples when their order changes."""

    order: Tensor

    def draw(self, high: int, like: Tensor, share: object = None) -> Tensor:
        return super().draw(high, like)[self.order]


def gradients(
    world: str, method: str, order: Tensor, factor: float
) -> tuple[Gradients, Gradients | None, Gradients | None]:
    """Of the objective, the constraint and the saliency, at the first step."""
    splits = WholeSplits(world, factor)
    forget, retain = (
        Batch(x[order], y[order], split, indices=order)
        for split, (x, y) in splits.tensors.items()
        if split != "unseen"
    )
    model, kind = WORLDS[world][0]().train(), METHODS.resolve(QUICK.get(method, method))
    problem = OrderedProblem(
        model,
        needs_saliency=True,
        pairs=lambda: iter([(forget, retain)]),
        retained=lambda: iter([retain]),
        splits=splits,
    )
    problem.order = order
    kind.prepare(problem)
    kind.begin_epoch(problem, 1, 1)
    parameters = dict(model.named_parameters())

    def gradient(loss: Tensor | None) -> Gradients | None:
        if loss is None:
            return None
        values = torch.autograd.grad(
            loss,
            list(parameters.values()),
            retain_graph=True,
            allow_unused=True,  # RMU does not reach what is above its layer
            materialize_grads=True,
        )
        return dict(zip(parameters, values, strict=True))

    objective = kind.objective(problem, forget, retain)
    constraint = kind.constraint(problem, forget, retain) if kind.constrained else None
    return gradient(objective.loss), gradient(constraint), gradient(objective.saliency)


def first_steps(*, order: Tensor | None = None, factor: float = 1.0) -> dict[str, Gradients]:
    """-Δ by "world method add-on", with the examples of a batch in ``order`` and inputs scaled."""
    order = torch.arange(EXAMPLES) if order is None else order
    steps = {}
    for world, method in itertools.product(WORLDS, METHODS):
        if world != "conv" and method == "conv-transpose":  # there is nothing to transpose
            continue
        objective, constraint, saliency = gradients(world, method, order, factor)
        for name, addon in PARTS.items():
            sides = [side and list(side.values()) for side in (objective, constraint, saliency)]
            step = Update(addon).combine(sides[0], sides[1], saliency=sides[2])
            steps[f"{world} {method} {name}"] = dict(zip(objective, step, strict=True))
    return steps


if __name__ == "__main__":
    torch.save(first_steps(), sys.argv[1])
