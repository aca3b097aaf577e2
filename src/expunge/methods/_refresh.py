"""Refresh: mix the weights with fresh ones, then train on the retained data."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from expunge._kinds import Fraction, Positive, Range
from expunge.data import Batch, Split
from expunge.methods._fine_tune import FineTune
from expunge.methods._problem import Problem, apply, eval_mode, widened
from expunge.methods._retrain import draw_again, state_of
from expunge.methods._tokens import is_labelled, is_token_labels, labelled

MEASURED = 500
"""Retained examples that λ is chosen by."""
HALVINGS = 4
"""Of the interval that λ is in: the choice is exact to 1/16."""
RIDGE = 0.1
"""The penalty of the probe, per feature."""
MOST_TOKENS = 2000
"""Tokens that the probe of a language model is fitted to."""
CONSTANT = 1e-3
"""A feature that varies by less than this share of the one that varies most is not scaled up: it
may be rounding."""


@dataclass(frozen=True)
class Refresh(FineTune):
    """θ ← λθ + (1-λ)·θ_fresh for tensors of two or more axes; then U = L on retain.

    θ_fresh is drawn by every submodule's ``reset_parameters`` (a normal distribution where there is
    none), and scaled to the norm of the trained tensor. Biases, the parameters of normalisation
    layers and frozen parameters stay. BatchNorm's statistics are estimated again. Then the model is
    trained on retained data alone, one cycle of the rate over ``budget`` of the epochs of its
    ``recipe``; an epoch is one pass over the retain set. The forget set is never read, so the cost
    does not depend on it.

    λ falls with depth, because later layers hold more of what is particular to single records and
    are learnt again faster: with t in [0, 1] the place of a tensor in the order of the model's
    parameters,

        λ(t) = keep^(1/2 + t).

    By default ``keep`` is the largest number that leaves at most the part ``left`` of what the
    features of the model knew. With p(keep) the accuracy of a ridge regression from the features
    of :data:`MEASURED` retained examples right after mixing (what the last layer with weights is
    given) to their classes, each example predicted by the others,

        (p(keep) - p(0)) / (p(1) - p(0)) ≤ left.

    For a regression, p is the squared correlation. Forward passes are enough to find it: six of
    them, by halving the interval. A smaller ``keep`` forgets more, and leaves more to learn again.

    Use it for deletion requests to classifiers, and to make regressors forget, whatever and however
    much there is: what it removes does not return when training continues.

    Reference: none for unlearning; J. T. Ash, R. P. Adams, *On Warm-Starting Neural Network
    Training*, NeurIPS 2020 (arXiv 1910.08475) shrink and perturb weights to generalise better.

    Args:
        keep: see above, in [0, 1]; None chooses it.
        left: see above, in (0, 1). None is 0.5 for models with BatchNorm and with a ``reference``,
            and 0.2 for all others, which learn again more of what was mixed away.
        budget: the part of the epochs of a ``recipe``, in (0, 1].
        rate: the peak rate as a multiple of the recipe's. None is 4 for Adam and AdamW, as a short
            training needs larger steps, and 1 for SGD, whose rate is usually as large as the model
            can stand. With a ``reference`` it is 1.
        reference: weights to mix with in place of fresh ones, such as the checkpoint that the model
            was fine-tuned from: a model, its ``state_dict()``, or a safetensors file. Then tensors
            of any number of axes are mixed, and none is scaled. A tensor that the reference does
            not have in this shape, such as that of a new head, is mixed with a fresh one.

    >>> from expunge import Recipe, unlearn
    >>> data = torch.utils.data.TensorDataset(torch.randn(32, 3), torch.arange(32) % 2)
    >>> forget, retain = torch.utils.data.random_split(data, [8, 24])
    >>> recipe = Recipe(epochs=20, batch_size=8, lr=0.1)  # how the model was trained
    >>> model = nn.Linear(3, 2)
    >>> result = unlearn(model, forget=forget, retain=retain, method="refresh", optimizer=recipe)
    >>> len(result.history.epochs)
    4
    """

    epoch_over: ClassVar[Split] = "retain"
    reads_forget: ClassVar[bool] = False
    needs_initial: ClassVar[bool] = False
    preferred: ClassVar[dict[str, Any]] = {
        "epochs": 5,
        "batch_size": 64,
        "lr": 4e-3,
        "schedule": "one-cycle",
    }

    keep: Annotated[float, Range(0, 1, "[]")] | None = None
    left: Fraction | None = None
    budget: Annotated[float, Range(0, 1, "(]")] = 0.2
    rate: Positive | None = None
    reference: Any = None

    def own_recipe(self, recipe: Any) -> Any:
        usual = 4.0 if recipe.algorithm != "sgd" and self.reference is None else 1.0
        return recipe.shortened(self.budget, usual if self.rate is None else self.rate)

    def left_in(self, model: nn.Module) -> float:
        """What is left in this model: what was given, or the default for it."""
        if self.left is not None:
            return self.left
        normalised = any(isinstance(module, _BatchNorm) for module in model.modules())
        return 0.5 if normalised or self.reference is not None else 0.2

    @torch.no_grad()
    def prepare(self, problem: Problem) -> None:
        """Mix the weights, with the ``keep`` that is given or found."""
        trained = {name: p.detach().clone() for name, p in _moving(problem)}
        others = mixing_partners(problem, trained, state_of(self.reference))
        shares = dict(zip(others, depths(len(others)), strict=True))
        batches: list[Batch] = []
        for batch in problem.retained():
            batches.append(batch)
            if sum(len(b.targets) for b in batches) * problem.group.size >= MEASURED:
                break
        with features_of(problem.model) as features:

            def mix(keep: float) -> float:
                for name, p in _moving(problem):
                    if name in others:
                        share = keep ** (0.5 + shares[name])
                        p.copy_(torch.lerp(others[name], trained[name], share))
                return _score(problem, batches, features)

            left = self.left_in(problem.model)
            keep = find_keep(mix, left) if self.keep is None else self.keep
            mix(keep)
        problem.memory["keep"] = torch.tensor(keep, dtype=torch.float64)

    def recorded(self, problem: Problem) -> dict[str, float]:
        return {"keep": float(problem.memory["keep"])}


def depths(count: int) -> list[float]:
    """The places of ``count`` tensors in [0, 1], evenly spaced.

    >>> depths(1), depths(3)
    ([0.5], [0.0, 0.5, 1.0])
    """
    return [i / (count - 1) for i in range(count)] if count > 1 else [0.5] * count


def find_keep(score: Callable[[float], float], left: float) -> float:
    """The largest number in [0, 1] that leaves at most ``left`` of the score, by halving.

    A score that does not grow from 0 to 1 belongs to a model that knows nothing to keep.
    """
    least, most = score(0.0), score(1.0)
    if most <= least:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if (score(middle) - least) / (most - least) <= left:
            low = middle
        else:
            high = middle
    return low


def mixing_partners(
    problem: Problem, trained: Mapping[str, Tensor], reference: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """What each of the ``trained`` tensors is mixed with; those that stay are left out."""
    fresh_model = copy.deepcopy(problem.model)
    with problem.seeded():
        left = draw_again(fresh_model)
        drawn = dict(fresh_model.named_parameters())
        for name in left:
            drawn[name].normal_()
    partners = {}
    for name, tensor in trained.items():
        if name in reference and reference[name].shape == tensor.shape:
            partners[name] = reference[name].to(tensor)
        elif tensor.ndim >= 2:
            fresh = drawn[name].detach()
            partners[name] = fresh * (tensor.norm() / fresh.norm().clamp(min=1e-12))
    return partners


def _moving(problem: Problem) -> list[tuple[str, nn.Parameter]]:
    return [(name, p) for name, p in problem.model.named_parameters() if p.requires_grad]


def _score(problem: Problem, batches: Sequence[Batch], features: list[Tensor]) -> float:
    """What features of the batches tell of their targets; BatchNorm's statistics become theirs."""
    known = []
    with estimating_statistics(problem.model):
        for batch in batches:
            features.clear()
            outputs = apply(problem.model, batch.inputs)
            known.append(widened(features[-1] if features else outputs))
    if is_token_labels(batches[0].targets):
        # What stands before a token predicts it.
        wanted = [batch.targets for batch in batches]
        given = torch.cat([labelled(k, each) for k, each in zip(known, wanted, strict=True)])
        targets = torch.cat([each[:, 1:][is_labelled(each)] for each in wanted])
        step = math.ceil(len(given) * problem.group.size / MOST_TOKENS)
        given, targets = given[::step], targets[::step]
    else:
        given = torch.cat([each.flatten(1) for each in known])
        targets = torch.cat([batch.targets for batch in batches])
    parts = problem.group.exchange((given.cpu(), targets.cpu()))
    return float(probe(*(torch.cat(part) for part in zip(*parts, strict=True))))


