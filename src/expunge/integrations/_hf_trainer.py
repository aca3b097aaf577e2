"""Unlearning inside the Hugging Face ``Trainer``."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import BatchSampler, DataLoader

from expunge import _tensors as tensors
from expunge import data, engine
from expunge._errors import DataError, InvalidInput
from expunge.data.text import IGNORED
from expunge.distributed import SINGLE, BatchDivision, DividedBatches, as_group, loader_options
from expunge.methods import METHODS, Loss, Method, Problem, next_token_loss
from expunge.update import Addon, Aggregate, Term, Update, is_sharded

try:
    from accelerate.data_loader import DataLoaderShard
    from transformers import Trainer, TrainerCallback
    from transformers.trainer_utils import get_last_checkpoint
except ImportError as error:
    raise InvalidInput(
        "The `UnlearningTrainer` needs packages that are not here. (cannot import transformers; "
        "pip install 'expunge[transformers]')"
    ) from error

STATE_FILE = "expunge.safetensors"
"""What a Trainer's checkpoint lacks: moments, random streams, the position in the retain data."""
MOMENT_KEYS = ("moments_u", "moments_c")
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
        forget, retain: a :class:`expunge.data.TextSet`, or datasets whose items the data collator
            takes, with ``labels``. Without a collator of your own, pairs (input_ids, labels) and
            rows of different lengths are padded by :func:`expunge.data.pad_sequences`.
        unseen: a :class:`expunge.data.TextSet` that the model never saw, for ``match-answers``;
            ``forget`` is then one as well.
        method: a name or an instance; ``npo`` or another of ``expunge list methods``.
        addon, aggregate: see :class:`expunge.Update`.
        loss: maps (logits, labels) to a mean, for the methods that read it.
        options: everything else that ``Trainer`` takes; an ``eval_dataset`` of
            ``{"forget": …, "retain": …}`` evaluates both.
    """

    _signature_columns: list[str]
    data_collator: Any

    def __init__(
        self,
        model: nn.Module,
        args: Any = None,
        *,
        forget: Any,
        retain: Any,
        unseen: Any = None,
        method: Method | str = "npo",
        addon: Addon | str = "focus",
        aggregate: Aggregate | str | Any = "linear",
        loss: Loss = next_token_loss,
        **options: Any,
    ) -> None:
        self.method: Method = METHODS.resolve(method)
        if not isinstance(self.method, Method):
            raise InvalidInput(f"`method` should be a name or a method. (got {method!r})")
        if self.method.epoch_over != "forget":
            raise InvalidInput(
                f"{type(self.method).__name__} trains on the retain set alone: use the Trainer "
                "itself."
            )
        engine.check_disjoint(forget, retain)
        if self.method.needs_unseen and unseen is None:
            raise InvalidInput(
                f"{type(self.method).__name__} compares with data that the model never saw: give "
                "`unseen`, such as a TextSet of validation records."
            )
        given = {name for name, value in options.items() if value is not None}
        # A method that prepares epochs may have a target for every example.
        self.prepares_epochs = type(self.method).begin_epoch is not Method.begin_epoch
        train = data.Numbered(forget) if self.prepares_epochs else forget
        super().__init__(model, args, train_dataset=train, **options)
        self.data_collator = _Collator(self.data_collator, pads="data_collator" not in given)
        _refuse_options(self, given)
        self.add_callback(_EpochBegin(self))
        self.group = as_group("auto") if self.args.world_size > 1 else SINGLE
        self.group.copy_from_first([*self.model.parameters(), *self.model.buffers()])
        self.update = Update(
            addon,
            aggregate,
            seed=self.args.seed,
            group=self.group,
            checks_losses=False,  # `training_step` does, and says at which step
        )
        self.retain_stream = data.Stream(self._source(retain, "retain"))
        self.problem = Problem(
            self.model,
            loss=loss,
            generator=torch.Generator().manual_seed(data.seed_of(self.args.seed, "method")),
            needs_saliency=self.update.addon.needs_saliency,
            pairs=lambda: engine.one_pass(
                self._source(self.train_dataset, "forget"), self._source(retain, "retain")
            ),
            group=self.group,
            splits=engine.RunSplits(forget, retain, unseen, self.group),
            keeps_initial=self.method.needs_initial,
        )
        self._prepared = False
        self._epoch = 0
        self._moving: list[nn.Parameter] = []
        self._waiting: list[data.Batch] = []
        self._update_state: dict[str, Any] | None = None
        self._recorder = engine.StepRecorder(self.update, constrained=self.method.constrained)

    def train(self, resume_from_checkpoint: str | bool | None = None, **options: Any) -> Any:
        """Train; a checkpoint also restores the update and the position in the retain data."""
        folder: Any = resume_from_checkpoint or None
        if folder is True and (folder := get_last_checkpoint(self.args.output_dir)) is None:
            raise DataError(f"There is no checkpoint to resume from in {self.args.output_dir}.")
        if folder is not None or self.args.save_strategy != "no":
            self._fingerprint  # noqa: B018  # of the weights as they are now
        if folder is not None:
            tree = engine.load_checkpoint(Path(folder) / STATE_FILE, self._fingerprint)
            self.problem.load_state_dict(tree["problem"])
            self.retain_stream.seek(tree["retain"])
            self._update_state, self._epoch = tree["update"], tree["epoch"]
        else:
            self._epoch = 0
            if not self._prepared:
                self.method.prepare(self.problem)
        self._prepared = True
        self._moving, self._waiting = [], []
        self._recorder = engine.StepRecorder(self.update, constrained=self.method.constrained)
        with self._others_frozen():
            return super().train(resume_from_checkpoint=folder and str(folder), **options)

    def training_step(
        self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None
    ) -> Tensor:
        """Keep the micro-batch; at the last one before an optimizer step, fill ``p.grad``."""
        model.train()
        # Keep the micro-batch until the last one before an optimizer step.
        if "labels" not in inputs:
            raise InvalidInput(f"A forget batch should have `labels`. (got {', '.join(inputs)})")
        self._waiting.append(data.batch_of(self._prepare_inputs(inputs), "forget"))
        if not self.accelerator.sync_gradients:
            return torch.zeros((), device=self.args.device)
        # Pair each forget batch with the next retain batch.
        forget, self._waiting = self._waiting, []
        pairs = [(batch, next(self.retain_stream)) for batch in forget]
        # Fill ``p.grad`` with the combined gradient.
        if not self._moving:
            self._begin(model)
        constrained = self.method.constrained
        self.update.backward(
            objective=self._losses("objective", pairs),
            constraint=self._losses("constraint", pairs) if constrained else None,
            params=self._moving,
        )
        # Record the losses and diagnostics for the next log, unless they are not finite.
        assert self.update.losses is not None
        found = (*self.update.losses, self.update.record)
        if not all(bool(value.isfinite().all()) for value in found if value is not None):
            where = f"at step {self.state.global_step + 1}: a loss or gradient"
            raise engine.diverged(where, constrained)
        self._recorder.add(found)
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
        whole = BatchSampler(sampler.sampler, size, sampler.drop_last)
        divided: DataLoader[Any] = DataLoaderShard(
            loader.dataset,
            batch_sampler=DividedBatches(whole, self._division),
            persistent_workers=loader.persistent_workers,
            **loader_options(loader),
        )
        return divided

    def prediction_step(
        self, model: nn.Module, inputs: dict[str, Any], *rest: Any, **more: Any
    ) -> Any:
        """Predict what is to be forgotten; answers to prefer are for training alone."""
        return super().prediction_step(model, data.split_preferred(inputs)[0], *rest, **more)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add the means of the diagnostics since the last log to the training loss."""
        if "loss" in logs:
            means = self._recorder.take_means()
            logs |= {k: means[k] for k in SHOWN if not math.isnan(means.get(k, math.nan))}
        super().log(logs, start_time)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save the model; a checkpoint also gets the state of the update."""
        super().save_model(output_dir, _internal_call)
        if _internal_call and output_dir is not None:
            self._save_state(Path(output_dir) / STATE_FILE)

    def _save_state(self, path: Path) -> None:
        """Write what the Trainer does not save; all processes call this, and the first writes."""
        state = self.update.state_dict()
        for name in MOMENT_KEYS:
            state[name] = [_whole(moment, keep=self.group.is_first) for moment in state[name]]
        streams = self.group.exchange(state["generators"])  # shards have streams of their own
        state["generators"] = {key: value for each in streams for key, value in each.items()}
        tree = {
            "update": state,
            "problem": self.problem.state_dict(),
            "retain": self.retain_stream.position,
            "epoch": self._epoch,
        }
        self.group.run_in_first(lambda: engine.save_checkpoint(path, self._fingerprint, tree))

    @cached_property
    def _fingerprint(self) -> dict[str, str]:
        """What a checkpoint should match to be resumed from."""
        kept = self.problem.initial if self.method.needs_initial else self.model
        return {
            "method": engine.stable_repr(self.method),
            "addon": engine.stable_repr(self.update.addon),
            "aggregate": engine.stable_repr(self.update.aggregate),
            "loss": engine.stable_repr(self.problem.loss_function),
            "retain": self.retain_stream.source.fingerprint(),
            "model": tensors.state_digest(kept.state_dict()),
        }

    @property
    def _division(self) -> BatchDivision:
        return BatchDivision(self.group.rank, self.group.size)

    def _begin(self, model: nn.Module) -> None:
        """Before the first step: the model is on its device now, and sharded if it will be."""
        self.problem.model = model
        self._moving = self.method.parameters_to_update(self.problem)
        if self._update_state is not None:
            state, self._update_state = self._update_state, None
            moments = {name: _sharded_like(self._moving, state[name]) for name in MOMENT_KEYS}
            self.update.load_state_dict(state | moments)
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
        known = [name for name in self._signature_columns if not name.startswith(data.PREFIX)]
        self._signature_columns = [*known, *(data.PREFIX + name for name in known), data.POSITION]

    def _losses(
        self, name: str, pairs: list[tuple[data.Batch, data.Batch]]
    ) -> Iterator[Tensor | Term]:
        """One loss per micro-batch, computed lazily: only one graph is alive at a time."""
        forget, retain = ([pair[k] for pair in pairs] for k in (0, 1))

        def loss(pair: tuple[data.Batch, data.Batch]) -> Tensor | Term:
            with self.accelerator.autocast():
                return getattr(self.method, name)(self.problem, *pair)  # type: ignore[no-any-return]

        return engine.weigh(
            map(loss, pairs),
            self.group,
            self.method,
            name,
            forget,
            retain,
            reduced=self.is_fsdp_enabled,
        )

    def _source(self, dataset: Any, split: data.Split) -> data.LoaderSource:
        """A split in batches of the Trainer's size and collator, pass by pass, resumable."""
        loader: DataLoader[Any] = DataLoader(
            dataset,
            batch_size=self.args.train_batch_size * self.group.size,
            shuffle=True,
            collate_fn=self.data_collator,
            num_workers=self.args.dataloader_num_workers,
            drop_last=self.args.dataloader_drop_last,
        )
        return data.LoaderSource(loader, split, self.args.seed, self.args.device, self._division)


