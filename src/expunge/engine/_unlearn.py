"""``unlearn`` a part of the data, or ``train`` on all of it: the two functions users call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn
from torch.nn import functional as F

from expunge._errors import InvalidInput
from expunge._kinds import Count, check_arguments
from expunge._options import (
    Augmented,
    BatchNormPolicy,
    BatchOrder,
    MomentDtype,
    Precision,
    Schedule,
)
from expunge.data._augment import Augment
from expunge.data._batches import Data
from expunge.distributed import Group, as_group
from expunge.engine._callbacks import Callback
from expunge.engine._overlap_check import check_disjoint
from expunge.engine._procedure import Procedure
from expunge.engine._recipe import Recipe
from expunge.engine._run_builder import OptimizerFactory, Result, RunBuilder, SchedulerFactory
from expunge.methods import Method, Retrain
from expunge.methods._problem import Loss
from expunge.update import Addon, Aggregate, LossScale, Update


def unlearn(
    model: nn.Module,
    *,
    forget: Data,
    retain: Data,
    unseen: Data | None = None,
    method: Method | str = "random-label",
    addon: Addon | str = "focus",
    aggregate: Aggregate | str | Any | None = None,
    epochs: int | None = None,
    batch_size: int | None = None,
    lr: float | None = None,
    schedule: Schedule | None = None,
    optimizer: OptimizerFactory | None = None,
    scheduler: SchedulerFactory | None = None,
    recipe: Recipe | None = None,
    loss: Loss = F.cross_entropy,
    augment: Augment | None = None,
    augmented: Augmented | None = None,
    batchnorm: BatchNormPolicy | None = None,
    batches: BatchOrder = "continued",
    strict: bool = False,
    seed: int = 0,
    device: str | torch.device = "auto",
    checkpoint: str | Path | None = None,
    checkpoint_every: Count = 100,
    callbacks: Sequence[Callback] = (),
    progress: bool = True,
    group: Any | Literal["auto"] | None = "auto",
    micro_batches: int = 1,
    precision: Precision = "fp32",
    moment_dtype: MomentDtype = "fp32",
    offload: bool = False,
) -> Result:
    """Take the influence of ``forget`` out of a copy of ``model``, keeping it good on ``retain``.

    One epoch is one pass over the forget set; each of its batches is paired with the next batch of
    the retain set, which is reshuffled when it runs out. Same seed, same bits on the CPU.

    Args:
        model: any module that maps a batch of inputs to logits, or to an object or dict that has
            them as ``logits``; it is left untouched.
        forget, retain: map-style datasets of (input, target) or of dicts with ``labels``, whose
            other entries the model takes by name; or DataLoaders of these.
        unseen: data that the model never saw, such as a validation set: looked at, never trained
            on. Only what compares with unseen data needs it: methods such as ``match-unseen``, and
            the callback :class:`expunge.Rewind`.
        method: a name (``"random-label"``, ``"SRL"``, …) or an instance.
        addon, aggregate: see :class:`expunge.Update` (default: linear, α = 0.05).
        epochs, batch_size, lr: 10, 256 and 1e-4 by default; 0.1 for ``retrain``. These, the
            aggregation, ``schedule`` and ``batchnorm`` have other defaults where the method
            prefers them: see ``Method.preferred``.
        schedule: ``constant``, ``linear`` for a rate that falls to 0 over the run, or ``one-cycle``
            for one that rises first, for 30 % of it.
        optimizer: a class of ``torch.optim``, called with the parameters and ``lr``, or a function
            of the parameters (default: Adam).
        scheduler: a function of the optimizer; stepped once per epoch.
        recipe: how the model was trained, for methods that train it again: ``refresh`` for its
            ``budget`` of the epochs, ``retrain`` for all. It decides the optimizer and the
            schedule, and whichever of ``epochs``, ``batch_size`` and ``lr`` is not given.
        loss: maps (logits, targets) to the mean over the batch.
        augment: applied to whole batches of images held in memory.
        augmented: which of them: those of ``both`` sets (the default), of ``retain`` alone, or
            ``none``.
        batchnorm: what may move running statistics: ``published`` (every batch; the default),
            ``retain-only``, ``frozen``.
        batches: ``released`` is as in the paper's released code: retain data are shuffled anew at
            every epoch, and ``augment`` ends with the first one.
        strict: a parameter outside the mask does not move at all; see :class:`expunge.Update`.
        device: ``auto`` takes an accelerator if there is one.
        checkpoint: a file to keep the state of the run in, every ``checkpoint_every`` steps, at the
            end of an epoch (the first, then once there were ten steps more) and at the end; the
            same call resumes a killed run.
        callbacks: see :class:`expunge.Callback`.
        progress: show a progress bar if standard error is a terminal, else a line per epoch.
        group: processes that share the work, all of which make this call: ``auto`` takes the
            default process group of ``torch.distributed`` where one is initialised, None works
            alone. ``batch_size`` is that of all processes together. See
            ``docs/how-to/several-processes.md``.
        micro_batches: take each batch in this many parts, one after the other: the same step
            (except for BatchNorm, which sees the parts) in the memory of one part.
        precision: what the model computes in; ``bf16`` or ``fp16`` is autocast around it, and
            ``fp16`` scales the losses. Weights, losses, gradients and statistics stay float32.
            See ``docs/how-to/large-models.md``.
        moment_dtype, offload: what the moments are kept in, and where; see
            :class:`expunge.Update`.

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
    # What decides the run, out of the arguments above.
    procedure = Procedure.from_arguments(locals())
    check_arguments(unlearn, locals())
    check_disjoint(forget, retain)
    if recipe is not None:
        recipe = _followed(procedure, recipe)
    elif isinstance(procedure.method, Retrain) and optimizer is None:
        recipe = Recipe(
            epochs=procedure.epochs,
            batch_size=procedure.batch_size,
            lr=0.1 if lr is None else lr,
        )

    if procedure.micro_batches > 1 and not procedure.method.divisible:  # type: ignore[union-attr]
        raise InvalidInput(
            f"{procedure.label} computes its losses over whole batches: `micro_batches` should be "
            f"1. (got {procedure.micro_batches}) Take smaller batches instead."
        )

    # What surrounds it: processes, data, files, the user's code.
    processes = as_group(group)
    builder = RunBuilder(
        procedure=procedure,
        update=_update(procedure, seed, processes),
        optimizer=optimizer,
        scheduler=scheduler,
        recipe=recipe,
        loss=loss,
        augment=augment,
        seed=seed,
        device=device,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        callbacks=callbacks,
        progress=progress,
        title=procedure.label,
        group=processes,
    )
    return builder.execute(model, forget, retain, unseen)


