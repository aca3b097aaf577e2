"""Unlearning inside the Hugging Face ``Trainer``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from expunge._errors import DataError, Diverged, InvalidInput
from expunge.data._batches import Batch, LoaderSource, Split, Stream, seed_of
from expunge.engine._checkpoint import describe, load_checkpoint, model_digest, save_checkpoint
from expunge.engine._history import mean_row, step_row
from expunge.engine._losses import weigh_micro_batches
from expunge.engine._overlap_check import check_disjoint
from expunge.methods import METHODS, Method, Problem, next_token_loss
from expunge.methods._problem import Loss
from expunge.update import Addon, Aggregate, Term, Update

try:
    from transformers import Trainer
except ImportError as error:
    raise InvalidInput(
        "The `UnlearningTrainer` needs packages that are not here. (cannot import transformers; "
        "pip install 'expunge[transformers]')"
    ) from error

STATE_FILE = "expunge.safetensors"
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

    Args:
        model: as for ``Trainer``: the model to unlearn, which is changed in place. Its weights at
            this moment are the reference of ``npo`` and ``scrub``; resume with the same weights.
        args: ``TrainingArguments``, of one process.
        forget, retain: datasets whose items the data collator takes, with ``labels``.
        method: a name or an instance; ``npo`` or ``gradient-difference`` for causal models.
        addon, aggregate: see :class:`expunge.Update`.
        loss: maps (logits, labels) to a mean, for the methods that read it.
        options: everything else that ``Trainer`` takes; an ``eval_dataset`` of
            ``{"forget": …, "retain": …}`` evaluates both.
    """

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
        check_arguments(self.args, options)
        self.update = Update(addon, aggregate, seed=self.args.seed)
        self.update.checks_losses = False  # `_check_finite` does, and says at which step
        self.retain_dataset = retain
        self.retain_stream = Stream(self._source(retain, "retain"))
        self.problem = Problem(
            self.model,
            loss=loss,
            generator=torch.Generator().manual_seed(seed_of(self.args.seed, "method")),
            ranks=self.update.addon.ranks,
            pairs=self._pairs,
        )
        self._prepared = False
        self._waiting: list[Batch] = []
        self._records: list[tuple[Tensor, Tensor | None, Tensor | None]] = []

    def train(self, resume_from_checkpoint: str | bool | None = None, **options: Any) -> Any:
        """Train; a checkpoint also restores the update and the position in the retain data."""
        folder = find_checkpoint(resume_from_checkpoint, self.args.output_dir)
        if folder is not None:
            load_state(folder, self._fingerprint, *self._stateful)
        elif not self._prepared:
            self.method.prepare(self.problem)
        self._prepared = True
        self._waiting, self._records = [], []
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
        self.problem.model = model
        constrained = self.method.constrained
        self.update.backward(
            objective=self._losses("objective", pairs),
            constraint=self._losses("constraint", pairs) if constrained else None,
            params=self.problem.parameters,
        )
        # Record the losses and diagnostics for the next log.
        assert self.update.losses is not None
        self._records.append((*self.update.losses, self.update.record))
        self._check_finite()
        return self.update.losses[0]

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add the means of the diagnostics since the last log to the training loss."""
        if "loss" in logs and self._records:
            logs |= self._diagnostics()
        super().log(logs, start_time)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save the model; a checkpoint also gets the state of the update."""
        super().save_model(output_dir, _internal_call)
        if _internal_call and output_dir is not None and self.args.should_save:
            save_state(Path(output_dir), self._fingerprint, *self._stateful)

    @property
    def _stateful(self) -> tuple[Update, Problem, Stream]:
        """The objects whose state the Trainer does not know of."""
        return self.update, self.problem, self.retain_stream

    @cached_property
    def _fingerprint(self) -> dict[str, str]:
        """What a checkpoint should match to be resumed from."""
        return {
            "method": describe(self.method),
            "addon": describe(self.update.addon),
            "aggregate": describe(self.update.aggregate),
            "loss": describe(self.problem.loss),
            "retain": self.retain_stream.source.fingerprint(),
            "model": model_digest(self.problem.initial),
        }

    def _losses(self, name: str, pairs: list[tuple[Batch, Batch]]) -> Iterator[Tensor | Term]:
        """One loss per micro-batch, computed lazily: only one graph is alive at a time."""
        forget, retain = ([pair[k] for pair in pairs] for k in (0, 1))
        terms = (self._loss(name, *pair) for pair in pairs)
        return weigh_micro_batches(terms, self.method, name, forget, retain)

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
            batch_size=self.args.train_batch_size,
            shuffle=True,
            collate_fn=self.data_collator,
            num_workers=self.args.dataloader_num_workers,
            drop_last=self.args.dataloader_drop_last,
        )
        return LoaderSource(loader, split, self.args.seed, self.args.device)

    def _pairs(self) -> Iterator[tuple[Batch, Batch]]:
        beside = Stream(self._source(self.retain_dataset, "retain"))
        for batch in self._source(self.train_dataset, "forget").walk(0, 0):
            yield batch, next(beside)

    def _batch(self, inputs: dict[str, Any]) -> Batch:
        if "labels" not in inputs:
            raise InvalidInput(f"A forget batch should have `labels`. (got {', '.join(inputs)})")
        rest = {name: value for name, value in inputs.items() if name != "labels"}
        return Batch(rest, inputs["labels"], "forget")


