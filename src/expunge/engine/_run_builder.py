"""Everything that decides a run, in one value, and how the run is put together from it."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import LRScheduler

from expunge._errors import Diverged, InvalidInput
from expunge.data._augment import Augment
from expunge.data._batches import Batch, Data, Source, Split, Stream, as_source, seed_of
from expunge.distributed import SINGLE, Group
from expunge.distributed._batch_shares import Cut
from expunge.distributed._batchnorm import synchronised
from expunge.engine._callbacks import Callback
from expunge.engine._checkpoint import describe, model_digest
from expunge.engine._device import device_of, fast_layout, finished, pick_device
from expunge.engine._history import History
from expunge.engine._micro_batches import parts_of
from expunge.engine._progress import ProgressBar
from expunge.engine._recipe import Recipe
from expunge.engine._run import Run
from expunge.methods import BatchNormPolicy, Method, Problem
from expunge.methods._batchnorm import check_policy
from expunge.methods._precision import Precision, check_precision
from expunge.methods._problem import Loss
from expunge.update import Update
from expunge.update._shards import is_spread

OptimizerFactory = Callable[..., torch.optim.Optimizer]
SchedulerFactory = Callable[[torch.optim.Optimizer], LRScheduler]


@dataclass(frozen=True)
class Result:
    """An unlearned (or trained) model, and how it came about."""

    model: nn.Module
    history: History


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The arguments of :func:`expunge.unlearn` and :func:`expunge.train`, made definite.

    A ``recipe`` decides optimizer and schedule; without one, ``optimizer`` (Adam by default) and
    ``lr`` do.
    """

    method: Method
    update: Update
    epochs: int
    batch_size: int
    lr: float
    optimizer: OptimizerFactory | None = None
    scheduler: SchedulerFactory | None = None
    recipe: Recipe | None = None
    loss: Loss = F.cross_entropy
    augment: Augment | None = None
    batchnorm: BatchNormPolicy = "published"
    seed: int = 0
    device: str | torch.device = "auto"
    checkpoint: str | Path | None = None
    checkpoint_every: int = 100
    callbacks: Sequence[Callback] = ()
    progress: bool = True
    title: str = ""
    group: Group = SINGLE
    micro_batches: int = 1
    precision: Precision = "fp32"

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "checkpoint_every", "micro_batches"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise InvalidInput(f"`{name}` should be a whole number, at least 1. (got {value})")
        if not self.lr > 0:
            raise InvalidInput(f"`lr` should be positive. (got {self.lr})")
        check_policy(self.batchnorm)
        check_precision(self.precision)

    def execute(self, model: nn.Module, forget: Data | None, retain: Data) -> Result:
        """Run on a copy of ``model``."""
        _check_whole(model)
        home, device = device_of(model), pick_device(self.device, model)
        copied = copy.deepcopy(model).to(device)
        self.group.copy_first([*copied.parameters(), *copied.buffers()])
        retained = self._source(retain, "retain", device)
        forgotten = None if forget is None else self._source(forget, "forget", device)
        copied = fast_layout(copied, retained)
        run = self._run(model, copied, forgotten, retained, device)
        self._check_agreement(run)
        seed = self.seed if self.group.is_first else seed_of(self.seed, "process", self.group.rank)
        with _seeded(seed, device), synchronised(copied, self.group):
            try:
                run.execute()
            except Diverged as error:
                error.result = Result(finished(copied, home), run.history)
                raise
        return Result(finished(copied, home), run.history)

    def _source(self, data: Data, split: Split, device: torch.device) -> Source:
        return as_source(
            data,
            split=split,
            batch_size=self.batch_size,
            seed=self.seed,
            augment=self.augment,
            device=device,
            cut=self._cut,
        )

    @property
    def _cut(self) -> Cut:
        """This process's part of every batch: whole micro-batches, where those are looked at."""
        parts = parts_of(self.update, self.micro_batches, self.group.size)
        return Cut(self.group.rank, self.group.size, parts)

    def _check_agreement(self, run: Run) -> None:
        """All processes should have been given the same, but for the weights, which are sent."""
        if not self.group:
            return
        said = self._fingerprint(run.model, run.forget, run.retain, run.optimizer)
        names = ("epochs", "batch_size", "checkpoint_every")
        said |= {name: getattr(self, name) for name in names}
        said |= {"steps": run.steps_per_epoch, "checkpoint": self.checkpoint is not None}
        said["callbacks"] = [type(c).__name__ for c in self.callbacks]
        self.group.check_agreement(said)

    def _run(
        self,
        model: nn.Module,
        copied: nn.Module,
        forget: Source | None,
        retain: Source,
        device: torch.device,
    ) -> Run:
        problem = Problem(
            copied,
            loss=self.loss,
            generator=torch.Generator().manual_seed(seed_of(self.seed, "method")),
            batchnorm=self.batchnorm,
            ranks=self.update.addon.ranks,
            pairs=None if forget is None else functools.partial(_one_pass, forget, retain),
            group=self.group,
            precision=self.precision,
        )
        if not problem.parameters:
            raise InvalidInput("The model has no parameter that requires a gradient.")
        optimizer = self._optimizer(problem.parameters, device)
        run = Run(
            problem,
            self.method,
            self.update,
            optimizer,
            forget,
            retain,
            self.epochs,
            device,
            callbacks=[*self._bar(), *self.callbacks],
            checkpoint=None if self.checkpoint is None else Path(self.checkpoint),
            checkpoint_every=self.checkpoint_every,
            group=self.group,
            micro_batches=self.micro_batches,
        )
        if self.checkpoint is not None:
            run.fingerprint = self._fingerprint(model, forget, retain, optimizer)
        if self.scheduler is not None:
            run.scheduler = self.scheduler(optimizer)
        elif self.recipe is not None:
            run.scheduler = self.recipe.scheduler(optimizer, run.steps_per_epoch)
            run.scheduler_every = "step"
        return run

    def _bar(self) -> list[Callback]:
        return [ProgressBar(self.title)] if self.progress and self.group.is_first else []

    def _optimizer(self, params: list[nn.Parameter], device: torch.device) -> torch.optim.Optimizer:
        if self.recipe is not None:
            return self.recipe.optimizer(params)
        make = self.optimizer
        if make is None:
            return torch.optim.Adam(params, lr=self.lr, fused=device.type in ("cpu", "cuda"))
        made = make(params, lr=self.lr) if isinstance(make, type) else make(params)
        if not isinstance(made, torch.optim.Optimizer):
            raise InvalidInput(f"`optimizer` should make a torch optimizer. (made {made!r})")
        return made

    def _fingerprint(
        self,
        model: nn.Module,
        forget: Source | None,
        retain: Source,
        optimizer: torch.optim.Optimizer,
    ) -> dict[str, Any]:
        """What a checkpoint belongs to; how long to run and where is not part of it."""
        return {
            "method": describe(self.method),
            "addon": describe(self.update.addon),
            "aggregate": describe(self.update.aggregate),
            "strict": self.update.strict,
            "loss": describe(self.loss),
            "batchnorm": self.batchnorm,
            "augment": describe(self.augment),
            "seed": self.seed,
            "forget": None if forget is None else forget.fingerprint(),
            "retain": retain.fingerprint(),
            "optimizer": describe(optimizer),
            "recipe": describe(self.recipe),
            "model": model_digest(model),
            **({"processes": self.group.size} if self.group else {}),
            **({"micro_batches": self.micro_batches} if self.micro_batches > 1 else {}),
            **({"precision": self.precision} if self.precision != "fp32" else {}),
            **({"moment_dtype": "bf16"} if self.update.state.narrow else {}),
        }


def _check_whole(model: nn.Module) -> None:
    if any(map(is_spread, model.parameters())):
        raise InvalidInput(
            "The model should be whole: `unlearn` works on a copy of it, and a sharded model has "
            "none. Step a sharded model with `expunge.Update` in a loop; see docs/scaling.md. "
            "(got parameters sharded over processes)"
        )


def _one_pass(forget: Source, retain: Source) -> Iterator[tuple[Batch, Batch]]:
    """Every forget batch once, each beside the next retain batch."""
    beside = Stream(retain)
    for batch in forget.walk(0, 0):
        yield batch, next(beside)


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """The global random state seeded for a run, and put back as it was afterwards."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