def _followed(procedure: Procedure, recipe: Recipe) -> Recipe:
    """The recipe of a run that trains the model again: the procedure's part of it."""
    own: Recipe | None = procedure.method.own_recipe(recipe)  # type: ignore[union-attr]
    if own is None:
        raise InvalidInput(
            "`recipe` is for methods that train the model again: refresh and retrain. "
            f"(got {procedure.label})"
        )
    return replace(
        own,
        epochs=procedure.epochs,
        batch_size=procedure.batch_size,
        lr=procedure.lr,
        plain_epochs=min(own.plain_epochs, procedure.epochs),
    )


def _update(procedure: Procedure, seed: int, group: Group) -> Update:
    return Update(
        procedure.addon,
        procedure.aggregate,
        strict=procedure.strict,
        seed=seed,
        group=group,
        moment_dtype=procedure.moment_dtype,
        offload=procedure.offload,
        loss_scale=LossScale() if procedure.precision == "fp16" else None,
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
    checkpoint_every: Count = 1000,
    callbacks: Sequence[Callback] = (),
    progress: bool = True,
    title: str = "train",
    group: Any | Literal["auto"] | None = "auto",
) -> Result:
    """Train a copy of ``model`` on ``data``: how initial and ideal models are made.

    The same loop as :func:`unlearn`, with the same promises: deterministic, resumable from
    ``checkpoint``, stopped at divergence with the last good weights, shared by a ``group``.
    """
    check_arguments(train, locals())
    recipe = recipe or Recipe()
    processes = as_group(group)
    procedure = Procedure(
        method=Retrain(reset=False),
        addon="none",
        epochs=recipe.epochs,
        batch_size=recipe.batch_size,
        lr=recipe.lr,
    )
    builder = RunBuilder(
        procedure=procedure,
        update=_update(procedure, seed, processes),
        recipe=recipe,
        loss=loss,
        augment=augment,
        seed=seed,
        device=device,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
        callbacks=callbacks,
        progress=progress,
        title=title,
        group=processes,
    )
    return builder.execute(model, None, data)
