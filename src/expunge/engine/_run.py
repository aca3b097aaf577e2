"""The loop: two batches, two gradients, one step; epochs, callbacks, checkpoints, divergence."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from expunge import _tensors as tensors
from expunge._errors import Diverged, InvalidInput
from expunge._kinds import check_kind
from expunge._repr import ReadableRepr, ReprParts
from expunge.data import Augment, Batch, Data, Stream, as_source, seed_of, stop_augmenting
from expunge.distributed import BatchDivision, as_group, check_same_bits, synchronised
from expunge.engine._callbacks import Callback
from expunge.engine._checkpoint import (
    find_run,
    load_run_state,
    run_identity,
    save_run,
    stable_repr,
)
from expunge.engine._device import device_of, fast_layout, pick_device
from expunge.engine._execution import Execution
from expunge.engine._history import History, Row, StepRecorder, Stopwatch
from expunge.engine._losses import DivergenceGuard, diverged, micro_batch_count, terms_of
from expunge.engine._predict import PredictionCache, RunSplits
from expunge.engine._procedure import Procedure
from expunge.engine._progress import ProgressDisplay
from expunge.engine._recipe import Recipe, make_schedule
from expunge.engine._run_setup import (
    OptimizerFactory,
    copy_model,
    forked_random,
    hand_over,
    make_optimizer,
    one_pass,
)
from expunge.methods import Loss, Method, Problem, kept_modes
from expunge.update import Update

FEW_STEPS = 10
"""The end of an epoch is worth a checkpoint if the last one is at least this many steps ago."""


@dataclass(frozen=True, repr=False)
class Result(ReadableRepr):
    """An unlearned (or trained) model, and the history of its run."""

    model: nn.Module
    history: History

    def plot(self, *names: str, ax: Any = None) -> Any:
        """Draw the history: see :meth:`History.plot`."""
        return self.history.plot(*names, ax=ax)

    def _repr_parts(self) -> ReprParts:
        size = sum(each.numel() for each in self.model.parameters())
        what = f"{type(self.model).__name__} of {size:,} parameters"
        parts = self.history._repr_parts()
        return replace(parts, line=f"Result({what}; {parts.line})")


class Run:
    """One run on a copy of a model. Callbacks see this object.

    ``forget`` is None for plain training. A :class:`Recipe` as ``optimizer`` decides the schedule
    as well; None is Adam at the procedure's rate. ``predictions`` are the passes over whole
    splits that method and callbacks share.
    """

    _guard: DivergenceGuard

    def __init__(
        self,
        model: nn.Module,
        forget: Data | None,
        retain: Data,
        unseen: Data | None = None,
        *,
        procedure: Procedure,
        execution: Execution,
        optimizer: OptimizerFactory | Recipe | None,
        loss: Loss,
        augment: Augment | None,
    ) -> None:
        assert isinstance(procedure.method, Method)
        assert isinstance(execution.precision, torch.dtype)
        self.procedure, self.execution = procedure, execution
        self.method: Method = procedure.method
        self.group = as_group(execution.group)
        self.predictions = PredictionCache()
        self.augment = augment
        self.recipe = optimizer if isinstance(optimizer, Recipe) else None

        # The update, and this process's part of every batch: whole micro-batches, if several.
        self.update = Update(
            procedure.addon,
            procedure.aggregate,
            strict=procedure.strict,
            seed=execution.seed,
            group=self.group,
            compile=execution.compile,
            checks_losses=False,  # the guard does, and keeps the last good weights
        )
        count = micro_batch_count(self.update, execution.micro_batches, self.group.size)
        self.micro_batch_count = count
        division = BatchDivision(self.group.rank, self.group.size, count)

        # The model and the batches, on the device of the run.
        self._home, self.device = device_of(model), pick_device(execution.device, model)
        copied = copy_model(model).to(self.device)
        self.group.copy_from_first([*copied.parameters(), *copied.buffers()])
        options: dict[str, Any] = {
            "batch_size": procedure.batch_size,
            "seed": execution.seed,
            "device": self.device,
            "division": division,
        }
        changed = procedure.augment_splits
        images = augment if changed in ("both", "retain") else None
        self.retain = as_source(retain, split="retain", augment=images, **options)
        self.retain_stream = Stream(self.retain)
        self.forget = self.forget_stream = None
        if forget is not None:
            images = augment if changed == "both" else None
            self.forget = as_source(forget, split="forget", augment=images, **options)
            self.forget_stream = Stream(self.forget)
        self.model = fast_layout(copied, self.retain)
        self._last_retain: Batch | None = None

        # What the method sees of all this.
        splits = None
        if forget is not None:
            splits = RunSplits(forget, retain, unseen, self.group, self.predictions)
        self.problem = Problem(
            self.model,
            loss=loss,
            generator=torch.Generator().manual_seed(seed_of(execution.seed, "method")),
            batchnorm=procedure.batchnorm,
            needs_saliency=self.update.addon.needs_saliency,
            pairs=None if self.forget is None else partial(one_pass, self.forget, self.retain),
            retained=partial(self.retain.walk, 0, 0),
            group=self.group,
            precision=execution.precision,
            splits=splits,
            keeps_initial=self.method.needs_initial,
        )
        if not self.problem.parameters:
            raise InvalidInput(
                "The model has no parameter that requires a gradient. Call model.requires_grad_(), "
                "or unfreeze a part of it."
            )

        # Optimizer, schedule, callbacks.
        self._params = self.method.parameters_to_update(self.problem)
        lr, device = procedure.lr, self.device
        self.optimizer = make_optimizer(optimizer, self._params, lr=lr, device=device)
        schedule = procedure.schedule if self.recipe is None else self.recipe.schedule
        self.scheduler = make_schedule(schedule, self.optimizer, self.total_steps)
        self._augmented_epochs = 1.0 if procedure.retain_order == "released" else math.inf
        if self.recipe is not None:
            self._augmented_epochs = self.recipe.epochs - self.recipe.plain_epochs
        self.callbacks: list[Callback] = list(execution.callbacks)
        shown = execution.progress
        if self.group.is_first and (shown or ProgressDisplay.is_logged()):
            # It shows what the others recorded of an epoch, so it comes last.
            title = execution.title or procedure.label
            self.callbacks.append(ProgressDisplay(title, shown=shown))

        # Where the run is.
        self.step = 0
        self.history = History()
        self.watch = Stopwatch()
        self.method_watch = Stopwatch()
        """Time of ``prepare`` and ``begin_epoch`` within ``watch``; not restored on resume."""
        self.recorder = StepRecorder(self.update, constrained=self.method.constrained)
        self._saved = 0
        self._stopped = False
        self._checkpoint = None if execution.checkpoint is None else Path(execution.checkpoint)
        self.identity = {} if self._checkpoint is None else run_identity(self)

    def _check_same_arguments(self) -> None:
        """Check that all processes have the same arguments; the weights are copied anyway."""
        if not self.group:
            return
        self.group.check_agreement(
            {name: stable_repr(value) for name, value in vars(self.procedure).items()}
            | run_identity(self)
            | {"steps": self.steps_per_epoch, "checkpoint": self._checkpoint is not None}
            | {"checkpoint_every": self.execution.checkpoint_every}
            | {"callbacks": [type(c).__name__ for c in self.execution.callbacks]}
        )

    @property
    def epochs(self) -> int:
        """Epochs to run, unless the run is stopped."""
        return self.procedure.epochs

    @cached_property
    def steps_per_epoch(self) -> int:
        """Batches of the split that one epoch goes through."""
        if self.forget is None or self.method.epoch_over == "retain":
            return len(self.retain)
        return len(self.forget)

    @property
    def total_steps(self) -> int:
        """Steps of all epochs together."""
        return self.epochs * self.steps_per_epoch

    @property
    def epoch(self) -> int:
        """Epochs completed."""
        return self.step // self.steps_per_epoch

    @property
    def losses(self) -> tuple[float, float | None]:
        """Objective and constraint at the last step; reading them waits for the device."""
        assert self.update.losses is not None
        objective, constraint = self.update.losses
        return float(objective), None if constraint is None else float(constraint)

    def record(self, **values: float) -> None:
        """Add quantities to the row of the epoch that just ended."""
        if not self.history.epochs:
            raise InvalidInput("`record` adds to an epoch's row: there is none before the first.")
        for name, value in values.items():
            check_kind(name, float | Tensor, value)
            self.history.epochs[-1][name] = float(value)

    def stop(self) -> None:
        """End the run after the current step."""
        self._stopped = True

    def execute(self) -> Result:
        """Run from the start, or from the checkpoint, to the end."""
        self._check_same_arguments()
        seed, rank = self.execution.seed, self.group.rank
        seed = seed if self.group.is_first else seed_of(seed, "process", rank)
        with forked_random(self.device), synchronised(self.model, self.group):
            torch.manual_seed(seed)
            try:
                self._loop()
            except Diverged as error:
                error.result = Result(hand_over(self.model, self._home), self.history)
                raise
        return Result(hand_over(self.model, self._home), self.history)

    def _loop(self) -> None:
        # Start: from a checkpoint, or with what the method does before its first step.
        resumed = self._resume()
        self.model.train()
        self.watch.start()
        if not resumed:
            with self.method_watch.running():
                self.method.prepare(self.problem)
            self.model.train()
        self._guard = DivergenceGuard(self.model, self.device)
        try:
            self._call("on_start")
            # Epochs, step by step.
            while self.step < self.total_steps and not self._is_stopped():
                if self.step % self.steps_per_epoch == 0:
                    self._order_batches()
                    with self.method_watch.running():
                        self.method.begin_epoch(self.problem, self.epoch + 1, self.epochs)
                if not self._take_step():
                    continue
                ended = self.step % self.steps_per_epoch == 0
                if ended:
                    self._end_epoch()
                new_epoch = ended and (not self._saved or self.step - self._saved >= FEW_STEPS)
                if new_epoch or self.step % self.execution.checkpoint_every == 0:
                    self._save()
            # End: no loss has been computed since the last step, so look at its result.
            self._check_last_step()
            if self._saved != self.step:
                self._save()
            if self.group:
                self.group.copy_from_first(list(self.model.buffers()))
                check_same_bits(self.group, tensors.state_digest(self.model.state_dict()))
        except Diverged:  # resumed, the run would diverge again
            if self._checkpoint is not None and self.group.is_first:
                self._checkpoint.unlink(missing_ok=True)
            raise
        finally:
            self._call("on_end")

    def _order_batches(self) -> None:
        """Before an epoch: reshuffle where the released code does; end augmentation when due."""
        if self.procedure.retain_order == "released" and self.epoch > 0:
            self.retain_stream.seek((self.epoch, 0))
        if self.epoch >= self._augmented_epochs:
            stop_augmenting(self.forget, self.retain)

    def _is_stopped(self) -> bool:
        """Whether a callback has stopped the run, in any process: all continue, or none does."""
        return self.group.any(self._stopped) if self.execution.callbacks else self._stopped

    def _take_step(self) -> bool:
        """Take one step; False if it diverged and the run ends there."""
        # Two batches, two gradients.
        unread = not (self.method.reads_forget or self.problem.needs_saliency)
        forget = None if self.forget_stream is None or unread else next(self.forget_stream)
        retain = self._last_retain = next(self.retain_stream)
        constrained = self.method.constrained
        self.optimizer.zero_grad(set_to_none=True)
        self.update.backward(
            objective=terms_of(self, "objective", forget, retain),
            constraint=terms_of(self, "constraint", forget, retain) if constrained else None,
            params=self._params,
        )
        assert self.update.losses is not None
        found = (*self.update.losses, self.update.record)
        if not self._guard.add_step([value for value in found if value is not None]):
            self._diverge(f"at step {self.step + 1} (epoch {self.epoch + 1}): a loss or gradient")
            return False

        self.update.step(self.optimizer)
        if self.scheduler is not None:
            self.scheduler.step()
        self.recorder.add(found)
        self.step += 1
        self._call("on_step")
        return True

    def _diverge(self, where: str) -> None:
        """Restore the last good weights; raise, unless a callback wants the run to end there."""
        self._guard.restore()
        error = diverged(where, self.method.constrained)
        if not self.group.any(any(self._call("on_divergence", error))):
            raise error
        self.stop()

    def _check_last_step(self) -> None:
        batch = self._last_retain or next(self.retain_stream)
        with self.watch.paused():
            part = batch.parts(self.execution.micro_batches)[0]
            finite = bool(self.problem.final_logits(part).isfinite().all())
            bad = self.group.any(not (finite and self._guard.weights_are_finite()))
        if bad:
            self._diverge(f"at the last step ({self.step}): a weight or an output of the model")

    def _end_epoch(self) -> None:
        losses_are_finite = self.device.type == "cpu" or self._guard.check_and_keep()
        if not (losses_are_finite and self._guard.weights_are_finite()):
            self._diverge(f"in epoch {self.epoch}: a weight or loss")
        if self.device.type != "cpu":
            torch.accelerator.synchronize()
        self.watch.stop()
        self.group.copy_from_first(list(self.model.buffers()))
        row: Row = {"epoch": self.epoch, "steps": self.steps_per_epoch}
        seconds, processor = self.group.largest(*self.watch.both)
        row |= {"seconds": seconds, "processor_seconds": processor}
        self.recorder.end_epoch(self.history, row, self.method.recorded(self.problem))
        self.watch.start()
        self._call("on_epoch")

    def _call(self, hook: str, *arguments: Any) -> list[Any]:
        """Call one hook of every callback; what each returned."""
        if not self.callbacks:
            return []
        with self.watch.paused(), forked_random(self.device), kept_modes(self.model):
            return [getattr(callback, hook)(self, *arguments) for callback in self.callbacks]

    def _save(self) -> None:
        """Write everything that the rest of the run depends on."""
        if self._checkpoint is None:
            return
        with self.watch.paused():
            save_run(self, self._checkpoint)
            self._saved = self.step

    def _resume(self) -> bool:
        """Continue from the checkpoint; False if there is none."""
        tree = None if self._checkpoint is None else find_run(self, self._checkpoint)
        if tree is None:
            return False
        self.step = self._saved = tree["step"]
        self._order_batches()
        load_run_state(self, tree)
        return True
