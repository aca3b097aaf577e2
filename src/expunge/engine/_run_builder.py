"""How a run is put together: a copy of the model, sources of batches, optimizer and callbacks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import LRScheduler

from expunge._errors import Diverged, InvalidInput
from expunge.data._augment import Augment
from expunge.data._batches import Batch, Data, Source, Split, Stream, as_source, seed_of
from expunge.distributed import SINGLE, Group
from expunge.distributed._batch_shares import BatchDivision
from expunge.distributed._batchnorm import synchronised
from expunge.engine._callbacks import Callback
from expunge.engine._checkpoint import describe, model_digest
from expunge.engine._device import device_of, hand_over, pick_device
from expunge.engine._history import History
from expunge.engine._losses import parts_of
from expunge.engine._memory_layout import fast_layout
from expunge.engine._procedure import Procedure
from expunge.engine._progress import EpochLines, ProgressBar
from expunge.engine._recipe import Recipe, make_schedule
from expunge.engine._run import Run
from expunge.engine._run_parts import (
    NOTHING_MOVES,
    copy_model,
    make_optimizer,
    make_scheduler,
)
from expunge.engine._split_reader import RunSplits
from expunge.methods import Method, Problem
from expunge.methods._problem import Loss
from expunge.update import Update
from expunge.update._shards import is_sharded

OptimizerFactory = Annotated[
    Callable[..., torch.optim.Optimizer],
    "a class of torch.optim, or a function of the parameters, such as lambda params: "
    "torch.optim.SGD(params, lr=0.1) (the model is copied, and an optimizer made before belongs to "
    "other parameters)",
]
SchedulerFactory = Annotated[
    Callable[[torch.optim.Optimizer], LRScheduler],
    "a function of the optimizer, such as lambda optimizer: "
    "torch.optim.lr_scheduler.StepLR(optimizer, 10)",
]


@dataclass(frozen=True)
class Result:
    """An unlearned (or trained) model, and the history of its run."""

    model: nn.Module
    history: History


@dataclass(frozen=True, kw_only=True)
class RunBuilder:
    """A procedure and what surrounds it, ready to be run on a model and its data.

    A ``recipe`` decides optimizer and schedule; without one, ``optimizer`` (default: Adam) and the
    procedure's ``lr`` do.
    """

    procedure: Procedure
    update: Update
    optimizer: OptimizerFactory | None = None
    scheduler: SchedulerFactory | None = None
    recipe: Recipe | None = None
    loss: Loss = F.cross_entropy
    augment: Augment | None = None
    seed: int = 0
    device: str | torch.device = "auto"
    checkpoint: str | Path | None = None
    checkpoint_every: int = 100
    callbacks: Sequence[Callback] = ()
    progress: bool = True
    title: str = ""
    group: Group = SINGLE

    def execute(
        self, model: nn.Module, forget: Data | None, retain: Data, unseen: Data | None = None
    ) -> Result:
        """Run on a copy of ``model``."""
        _check_whole(model)
        home, device = device_of(model), pick_device(self.device, model)
        copied = copy_model(model).to(device)
        self.group.copy_from_first([*copied.parameters(), *copied.buffers()])
        retained = self._source(retain, "retain", device)
        forgotten = None if forget is None else self._source(forget, "forget", device)
        copied = fast_layout(copied, retained)
        splits = None
        if forget is not None:
            splits = RunSplits(forget, retain, unseen, self.group, self.seed)
        run = self._run(model, copied, forgotten, retained, device, splits)
        self._check_agreement(run)
        seed = self.seed if self.group.is_first else seed_of(self.seed, "process", self.group.rank)
        with _seeded(seed, device), synchronised(copied, self.group):
            try:
                run.execute()
            except Diverged as error:
                error.result = Result(hand_over(copied, home), run.history)
                raise
        return Result(hand_over(copied, home), run.history)

    def _source(self, data: Data, split: Split, device: torch.device) -> Source:
        return as_source(
            data,
            split=split,
            batch_size=self.procedure.batch_size,
            seed=self.seed,
            augment=self._augment_of(split),
            device=device,
            division=self._division,
        )

    def _augment_of(self, split: Split) -> Augment | None:
        chosen = self.procedure.augmented
        return self.augment if chosen in ("both", split) else None

    @property
    def _division(self) -> BatchDivision:
        """This process's part of every batch: whole micro-batches, if there are several."""
        parts = parts_of(self.update, self.procedure.micro_batches, self.group.size)
        return BatchDivision(self.group.rank, self.group.size, parts)

    def _check_agreement(self, run: Run) -> None:
        """Check that all processes have the same arguments; the weights are copied anyway."""
        if not self.group:
            return
        arguments = self._fingerprint(run.model, run.forget, run.retain, run.optimizer)
        arguments |= {name: _plain(value) for name, value in self.procedure.arguments().items()}
        arguments |= {"steps": run.steps_per_epoch, "checkpoint": self.checkpoint is not None}
        arguments["checkpoint_every"] = self.checkpoint_every
        arguments["callbacks"] = [type(c).__name__ for c in self.callbacks]
        self.group.check_agreement(arguments)

    def _run(
        self,
        model: nn.Module,
        copied: nn.Module,
        forget: Source | None,
        retain: Source,
        device: torch.device,
        splits: RunSplits | None,
    ) -> Run:
        method = self.procedure.method
        assert isinstance(method, Method)
        problem = Problem(
            copied,
            loss=self.loss,
            generator=torch.Generator().manual_seed(seed_of(self.seed, "method")),
            batchnorm=self.procedure.batchnorm,
            ranks=self.update.addon.ranks,
            pairs=None if forget is None else functools.partial(_one_pass, forget, retain),
            retained=functools.partial(retain.walk, 0, 0),
            group=self.group,
            precision=self.procedure.precision,
            splits=splits,
            keeps_initial=method.needs_initial,
        )
        if not problem.parameters:
            raise InvalidInput(NOTHING_MOVES)
        optimizer = self._optimizer(method.moving(problem), device)
        run = Run(
            problem,
            self.procedure,
            self.update,
            optimizer,
            forget,
            retain,
            device,
            callbacks=[*self._bar(), *self.callbacks, *self._lines()],
            checkpoint=None if self.checkpoint is None else Path(self.checkpoint),
            checkpoint_every=self.checkpoint_every,
            group=self.group,
        )
        if self.checkpoint is not None:
            run.fingerprint = self._fingerprint(model, forget, retain, optimizer)
        if self.procedure.batches == "released":  # its evaluation switches augmentation off
            run.augmented_epochs = 1
        if self.scheduler is not None:
            run.scheduler = make_scheduler(self.scheduler, optimizer)
        elif self.recipe is not None:
            run.augmented_epochs = self.recipe.epochs - self.recipe.plain_epochs
            run.scheduler = self.recipe.scheduler(optimizer, run.steps_per_epoch)
            run.scheduler_every = "step"
        elif self.procedure.schedule != "constant":
            schedule, steps = self.procedure.schedule, run.epochs * run.steps_per_epoch
            run.scheduler = make_schedule(schedule, optimizer, steps)
            run.scheduler_every = "step"
        return run

    def _bar(self) -> list[Callback]:
        return [ProgressBar(self.title)] if self.progress and self.group.is_first else []

    def _lines(self) -> list[Callback]:
        """Last of the callbacks: a line has what the others recorded of the epoch."""
        return [EpochLines(self.title)] if self.progress and self.group.is_first else []

    def _optimizer(self, params: list[nn.Parameter], device: torch.device) -> torch.optim.Optimizer:
        if self.recipe is not None:
            return self.recipe.optimizer(params)
        return make_optimizer(self.optimizer, params, lr=self.procedure.lr, device=device)

    def _fingerprint(
        self,
        model: nn.Module,
        forget: Source | None,
        retain: Source,
        optimizer: torch.optim.Optimizer,
    ) -> dict[str, Any]:
        """What a checkpoint belongs to: not for how long to run, nor where."""
        chosen = self.procedure.lasting_choices()
        return {name: _plain(value) for name, value in chosen.items()} | {
            "loss": describe(self.loss),
            "augment": describe(self.augment),
            "seed": self.seed,
            "forget": None if forget is None else forget.fingerprint(),
            "retain": retain.fingerprint(),
            "optimizer": describe(optimizer),
            "recipe": describe(self.recipe),
            "model": model_digest(model),
            **({"processes": self.group.size} if self.group else {}),
        }


def _plain(value: Any) -> Any:
    """Numbers and strings unchanged; parts as text."""
    return value if isinstance(value, (bool, int, float, str)) else describe(value)


def _check_whole(model: nn.Module) -> None:
    if any(map(is_sharded, model.parameters())):
        raise InvalidInput(
            "The model should be whole: `unlearn` works on a copy of it, and a sharded model has "
            "none. Step a sharded model with `expunge.Update` in a loop; see "
            "docs/how-to/large-models.md. "
            "(got parameters sharded over processes)"
        )


def _one_pass(forget: Source, retain: Source) -> Iterator[tuple[Batch, Batch]]:
    """Every forget batch once, each paired with the next retain batch."""
    beside = Stream(retain)
    for batch in forget.walk(0, 0):
        yield batch, next(beside)


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed the global random state for a run, and restore it afterwards."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
