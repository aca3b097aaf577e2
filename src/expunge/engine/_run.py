"""The loop: two batches, two gradients, one step; epochs, callbacks, checkpoints, divergence."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LRScheduler

from expunge._errors import Diverged, InvalidInput
from expunge._kinds import Positive, check_kind
from expunge.data import (
    Augment,
    Batch,
    Data,
    Source,
    Split,
    Stream,
    as_source,
    seed_of,
    stop_augmenting,
)
from expunge.distributed import BatchDivision, as_group, check_same_bits, synchronised
from expunge.engine._callbacks import Callback
from expunge.engine._checkpoint import (
    describe,
    load_if_there,
    model_digest,
    read_random_state,
    save_checkpoint,
    write_random_state,
)
from expunge.engine._device import device_of, hand_over, pick_device
from expunge.engine._divergence import DivergenceGuard
from expunge.engine._execution import Execution, as_dtype
from expunge.engine._history import History, Row, Stopwatch, mean_row, step_row
from expunge.engine._losses import StepLosses, parts_of
from expunge.engine._memory_layout import fast_layout
from expunge.engine._prediction_memory import drop_predictions
from expunge.engine._procedure import Procedure
from expunge.engine._progress import EpochLines, ProgressBar
from expunge.engine._recipe import Recipe, make_schedule
from expunge.engine._run_parts import (
    NOTHING_MOVES,
    OptimizerFactory,
    copy_model,
    make_optimizer,
    make_scheduler,
    one_pass,
)
from expunge.engine._snapshots import (
    Snapshot,
    load_parts_state,
    parts_state,
    restore_snapshot,
    scale_rates,
    take_snapshot,
)
from expunge.engine._split_reader import RunSplits
from expunge.methods import Loss, Method, Problem
from expunge.models import kept_modes
from expunge.update import Aggregate, LossScale, Update, as_aggregate

FEW_STEPS = 10
"""The end of an epoch is worth a checkpoint if the last one is at least this many steps ago."""


@dataclass(frozen=True)
class Result:
    """An unlearned (or trained) model, and the history of its run."""

    model: nn.Module
    history: History


class Run:
    """One run on a copy of a model. Callbacks see this object.

    ``forget`` is None for plain training. A :class:`Recipe` as ``optimizer`` decides the schedule
    as well; None is Adam at the procedure's rate.
    """

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
        self.procedure, self.execution = procedure, execution
        self.method: Method = procedure.method
        self._constrained = self.method.constrained
        self.group = as_group(execution.group)
        self._loss, self._augment = loss, augment
        self._recipe = optimizer if isinstance(optimizer, Recipe) else None

        # The update, and this process's part of every batch: whole micro-batches, if several.
        self.update = Update(
            procedure.addon,
            procedure.aggregate,
            strict=procedure.strict,
            seed=execution.seed,
            group=self.group,
            compile=execution.compile,
            moment_dtype=as_dtype(execution.moment_dtype),
            offload=execution.offload,
            loss_scale=LossScale() if execution.precision == torch.float16 else None,
            checks_losses=False,  # the guard does, and keeps the last good weights
        )
        parts = parts_of(self.update, execution.micro_batches, self.group.size)
        division = BatchDivision(self.group.rank, self.group.size, parts)

        # The model and the batches, on the device of the run.
        self._home, self.device = device_of(model), pick_device(execution.device, model)
        copied = copy_model(model).to(self.device)
        self.group.copy_from_first([*copied.parameters(), *copied.buffers()])
        self.retain = self._source(retain, "retain", division)
        self.forget = None if forget is None else self._source(forget, "forget", division)
        self.model = fast_layout(copied, self.retain)
        self._forget = None if self.forget is None else Stream(self.forget)
        self._retain = Stream(self.retain)
        self._last_retain: Batch | None = None

        # What the method sees of all this.
        splits = None
        if forget is not None:
            splits = RunSplits(forget, retain, unseen, self.group, execution.seed)
        self.problem = Problem(
            self.model,
            loss=loss,
            generator=torch.Generator().manual_seed(seed_of(execution.seed, "method")),
            batchnorm=procedure.batchnorm,
            needs_saliency=self.update.addon.needs_saliency,
            pairs=None if self.forget is None else partial(one_pass, self.forget, self.retain),
            retained=partial(self.retain.walk, 0, 0),
            group=self.group,
            precision=as_dtype(execution.precision),
            splits=splits,
            keeps_initial=self.method.needs_initial,
        )
        if not self.problem.parameters:
            raise InvalidInput(NOTHING_MOVES)
        self._terms = StepLosses(
            self.method, self.problem, self.update, self.group, execution.micro_batches, parts
        )

        # Optimizer, schedule, callbacks.
        self._params = self.method.parameters_to_update(self.problem)
        if self._recipe is not None:
            self.optimizer = self._recipe.optimizer(self._params)
        else:
            lr, device = procedure.lr, self.device
            self.optimizer = make_optimizer(optimizer, self._params, lr=lr, device=device)
        self.scheduler, self._scheduler_every = self._schedule()
        self._augmented_epochs = 1.0 if procedure.retain_order == "released" else math.inf
        if self._recipe is not None:
            self._augmented_epochs = self._recipe.epochs - self._recipe.plain_epochs
        self.callbacks: list[Callback] = list(execution.callbacks)
        if execution.progress and self.group.is_first:
            title = execution.title or procedure.label
            # A line has what the others recorded of the epoch, so it comes last.
            self.callbacks = [ProgressBar(title), *self.callbacks, EpochLines(title)]

        self._listening = bool(execution.callbacks)

        # Where the run is.
        self.step = 0
        self.history = History()
        self._watch, self._method_watch = Stopwatch(), Stopwatch()
        self._rows: list[Row] = []
        self._pending: list[tuple[Tensor, Tensor | None, Tensor | None]] = []
        self._saved = self._skipped = 0
        self._stopped = False
        self._guard: DivergenceGuard | None = None
        self._checkpoint = None if execution.checkpoint is None else Path(execution.checkpoint)
        self.fingerprint = {} if self._checkpoint is None else self._identity()

    def _source(self, data: Data, split: Split, division: BatchDivision) -> Source:
        augmented = self.procedure.augment_splits in ("both", split)
        return as_source(
            data,
            split=split,
            batch_size=self.procedure.batch_size,
            seed=self.execution.seed,
            augment=self._augment if augmented else None,
            device=self.device,
            division=division,
        )

    def _schedule(self) -> tuple[LRScheduler | None, Literal["step", "epoch"]]:
        schedule = self.procedure.schedule
        if not isinstance(schedule, str):
            return make_scheduler(schedule, self.optimizer), "epoch"
        if self._recipe is not None:
            return self._recipe.scheduler(self.optimizer, self.steps_per_epoch), "step"
        if schedule == "constant":
            return None, "epoch"
        steps = self.epochs * self.steps_per_epoch
        return make_schedule(schedule, self.optimizer, steps), "step"

    def _identity(self) -> dict[str, Any]:
        """What a checkpoint belongs to: not for how long to run, nor where."""
        chosen = self.procedure.lasting_choices() | self.execution.lasting_choices()
        return {name: _plain(value) for name, value in chosen.items()} | {
            "loss": describe(self._loss),
            "augment": describe(self._augment),
            "seed": self.execution.seed,
            "forget": None if self.forget is None else self.forget.fingerprint(),
            "retain": self.retain.fingerprint(),
            "optimizer": describe(self.optimizer),
            "recipe": describe(self._recipe),
            "model": model_digest(self.model),
            **({"processes": self.group.size} if self.group else {}),
        }

    def _check_agreement(self) -> None:
        """Check that all processes have the same arguments; the weights are copied anyway."""
        if not self.group:
            return
        chosen = {item.name: getattr(self.procedure, item.name) for item in fields(self.procedure)}
        self.group.check_agreement(
            {name: _plain(value) for name, value in chosen.items()}
            | self._identity()
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
    def epoch(self) -> int:
        """Epochs completed."""
        return self.step // self.steps_per_epoch

    @property
    def seconds(self) -> tuple[float, float]:
        """Wall and processor seconds of the run so far, without callbacks and checkpoints."""
        return self._watch.seconds, self._watch.processor_seconds

    @property
    def method_seconds(self) -> tuple[float, float]:
        """The part of ``seconds`` that the method took before epochs, since the last resume."""
        return self._method_watch.seconds, self._method_watch.processor_seconds

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

    @property
    def lr(self) -> float:
        """The learning rate of the first group of parameters."""
        return float(self.optimizer.param_groups[0]["lr"])

    def set_lr(self, lr: Positive) -> None:
        """Continue at the rate ``lr``; other groups and a schedule's rates change in proportion."""
        check_kind("lr", Positive, lr)
        scale_rates(self.optimizer, self.scheduler, lr)

    def set_aggregate(self, aggregate: Aggregate) -> None:
        """Continue with another aggregation of the two gradients.

        A checkpoint keeps a registered aggregation; set any other again in ``on_start``.
        """
        self.update.aggregate = as_aggregate(aggregate)

    def snapshot(self) -> Snapshot:
        """Copy the weights, buffers, and the state of optimizer and update, to roll back to."""
        return take_snapshot(self.model, self.optimizer, self.update)

    def restore(self, snapshot: Snapshot) -> None:
        """Roll back to the weights and states of a snapshot.

        Rates, aggregation, the order of the data and all random streams continue as they are: what
        follows is not a repetition.
        """
        check_kind("snapshot", Snapshot, snapshot)
        restore_snapshot(snapshot, self.model, self.optimizer, self.update)
        if self._guard is not None:
            self._guard = DivergenceGuard(self.model, self.device)

    def execute(self) -> Result:
        """Run from the start, or from the checkpoint, to the end."""
        self._check_agreement()
        seed, rank = self.execution.seed, self.group.rank
        seed = seed if self.group.is_first else seed_of(seed, "process", rank)
        with _seeded(seed, self.device), synchronised(self.model, self.group):
            try:
                self._loop()
            except Diverged as error:
                error.result = Result(hand_over(self.model, self._home), self.history)
                raise
        return Result(hand_over(self.model, self._home), self.history)

    def _loop(self) -> None:
        resumed = self._resume()
        self.model.train()
        self._watch.start()
        if not resumed:
            with self._method_watch.running():
                self.method.prepare(self.problem)
            self.model.train()
        self._guard = DivergenceGuard(self.model, self.device)
        try:
            self._ask("on_start")
            while self.step < self.epochs * self.steps_per_epoch and not self._is_stopped():
                if self.step % self.steps_per_epoch == 0:
                    self._order_batches()
                    with self._method_watch.running():
                        self.method.begin_epoch(self.problem, self.epoch + 1, self.epochs)
                if not self._take_step():
                    continue
                ended = self.step % self.steps_per_epoch == 0
                if ended:
                    self._end_epoch()
                due = self.step % self.execution.checkpoint_every == 0
                if due or (ended and self._is_worth_saving()):
                    self._save()
            self._check_last_step()
            if self._saved != self.step:
                self._save()
            if self.group:
                self.group.copy_from_first(list(self.model.buffers()))
                check_same_bits(self.group, model_digest(self.model))
        except Diverged:
            self._discard()
            raise
        finally:
            self._ask("on_end")

    def _order_batches(self) -> None:
        """Before an epoch: reshuffle where the released code does; end augmentation when due."""
        if self.procedure.retain_order == "released" and self.epoch > 0:
            self._retain.seek((self.epoch, 0))
        if self.epoch >= self._augmented_epochs:
            stop_augmenting(self.forget, self.retain)

    def _is_stopped(self) -> bool:
        """Whether a callback has stopped the run, in any process: all continue, or none does."""
        alone = self.group.size == 1 or not self._listening
        return self._stopped if alone else self.group.any(self._stopped)

    def _take_step(self) -> bool:
        """Take one step; False if it diverged and a callback handled that."""
        unread = not (self.method.reads_forget or self.problem.needs_saliency)
        forget = None if self._forget is None or unread else next(self._forget)
        retain = self._last_retain = next(self._retain)
        self.optimizer.zero_grad(set_to_none=True)
        self.update.backward(
            objective=self._terms("objective", forget, retain),
            constraint=self._terms("constraint", forget, retain) if self._constrained else None,
            params=self._params,
        )
        if not self._losses_are_finite():
            self._diverge(
                f"Diverged at step {self.step + 1} (epoch {self.epoch + 1}): a loss or gradient is "
                "not finite. The model holds the last good weights. Lower the learning rate or "
                "`alpha`, or take fewer epochs; gradient ascent has no lower bound to stop at."
            )
            return False
        if self.update.skipped:  # the loss scale was too large, and has been lowered
            self._skipped += 1
            self.step += 1
            self._ask("on_step")
            return True
        self.update.step(self.optimizer)
        drop_predictions(self.model)
        if self.scheduler is not None and self._scheduler_every == "step":
            self.scheduler.step()
        self.step += 1
        assert self.update.losses is not None
        self._pending.append((*self.update.losses, self.update.record))
        self._ask("on_step")
        return True

    def _losses_are_finite(self) -> bool:
        assert self.update.losses is not None
        assert self._guard is not None
        objective, constraint = self.update.losses
        values = [v for v in (objective, constraint, self.update.record) if v is not None]
        return self._guard.passes(values)

    def _diverge(self, message: str) -> None:
        """Restore the last good weights; raise, unless a callback handles it."""
        assert self._guard is not None
        self._guard.restore()
        error = Diverged(message)
        if not self.group.any(any(self._ask("on_divergence", error))):
            raise error
        self._guard = DivergenceGuard(self.model, self.device)

    def _check_last_step(self) -> None:
        """Look at what the last step led to, which no loss has been computed since."""
        assert self._guard is not None
        batch = self._last_retain or next(self._retain)
        with self._watch.paused():
            part = batch.parts(self.execution.micro_batches)[0]
            finite = bool(self.problem.final_logits(part).isfinite().all())
            diverged = self.group.any(not (finite and self._guard.weights_are_finite()))
        if diverged:
            self._diverge(
                f"Diverged at the last step ({self.step}): a weight or an output of the model is "
                "not finite. The model holds the last good weights. Lower the learning rate."
            )

    def _end_epoch(self) -> None:
        assert self._guard is not None
        losses_are_finite = self.device.type == "cpu" or self._guard.check()
        if not (losses_are_finite and self._guard.weights_are_finite()):
            self._diverge(
                f"Diverged in epoch {self.epoch}: a weight or loss is not finite. The model holds "
                "the last good weights. Lower the learning rate."
            )
        if self.device.type != "cpu":
            torch.accelerator.synchronize()
        if self.scheduler is not None and self._scheduler_every == "epoch":
            self.scheduler.step()
        self._watch.stop()
        self._read_pending()
        self.group.copy_from_first(list(self.model.buffers()))
        row: Row = {"epoch": self.epoch, "steps": self.steps_per_epoch}
        seconds, processor = self.group.largest(self._watch.seconds, self._watch.processor_seconds)
        row |= {"seconds": seconds, "processor_seconds": processor}
        if self.update.loss_scale is not None:
            row |= {"skipped": self._skipped, "loss_scale": self.update.loss_scale.value}
        row |= self.method.recorded(self.problem)
        self.history.epochs.append(row | mean_row(self._rows))
        if self._constrained:
            first = len(self.history.steps) + 1
            numbered = enumerate(self._rows, start=first)
            self.history.steps += [{"step": k, "epoch": self.epoch, **r} for k, r in numbered]
        self._rows, self._skipped = [], 0
        self._watch.start()
        self._ask("on_epoch")

    def _read_pending(self) -> None:
        for objective, constraint, record in self._pending:
            losses = (float(objective), None if constraint is None else float(constraint))
            diagnostics = None
            if record is not None:
                diagnostics = self.update.read(record, constrained=self._constrained)
            self._rows.append(step_row(losses, diagnostics))
        self._pending = []

    def _ask(self, hook: str, *arguments: Any) -> list[Any]:
        """Call one hook of every callback; what each returned."""
        if not self.callbacks:
            return []
        devices = [self.device] if self.device.type == "cuda" else []
        with self._watch.paused(), torch.random.fork_rng(devices=devices), kept_modes(self.model):
            return [getattr(callback, hook)(self, *arguments) for callback in self.callbacks]

    def _is_worth_saving(self) -> bool:
        """Whether an epoch that ended should be kept: the first, then one after some steps."""
        return not self._saved or self.step - self._saved >= FEW_STEPS

    def _save(self) -> None:
        if self._checkpoint is None:
            return
        with self._watch.paused():
            self._read_pending()
            random = self.group.exchange(read_random_state(self.device))
            tree = self._tree(random if self.group else random[0])
            path, fingerprint = self._checkpoint, self.fingerprint
            self.group.run_in_first(lambda: save_checkpoint(path, fingerprint, tree))
            self._saved = self.step

    def _tree(self, random: Any) -> dict[str, Any]:
        """Everything that the rest of the run depends on."""
        return {
            "step": self.step,
            "forget": None if self._forget is None else self._forget.position,
            "retain": self._retain.position,
            "seconds": self._watch.seconds,
            "processor_seconds": self._watch.processor_seconds,
            "rows": self._rows,
            "skipped": self._skipped,
            "random": random,
            **parts_state(self),
        }

    def _discard(self) -> None:
        """Delete the checkpoint of a run that diverged: resumed, it would diverge again."""
        if self._checkpoint is not None and self.group.is_first:
            self._checkpoint.unlink(missing_ok=True)

    def _resume(self) -> bool:
        path, fingerprint = self._checkpoint, self.fingerprint
        tree = self.group.run_in_first(lambda: load_if_there(path, fingerprint))
        if tree is None:
            return False
        self.step = self._saved = tree["step"]
        self._order_batches()
        if self._forget is not None:
            self._forget.seek(tree["forget"])
        self._retain.seek(tree["retain"])
        self._watch.seconds = tree["seconds"]
        self._watch.processor_seconds = tree.get("processor_seconds", 0.0)
        self._rows = tree["rows"]
        self._skipped = tree.get("skipped", 0)
        random = tree["random"][self.group.rank] if self.group else tree["random"]
        write_random_state(random, self.device)
        load_parts_state(self, tree)
        return True


def _plain(value: Any) -> Any:
    """Numbers and strings unchanged; parts as text."""
    return value if isinstance(value, (bool, int, float, str)) else describe(value)


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed the global random state for a run, and restore it afterwards."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