class _EpochBegin(TrainerCallback):  # type: ignore[misc]
    """Lets the method prepare an epoch, counted from 1, unless it had before a checkpoint."""

    def __init__(self, trainer: UnlearningTrainer) -> None:
        self.trainer = trainer

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        trainer, epoch = self.trainer, math.floor((state.epoch or 0.0) + 1e-6) + 1
        if trainer.prepares_epochs and epoch > trainer._epoch:
            trainer._epoch = epoch
            trainer.method.begin_epoch(trainer.problem, epoch, int(state.num_train_epochs))


def _whole(moment: Any, *, keep: bool) -> Tensor | None:
    """A moment that may be sharded, gathered; None in processes that need not keep it."""
    if not is_sharded(moment):
        return moment  # type: ignore[no-any-return]
    gathered = moment.full_tensor()
    return gathered.cpu() if keep else None


def _sharded_like(moving: list[nn.Parameter], moments: list[Tensor]) -> list[Tensor]:
    """Each moment sharded as its parameter is."""
    if not any(map(is_sharded, moving)):
        return moments
    from torch.distributed.tensor import DTensor, distribute_tensor

    return [
        distribute_tensor(m.to(p.device), p.device_mesh, p.placements, src_data_rank=None)
        if is_sharded(p) and isinstance(p, DTensor)
        else m
        for m, p in zip(moments, moving, strict=True)
    ]