def check_method(method: Any) -> Method:
    """Raise unless ``method`` is a method whose epoch is a pass over the forget set."""
    if not isinstance(method, Method):
        raise InvalidInput(f"`method` should be a name or a method. (got {method!r})")
    if method.epoch_over != "forget":
        raise InvalidInput(
            f"{type(method).__name__} trains on the retain set alone: use the Trainer itself."
        )
    return method


def check_arguments(args: Any, options: dict[str, Any]) -> None:
    """Refuse settings under which the two gradients could not be computed as they are."""
    refused = {
        "`model_init`: the reference would be another model; pass `model`": options.get(
            "model_init"
        ),
        "`compute_loss_func`: the method has the losses; see `loss`": options.get(
            "compute_loss_func"
        ),
        "`label_smoothing_factor`: put it into `loss`": args.label_smoothing_factor,
        "`fp16`: its loss scaling knows one loss only; use `bf16`": args.fp16,
        "`deepspeed` or `fsdp`: this needs all weights in one process": args.deepspeed or args.fsdp,
        "several processes or GPUs: use one, or a loop of your own with `Update`": (
            args.world_size > 1 or args.n_gpu > 1
        ),
    }
    problems = [text for text, value in refused.items() if value]
    if problems:
        raise InvalidInput(f"The `UnlearningTrainer` does not take {'; nor '.join(problems)}.")


def find_checkpoint(resume: str | bool | None, output_dir: str) -> Path | None:
    """The folder to resume from; ``True`` is the last one in ``output_dir``."""
    from transformers.trainer_utils import get_last_checkpoint

    if resume is None or resume is False:
        return None
    folder = get_last_checkpoint(output_dir) if resume is True else resume
    if folder is None:
        raise DataError(f"There is no checkpoint to resume from in {output_dir}.")
    return Path(folder)


def save_state(
    folder: Path, fingerprint: dict[str, str], update: Update, problem: Problem, retain: Stream
) -> None:
    """Write what the Trainer does not save: moments, generators, the position in retain."""
    tree = {
        "update": update.state_dict(),
        "problem": problem.state_dict(),
        "retain": retain.position,
    }
    save_checkpoint(folder / STATE_FILE, fingerprint, tree)


def load_state(
    folder: Path, fingerprint: dict[str, str], update: Update, problem: Problem, retain: Stream
) -> None:
    """Restore what :func:`save_state` wrote; refuse a file with another ``fingerprint``."""
    tree = load_checkpoint(folder / STATE_FILE, fingerprint)
    update.load_state_dict(tree["update"])
    problem.load_state_dict(tree["problem"])
    retain.seek(tree["retain"])
