"""The two entrances: ``unlearn`` a part of the data, or ``train`` on all of it."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import LRScheduler

from expunge.data.augment import Augment
from expunge.data.batches import Batch, Data, Source, Split, Stream, as_source, seed_of
from expunge.engine.callbacks import Callback
from expunge.engine.checkpoint import describe, model_digest
from expunge.engine.disjoint import check_disjoint
from expunge.engine.history import History
from expunge.engine.place import device_of, fast_layout, finished, pick_device
from expunge.engine.progress import ProgressBar
from expunge.engine.recipe import Recipe
from expunge.engine.run import Run
from expunge.errors import Diverged, InvalidInput
from expunge.methods import METHODS, BatchNormPolicy, Method, Problem, Retrain
from expunge.methods.batchnorm import check_policy
from expunge.methods.problem import Loss
from expunge.update import ADDONS, Addon, Aggregate, Update

OptimizerFactory = Callable[..., torch.optim.Optimizer]
SchedulerFactory = Callable[[torch.optim.Optimizer], LRScheduler]


@dataclass(frozen=True)
class Result:
    """An unlearned (or trained) model, and how it came about."""

    model: nn.Module
    history: History


def unlearn(
    model: nn.Module,
    *,
    forget: Data,
    retain: Data,
    method: Method | str = "random-label",
    addon: Addon | str = "focus",
    aggregate: Aggregate | str | Any = "linear",
    epochs: int = 10,
    batch_size: int = 256,
    lr: float | None = None,
    optimizer: OptimizerFactory | None = None,
    scheduler: SchedulerFactory | None = None,
    loss: Loss = F.cross_entropy,
    augment: Augment | None = None,
    batchnorm: BatchNormPolicy = "published",
    strict: bool = False,
    seed: int = 0,
    device: str | torch.device = "auto",
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 100,
    callbacks: Sequence[Callback] = (),
    progress: bool = True,
) -> Result:
    """Take the influence of ``forget`` out of a copy of ``model``, keeping it good on ``retain``.

    One epoch is one pass over the forget set; each of its batches is paired with the next batch of
    the retain set, which is reshuffled when it runs out. Same seed, same bits on the CPU.

    Args:
        model: any module that maps a batch of inputs to logits; it is left untouched.
        forget, retain: map-style datasets of (input, target), or DataLoaders.
        method: a name (``"random-label"``, ``"SRL"``, …) or an instance.
        addon, aggregate: see :class:`expunge.Update`.
        lr: learning rate; 1e-4 by default, 0.1 for ``retrain``.
        optimizer: a class of ``torch.optim``, called with the parameters and ``lr``, or a function
            of the parameters; Adam by default.
        scheduler: a function of the optimizer; stepped once an epoch.
        loss: maps (logits, targets) to the mean over the batch.
        augment: applied to whole batches of images held in memory.
        batchnorm: what may move running statistics: ``published`` (every batch), ``retain-only``,
            ``frozen``.
        strict: a parameter outside the mask does not move at all; see :class:`expunge.Update`.
        device: ``auto`` takes an accelerator if there is one.
        checkpoint: a file to keep the state of the run in, every ``checkpoint_every`` steps and at
            each epoch's end; the same call takes a killed run up where it was.
        callbacks: see :class:`expunge.Callback`.
        progress: show a progress bar if standard error is a terminal.

    Returns:
        The unlearned model, in eval mode, on the device of ``model``, and the history.

    Raises:
        Diverged: a loss or gradient became non-finite; ``.result`` has the last good weights.

    Example:
        >>> data = torch.utils.data.TensorDataset(torch.randn(32, 3), torch.arange(32) % 2)
        >>> forget, retain = torch.utils.data.random_split(data, [8, 24])
        >>> result = unlearn(torch.nn.Linear(3, 2), forget=forget, retain=retain, epochs=2)
        >>> len(result.history.epochs), result.history.epochs[-1]["steps"]
        (2, 1)
    """
    chosen: Method = METHODS.resolve(method)
    if not isinstance(chosen, Method):
        raise InvalidInput(f"`method` should be a name or a method. (got {method!r})")
    check_disjoint(forget, retain)
    recipe = Recipe(epochs=epochs, batch_size=batch_size) if isinstance(chosen, Retrain) else None
    if recipe is not None and lr is not None:
        recipe = Recipe(epochs=epochs, batch_size=batch_size, lr=lr)
    return _run(
        model,
        forget=forget,
        retain=retain,
        method=chosen,
        update=Update(addon, aggregate, strict=strict, seed=seed),
        epochs=epochs,
        batch_size=batch_size,
        lr=1e-4 if lr is None else lr,
        optimizer=optimizer,
        scheduler=scheduler,
        recipe=recipe if optimizer is None else None,
        loss=loss,
        augment=augment,
        batchnorm=batchnorm,
        seed=seed,
        device=device,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        callbacks=callbacks,
        progress=progress,
        title="-".join(
            part
            for part in (METHODS.label_of(chosen), ADDONS.label_of(ADDONS.resolve(addon)))
            if part != "none"
        ),
    )


def train(
    model: nn.Module,
    data: Data,
    *,
    recipe: Recipe | None = None,
    loss: Loss = F.cross_entropy,
    augment: Augment | None = None,
    seed: int = 0,
    device: str | torch.device = "auto",
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 1000,
    callbacks: Sequence[Callback] = (),
    progress: bool = True,
    title: str = "train",
) -> Result:
    """Train a copy of ``model`` on ``data``: how initial and ideal models come about.

    The same loop as :func:`unlearn`, with the same promises: deterministic, resumable from
    ``checkpoint``, stopped at divergence with the last good weights.
    """
    recipe = recipe or Recipe()
    return _run(
        model,
        forget=None,
        retain=data,
        method=Retrain(reset=False),
        update=Update("none", seed=seed),
        epochs=recipe.epochs,
        batch_size=recipe.batch_size,
        lr=recipe.lr,
        optimizer=None,
        scheduler=None,
        recipe=recipe,
        loss=loss,
        augment=augment,
        batchnorm="published",
        seed=seed,
        device=device,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        callbacks=callbacks,
        progress=progress,
        title=title,
    )


def _run(
    model: nn.Module,
    *,
    forget: Data | None,
    retain: Data,
    method: Method,
    update: Update,
    epochs: int,
    batch_size: int,
    lr: float,
    optimizer: OptimizerFactory | None,
    scheduler: SchedulerFactory | None,
    recipe: Recipe | None,
    loss: Loss,
    augment: Augment | None,
    batchnorm: BatchNormPolicy,
    seed: int,
    device: str | torch.device,
    checkpoint: str | Path | None,
    checkpoint_every: int,
    callbacks: Sequence[Callback],
    progress: bool,
    title: str,
) -> Result:
    _check_numbers(epochs=epochs, batch_size=batch_size, checkpoint_every=checkpoint_every)
    if not lr > 0:
        raise InvalidInput(f"`lr` should be positive. (got {lr})")
    home = device_of(model)
    target = pick_device(device, model)
    copied = copy.deepcopy(model).to(target)

    def source(data: Data, split: Split) -> Source:
        return as_source(
            data, split=split, batch_size=batch_size, seed=seed, augment=augment, device=target
        )

    retained = source(retain, "retain")
    forgotten = None if forget is None else source(forget, "forget")
    copied = fast_layout(copied, retained)
    problem = Problem(
        copied,
        loss=loss,
        generator=torch.Generator().manual_seed(seed_of(seed, "method")),
        batchnorm=check_policy(batchnorm),
        ranks=update.addon.ranks,
        pairs=None if forgotten is None else functools.partial(_one_pass, forgotten, retained),
    )
    if not problem.parameters:
        raise InvalidInput("The model has no parameter that requires a gradient.")
    stepper = _optimizer(optimizer, recipe, problem.parameters, lr, target)
    run = Run(
        problem,
        method,
        update,
        stepper,
        forgotten,
        retained,
        epochs,
        target,
        callbacks=[*([ProgressBar(title)] if progress else []), *callbacks],
        checkpoint=None if checkpoint is None else Path(checkpoint),
        checkpoint_every=checkpoint_every,
        fingerprint={}
        if checkpoint is None
        else {
            "method": describe(method),
            "addon": describe(update.addon),
            "aggregate": describe(update.aggregate),
            "strict": update.strict,
            "loss": describe(loss),
            "batchnorm": batchnorm,
            "augment": describe(augment),
            "seed": seed,
            "forget": None if forgotten is None else forgotten.fingerprint(),
            "retain": retained.fingerprint(),
            "optimizer": describe(stepper),
            "recipe": describe(recipe),
            "model": model_digest(model),
        },
    )
    if scheduler is not None:
        run.scheduler = scheduler(stepper)
    elif recipe is not None:
        run.scheduler, run.scheduler_every = recipe.scheduler(stepper, run.steps_per_epoch), "step"
    with _seeded(seed, target):
        try:
            run.execute()
        except Diverged as error:
            error.result = Result(finished(copied, home), run.history)
            raise
    return Result(finished(copied, home), run.history)


def _one_pass(forget: Source, retain: Source) -> Iterator[tuple[Batch, Batch]]:
    """Every forget batch once, each beside the next retain batch."""
    beside = Stream(retain)
    for batch in forget.walk(0, 0):
        yield batch, next(beside)


def _optimizer(
    factory: OptimizerFactory | None,
    recipe: Recipe | None,
    params: list[nn.Parameter],
    lr: float,
    device: torch.device,
) -> torch.optim.Optimizer:
    if recipe is not None:
        return recipe.optimizer(params)
    if factory is None:
        return torch.optim.Adam(params, lr=lr, fused=device.type in ("cpu", "cuda"))
    made = factory(params, lr=lr) if isinstance(factory, type) else factory(params)
    if not isinstance(made, torch.optim.Optimizer):
        raise InvalidInput(f"`optimizer` should make a torch optimizer. (made {made!r})")
    return made


def _seeded(seed: int, device: torch.device) -> AbstractContextManager[None]:
    return _Seeded(seed, device)


class _Seeded:
    """The global random state seeded for a run, and put back as it was afterwards."""

    def __init__(self, seed: int, device: torch.device) -> None:
        self.seed = seed
        self.fork = torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])

    def __enter__(self) -> None:
        self.fork.__enter__()
        torch.manual_seed(self.seed)

    def __exit__(self, *details: Any) -> Literal[False]:
        self.fork.__exit__(*details)
        return False


def _check_numbers(**numbers: int) -> None:
    for name, value in numbers.items():
        if not isinstance(value, int) or value < 1:
            raise InvalidInput(f"`{name}` should be a whole number, at least 1. (got {value})")
