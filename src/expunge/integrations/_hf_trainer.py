"""Unlearning inside the Hugging Face ``Trainer``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import BatchSampler, DataLoader

from expunge._errors import Diverged, InvalidInput
from expunge.data import (
    PREFIX,
    Batch,
    LoaderSource,
    Split,
    Stream,
    batch_of,
    seed_of,
    split_preferred,
)
from expunge.distributed import SINGLE, BatchDivision, as_group
from expunge.engine import (
    check_disjoint,
    describe,
    mean_row,
    model_digest,
    step_row,
    weigh,
    weigh_micro_batches,
    weigh_reduced,
    weights_by_size,
)
from expunge.integrations._hf_batches import DividedBatches
from expunge.integrations._hf_checks import check_arguments, check_method, warn_of_unreached
from expunge.integrations._hf_state import (
    find_checkpoint,
    load_state,
    restore_update,
    save_state,
)
from expunge.methods import METHODS, Loss, Method, Problem, next_token_loss
from expunge.update import Addon, Aggregate, Term, Update

try:
    from accelerate.data_loader import DataLoaderShard
    from transformers import Trainer
except ImportError as error:
    raise InvalidInput(
        "The `UnlearningTrainer` needs packages that are not here. (cannot import transformers; "
        "pip install 'expunge[transformers]')"
    ) from error

SHOWN = ("objective", "constraint", "agreement", "feasible", "cosine", "moved")


class UnlearningTrainer(Trainer):  # type: ignore[misc]
    """A ``Trainer`` whose every step unlearns ``forget`` while keeping ``retain``.

    An epoch is one pass over ``forget``, with the Trainer's loader; each of its batches is paired
    with the next one of ``retain``. Both gradients are taken on the batches of a whole optimizer
    step and combined by :class:`expunge.Update` into ``p.grad``; clipping, optimizer, schedule,
    autocast, evaluation and checkpoints are the Trainer's. With ``gradient_accumulation_steps`` the
    micro-batches are kept and each gradient is averaged over all of them, weighted by their numbers
    of tokens or examples, before the add-on weighs it: the weight of an add-on is not linear, so
    weighing micro-batch by micro-batch would give a different step.

    The loss that the Trainer shows is U; ``objective``, ``constraint``, ``agreement``, ``feasible``
    (a fraction), ``cosine`` and ``moved`` are logged beside it, as means since the last log.

    Under ``torchrun`` or ``accelerate launch`` the processes share every batch, and take the steps
    of one process with as large a batch: see ``docs/how-to/several-processes.md``.

    Args:
        model: as for ``Trainer``: the model to unlearn, which is changed in place; with adapters of
            PEFT, these alone. Its weights at this moment are the reference of ``npo`` and others;
            resume with the same weights.
        args: ``TrainingArguments``.
        forget, retain: datasets whose items the data collator takes, with ``labels``.
        method: a name or an instance; ``npo`` or another of ``expunge list methods``.
        addon, aggregate: see :class:`expunge.Update`.
        loss: maps (logits, labels) to a mean, for the methods that read it.
        options: everything else that ``Trainer`` takes; an ``eval_dataset`` of
            ``{"forget": …, "retain": …}`` evaluates both.
    """

    _signature_columns: list[str]

    def __init__(
        self,
        model: nn.Module,
        args: Any = None,
        *,
        forget: Any,
        retain: Any,
        method: Method | str = "npo",
        addon: Addon | str = "focus",
        aggregate: Aggregate | str | Any = "linear",
        loss: Loss = next_token_loss,
        **options: Any,
    ) -> None:
        self.method: Method = check_method(METHODS.resolve(method))
        check_disjoint(forget, retain)
        super().__init__(model, args, train_dataset=forget, **options)
        check_arguments(self, options)
        self.group = as_group("auto") if self.args.world_size > 1 else SINGLE
        self.group.copy_from_first([*self.model.parameters(), *self.model.buffers()])
        self.update = Update(
            addon,
            aggregate,
            seed=self.args.seed,
            group=self.group,
            checks_losses=False,  # `_check_finite` does, and says at which step
        )
        self.retain_dataset = retain
        self.retain_stream = Stream(self._source(retain, "retain"))
        self.problem = Problem(
            self.model,
            loss=loss,
            generator=torch.Generator().manual_seed(seed_of(self.args.seed, "method")),
            needs_saliency=self.update.addon.needs_saliency,
            pairs=self._pairs,
            group=self.group,
            keeps_initial=self.method.needs_initial,
        )
        self._prepared = False
        self._moving: list[nn.Parameter] = []
        self._update_state: dict[str, Any] | None = None
        self._waiting: list[Batch] = []
        self._records: list[tuple[Tensor, Tensor | None, Tensor | None]] = []

    def train(self, resume_from_checkpoint: str | bool | None = None, **options: Any) -> Any:
        """Train; a checkpoint also restores the update and the position in the retain data."""
        folder = find_checkpoint(resume_from_checkpoint, self.args.output_dir)
        if folder is not None or self.args.save_strategy != "no":
            self._fingerprint  # noqa: B018  # of the weights as they are now
        if folder is not None:
            tree = load_state(folder, self._fingerprint)
            self.problem.load_state_dict(tree["problem"])
            self.retain_stream.seek(tree["retain"])
            self._update_state = tree["update"]
        elif not self._prepared:
            self.method.prepare(self.problem)
        self._prepared = True
        self._moving, self._waiting, self._records = [], [], []
        with self._others_frozen():
            return super().train(resume_from_checkpoint=folder and str(folder), **options)

    def training_step(
        self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None
    ) -> Tensor:
        """Keep the micro-batch; at the last one before an optimizer step, fill ``p.grad``."""
        model.train()
        # Keep the micro-batch until the last one before an optimizer step.
        self._waiting.append(self._batch(self._prepare_inputs(inputs)))
        if not self.accelerator.sync_gradients:
            return torch.zeros((), device=self.args.device)
        # Pair each forget batch with the next retain batch.
        forget, self._waiting = self._waiting, []
        pairs = [(batch, next(self.retain_stream)) for batch in forget]
        # Fill ``p.grad`` with the combined gradient.
        first = not self._moving
        if first:
            self._begin(model)
        constrained = self.method.constrained
        self.update.backward(
            objective=self._losses("objective", pairs),
            constraint=self._losses("constraint", pairs) if constrained else None,
            params=self._moving,
        )
        if first:
            warn_of_unreached(model, self._moving)
        # Record the losses and diagnostics for the next log.
        assert self.update.losses is not None
        self._records.append((*self.update.losses, self.update.record))
        self._check_finite()
        return self.update.losses[0]

    def get_train_dataloader(self) -> DataLoader[Any]:
        """The Trainer's own loader, with its batches divided among the processes."""
        loader: DataLoader[Any] = super().get_train_dataloader()
        sampler: Any = loader.batch_sampler
        sampler = getattr(sampler, "batch_sampler", sampler)  # behind Accelerate's own division
        if type(sampler) is not BatchSampler:  # an iterable dataset, or another way to make batches
            if self.group:
                raise InvalidInput(
                    "`forget` should be a map-style dataset, for several processes to share its "
                    f"batches. (got {type(self.train_dataset).__name__})"
                )
            return loader
        size = self._train_batch_size * self.group.size
        batches = DividedBatches(sampler.sampler, size, sampler.drop_last, self._division)
        divided: DataLoader[Any] = DataLoaderShard(
            loader.dataset,
            batch_sampler=batches,
            collate_fn=loader.collate_fn,
            num_workers=loader.num_workers,
            pin_memory=loader.pin_memory,
            worker_init_fn=loader.worker_init_fn,
            persistent_workers=loader.persistent_workers,
            prefetch_factor=loader.prefetch_factor,
        )
        return divided

    def prediction_step(
        self, model: nn.Module, inputs: dict[str, Any], *rest: Any, **more: Any
    ) -> Any:
        """Predict what is to be forgotten; answers to prefer are for training alone."""
        return super().prediction_step(model, split_preferred(inputs)[0], *rest, **more)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add the means of the diagnostics since the last log to the training loss."""
        if "loss" in logs and self._records:
            logs |= self._diagnostics()
        super().log(logs, start_time)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save the model; a checkpoint also gets the state of the update."""
        super().save_model(output_dir, _internal_call)
        if _internal_call and output_dir is not None:
            parts = (self.update, self.problem, self.retain_stream, self.group)
            save_state(Path(output_dir), self._fingerprint, *parts)

    @cached_property
    def _fingerprint(self) -> dict[str, str]:
        """What a checkpoint should match to be resumed from."""
        kept = self.problem.initial if self.method.needs_initial else self.model
        return {
            "method": describe(self.method),
            "addon": describe(self.update.addon),
            "aggregate": describe(self.update.aggregate),
            "loss": describe(self.problem.loss_function),
            "retain": self.retain_stream.source.fingerprint(),
            "model": model_digest(kept),
        }

    @property
    def _division(self) -> BatchDivision:
        return BatchDivision(self.group.rank, self.group.size)

    def _begin(self, model: nn.Module) -> None:
        """Before the first step: the model is on its device now, and sharded if it will be."""
        self.problem.model = model
        self._moving = self.method.parameters_to_update(self.problem)
        if self._update_state is not None:
            restore_update(self.update, self._update_state, self._moving)
            self._update_state = None
        if self.is_fsdp_enabled and self.method.needs_initial:
            from accelerate.utils import fsdp2_prepare_model

            fsdp2_prepare_model(self.accelerator, self.problem.initial)

    @contextmanager
    def _others_frozen(self) -> Iterator[None]:
        """Within, only what the method moves requires a gradient."""
        moving = {id(p) for p in self.method.parameters_to_update(self.problem)}
        named = [(n, p) for n, p in self.model.named_parameters() if p.requires_grad]
        others = {name: p for name, p in named if id(p) not in moving}
        for p in others.values():
            p.requires_grad_(False)
        try:
            yield
        finally:
            for name, p in self.model.named_parameters():  # sharding may have replaced them
                if name in others:
                    p.requires_grad_(True)

    def _wrap_model(self, model: nn.Module, *rest: Any, **more: Any) -> nn.Module:
        """No DDP around the model: the update averages both gradients, before it weighs them."""
        wrapped: nn.Module = super()._wrap_model(model, *rest, **more)
        training = rest[0] if rest else more.get("training", True)
        if training and self.group and not self.is_fsdp_enabled:
            self.accelerator.prepare_model(wrapped, evaluation_mode=True)
        return wrapped

    def _set_signature_columns_if_needed(self) -> None:
        super()._set_signature_columns_if_needed()
        known = [name for name in self._signature_columns if not name.startswith(PREFIX)]
        self._signature_columns = known + [PREFIX + name for name in known]

    def _losses(self, name: str, pairs: list[tuple[Batch, Batch]]) -> Iterator[Tensor | Term]:
        """One loss per micro-batch, computed lazily: only one graph is alive at a time."""
        forget, retain = ([pair[k] for pair in pairs] for k in (0, 1))
        terms = (self._loss(name, *pair) for pair in pairs)
        if self.is_fsdp_enabled:
            yield from weigh_reduced(terms, self.group, self.method, name, forget, retain)
            return
        weights = weights_by_size(self.group, self.method, name, forget, retain)
        for term in weigh_micro_batches(terms, self.method, name, forget, retain):
            yield weigh(term, weights)

    def _loss(self, name: str, forget: Batch, retain: Batch) -> Tensor | Term:
        with self.accelerator.autocast():
            term: Tensor | Term = getattr(self.method, name)(self.problem, forget, retain)
        return term

    def _check_finite(self) -> None:
        """Raise :class:`Diverged` while the weights are still those of the previous step."""
        values = [value.reshape(-1) for value in self._records[-1] if value is not None]
        if not all(bool(value.isfinite().all()) for value in values):
            raise Diverged(
                f"Diverged at step {self.state.global_step + 1}: a loss or gradient is not finite. "
                "The model holds the last good weights. Lower the learning rate or `alpha`, or "
                "take fewer epochs; gradient ascent has no lower bound to stop at."
            )

    def _diagnostics(self) -> dict[str, float]:
        rows = []
        for objective, constraint, record in self._records:
            assert record is not None
            losses = (float(objective), None if constraint is None else float(constraint))
            read = self.update.read(record, constrained=self.method.constrained)
            rows.append(step_row(losses, read))
        self._records = []
        means = mean_row(rows)
        return {name: means[name] for name in SHOWN if means[name] == means[name]}

    def _source(self, data: Any, split: Split) -> LoaderSource:
        """A split in batches of the Trainer's size and collator, pass by pass, resumable."""
        loader: DataLoader[Any] = DataLoader(
            data,
            batch_size=self.args.train_batch_size * self.group.size,
            shuffle=True,
            collate_fn=self.data_collator,
            num_workers=self.args.dataloader_num_workers,
            drop_last=self.args.dataloader_drop_last,
        )
        return LoaderSource(loader, split, self.args.seed, self.args.device, self._division)

    def _pairs(self) -> Iterator[tuple[Batch, Batch]]:
        beside = Stream(self._source(self.retain_dataset, "retain"))
        for batch in self._source(self.train_dataset, "forget").walk(0, 0):
            yield batch, next(beside)

    def _batch(self, inputs: dict[str, Any]) -> Batch:
        if "labels" not in inputs:
            raise InvalidInput(f"A forget batch should have `labels`. (got {', '.join(inputs)})")
        return batch_of(inputs, "forget")
