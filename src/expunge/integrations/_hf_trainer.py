"""Unlearning inside the Hugging Face ``Trainer``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from expunge._errors import Diverged, InvalidInput
from expunge.data._batches import Batch, LoaderSource, Split, Stream, seed_of
from expunge.engine._checkpoint import describe, model_digest
from expunge.engine._history import mean_row, step_row
from expunge.engine._micro_batches import weighted
from expunge.engine._overlap_check import check_disjoint
from expunge.integrations._hf_checks import check_arguments, check_method
from expunge.integrations._hf_state import find_checkpoint, load_state, save_state
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

SHOWN = ("objective", "constraint", "agreement", "feasible", "cosine", "moved")


class UnlearningTrainer(Trainer):  # type: ignore[misc]
    """A ``Trainer`` whose every step unlearns ``forget`` while keeping ``retain``.

    An epoch is one pass over ``forget``, by the Trainer's own loader; each of its batches is paired
    with the next one of ``retain``. Both gradients are taken on the batches of a whole optimizer
    step and combined by :class:`expunge.Update` into ``p.grad``; clipping, optimizer, schedule,
    autocast, evaluation and checkpoints are the Trainer's. With ``gradient_accumulation_steps`` the
    micro-batches are kept and each gradient is averaged over all of them, by their numbers of
    tokens or examples, before it is weighed: the weight of an add-on is not linear, so weighing
    micro-batch by micro-batch would be another step.

    The loss that the Trainer shows is U; ``objective``, ``constraint``, ``agreement``, ``feasible``
    (a share), ``cosine`` and ``moved`` are logged beside it, as means since the last log.

    Args:
        model: as for ``Trainer``: the model to unlearn, which is changed in place. Its weights at
            this moment are the reference of ``npo`` and ``scrub``; resume with the same ones.
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
        """As the Trainer's; a checkpoint brings the update's state and the retain data's back."""
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
        self._waiting.append(self._batch(self._prepare_inputs(inputs)))
        if not self.accelerator.sync_gradients:
            return torch.zeros((), device=self.args.device)
        forget, self._waiting = self._waiting, []
        pairs = [(batch, next(self.retain_stream)) for batch in forget]
        self.problem.model = model
        constrained = self.method.constrained
        self.update.backward(
            objective=self._losses("objective", pairs),
            constraint=self._losses("constraint", pairs) if constrained else None,
            params=self.problem.parameters,
        )
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
        """As the Trainer's; into a checkpoint goes the state of the update, too."""
        super().save_model(output_dir, _internal_call)
        if _internal_call and output_dir is not None and self.args.should_save:
            save_state(Path(output_dir), self._fingerprint, *self._stateful)

    @property
    def _stateful(self) -> tuple[Update, Problem, Stream]:
        """What has a state that the Trainer does not know of."""
        return self.update, self.problem, self.retain_stream

    @cached_property
    def _fingerprint(self) -> dict[str, str]:
        """What a checkpoint belongs to."""
        return {
            "method": describe(self.method),
            "addon": describe(self.update.addon),
            "aggregate": describe(self.update.aggregate),
            "loss": describe(self.problem.loss),
            "retain": self.retain_stream.source.fingerprint(),
            "model": model_digest(self.problem.initial),
        }

    def _losses(self, name: str, pairs: list[tuple[Batch, Batch]]) -> Iterator[Tensor | Term]:
        """One loss a micro-batch, made when it is asked for: one graph is alive at a time."""
        forget, retain = ([pair[k] for pair in pairs] for k in (0, 1))
        terms = (self._loss(name, *pair) for pair in pairs)
        return weighted(terms, self.method, name, forget, retain)

    def _loss(self, name: str, forget: Batch, retain: Batch) -> Tensor | Term:
        with self.accelerator.autocast():
            term: Tensor | Term = getattr(self.method, name)(self.problem, forget, retain)
        return term

    def _check_finite(self) -> None:
        """The weights are still those of the step before: say so rather than go on."""
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