class _Collator:
    """The Trainer's collator; with ``pads``, ours for pairs and for rows of different lengths."""

    def __init__(self, collate: Any, *, pads: bool) -> None:
        self.collate, self.pads = collate, pads

    def __call__(self, items: list[Any]) -> dict[str, Any]:
        paired = isinstance(items[0], tuple | list)
        rows = [data.named(item) if paired else dict(item) for item in items]
        positions = [row.pop(data.POSITION) for row in rows if data.POSITION in row]
        shapes = {np.shape(row["labels"]) for row in rows if "labels" in row}
        uneven = paired or bool(positions) or len(shapes) > 1
        if self.pads and uneven and shapes and all(len(shape) == 1 for shape in shapes):
            batch = _cut(data.pad_sequences(rows))
        else:
            batch = self.collate(rows if positions else items)
        return batch | {data.POSITION: torch.tensor(positions)} if positions else batch


def _cut(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """A batch without the columns after its last label, which no loss depends on."""
    own, preferred = data.split_preferred(batch)
    labelled = (own["labels"] != IGNORED).any(dim=0).nonzero()
    if preferred or not len(labelled):
        return batch
    return {name: part[:, : 1 + int(labelled.max())] for name, part in own.items()}


def _refuse_options(trainer: Any, given: Collection[str]) -> None:
    """Refuse settings under which the two gradients could not be computed as they are."""
    args = trainer.args
    plugin = getattr(trainer.accelerator.state, "fsdp_plugin", None)
    sampling = getattr(args, "train_sampling_strategy", "random")
    sharded = getattr(trainer, "is_distributed_loading_by_transformers", False)
    refused = {
        "`model_init`: the reference would be another model; pass `model`": "model_init" in given,
        "`compute_loss_func`: the method has the losses; see `loss`": "compute_loss_func" in given,
        "`label_smoothing_factor`: put it into `loss`": args.label_smoothing_factor,
        "`fp16`: its loss scaling knows one loss only; use `bf16`": args.fp16,
        "`deepspeed`: it holds the gradients back; use `fsdp`": args.deepspeed,
        "version 1 of `fsdp`: its parameters are flattened; use version 2": (
            plugin is not None and plugin.fsdp_version != 2
        ),
        f"`fsdp` with {type(trainer.method).__name__}, which asks about whole sets: leave it out": (
            trainer.is_fsdp_enabled and trainer.prepares_epochs
        ),
        "several GPUs in one process: start one process each, with torchrun": args.n_gpu > 1,
        "`parallelism_config` or a model sharded on loading: use `fsdp`": (
            getattr(args, "parallelism_config", None) or sharded
        ),
        "`train_sampling_strategy` in several processes: use random": (
            args.world_size > 1 and sampling not in ("random", "sequential")
        ),
        "weights that are not loaded: load them in every process": any(
            p.is_meta for p in trainer.model.parameters()
        ),
    }
    problems = [text for text, value in refused.items() if value]
    if problems:
        raise InvalidInput(f"The `UnlearningTrainer` does not take {'; nor '.join(problems)}.")