@contextmanager
def features_of(model: nn.Module) -> Iterator[list[Tensor]]:
    """A list that every layer with weights appends its input to, so that the last one's is last."""
    features: list[Tensor] = []

    def remember(module: nn.Module, arguments: tuple[Any, ...]) -> None:
        if arguments and isinstance(arguments[0], Tensor) and arguments[0].is_floating_point():
            features[:] = [arguments[0]]

    layers = [m for m in model.modules() if any(p.ndim >= 2 for p in m.parameters(recurse=False))]
    handles = [layer.register_forward_pre_hook(remember) for layer in layers]
    try:
        yield features
    finally:
        for handle in handles:
            handle.remove()


def probe(features: Tensor, targets: Tensor) -> Tensor:
    """How well a ridge regression from ``features`` [n, d] predicts ``targets`` [n].

    Every row is predicted by the others: with G = (K + λI)⁻¹ and K the kernel of the features, the
    error of row i is (G y)_i / G_ii. Accuracy averaged over classes; of targets that are not
    classes, the squared correlation.
    """
    if targets.is_floating_point():
        wanted = targets.reshape(len(targets), -1)[:, :1].double()
    else:
        classes, targets = torch.unique(targets, return_inverse=True)
        wanted = F.one_hot(targets, len(classes)).double()
    rows = features.double() - features.double().mean(dim=0)
    spread = rows.std(dim=0, correction=0)
    rows /= spread.clamp(min=max(CONSTANT * float(spread.max()), 1e-12))
    kernel = rows @ rows.T
    kernel.diagonal().add_(RIDGE * rows.shape[1])
    inverse = torch.linalg.inv(kernel)
    errors = inverse @ (wanted - wanted.mean(dim=0)) / inverse.diagonal()[:, None]
    return known_part(wanted - errors, wanted[:, 0] if targets.is_floating_point() else targets)


def known_part(outputs: Tensor, targets: Tensor) -> Tensor:
    """Accuracy, averaged over classes; of targets that are not classes, the squared correlation."""
    if targets.is_floating_point():
        pair = torch.stack((outputs.reshape(-1), targets.reshape(-1))).double()
        return torch.nan_to_num(torch.corrcoef(pair)[0, 1].square())
    right = (outputs.argmax(dim=1) == targets).double()
    classes, place = torch.unique(targets, return_inverse=True)
    counts = torch.bincount(place, minlength=len(classes))
    return (torch.bincount(place, right, minlength=len(classes)) / counts).mean()


@contextmanager
def estimating_statistics(model: nn.Module) -> Iterator[None]:
    """The model in eval mode, but for BatchNorm: its statistics become the means over batches."""
    layers = [m for m in model.modules() if isinstance(m, _BatchNorm) and m.track_running_stats]
    momenta = [m.momentum for m in layers]
    with eval_mode(model):
        for layer in layers:
            layer.reset_running_stats()
            layer.momentum = None  # a cumulative mean
            layer.train()
        try:
            yield
        finally:
            for layer, momentum in zip(layers, momenta, strict=True):
                layer.momentum = momentum
