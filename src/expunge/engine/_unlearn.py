"""``unlearn`` a part of the data, or ``train`` on all of it: the two functions users call."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

from torch import nn
from torch.nn import functional as F

from expunge._errors import InvalidInput
from expunge._kinds import check_arguments
from expunge.data import Augment, Data
from expunge.engine._execution import Execution
from expunge.engine._overlap_check import check_disjoint
from expunge.engine._procedure import Procedure
from expunge.engine._recipe import Recipe, common_options
from expunge.engine._run import Result, Run
from expunge.engine._run_setup import OptimizerFactory
from expunge.methods import Loss, Method, Retrain
from expunge.update import Addon, Aggregate

LEAST_TRAVEL = 5e-3
"""How far Adam must be able to move a weight, steps times rate, for a run to forget anything: a
small CNN forgot none of its digits by SRL, NGPlus or SCRUB up to here. The paper's allow 8e-3."""


def unlearn(
    model: nn.Module,
    *,
    forget: Data,
    retain: Data,
    unseen: Data | None = None,
    method: Method | Procedure | str = "random-label",
    addon: Addon | str | None = None,
    aggregate: Aggregate | str | Any | None = None,
    epochs: int | None = None,
    batch_size: int | None = None,
    lr: float | None = None,
    optimizer: OptimizerFactory | Recipe | None = None,
    loss: Loss = F.cross_entropy,
    augment: Augment | None = None,
    execution: Execution = Execution(),
) -> Result:
    """Take the influence of ``forget`` out of a copy of ``model``, keeping it good on ``retain``.

    One epoch is one pass over the forget set; each of its batches is paired with the next batch of
    the retain set, which is reshuffled when it runs out. Methods that train the model again pass
    over the retain set instead (``Method.epoch_over``). Same seed, same bits on the CPU.

    Args:
        model: any module that maps a batch of inputs to logits, or to an object or dict that has
            them as ``logits``; it is left untouched.
        forget, retain: map-style datasets of (input, target) or of dicts with ``labels``, whose
            other entries the model takes by name; or DataLoaders of these, whatever `batch_size`
            is.
        unseen: data that the model never saw, such as a validation set: looked at, never trained
            on. Only methods that compare with unseen data need it, such as ``match-unseen``.
        method: a name (``"random-label"``, ``"SRL"``, …) or an instance; or a whole
            :class:`expunge.Procedure`, for the options that are not listed here. What is given
            besides a procedure replaces its value.
        addon: see :class:`expunge.Update` (default: focus).
        aggregate: see :class:`expunge.Update` (default: linear, α = 0.05).
        epochs, batch_size, lr: 10, 256 and 1e-4 by default; 0.1 for ``retrain``. These and the
            aggregation have other defaults where the method prefers them: see
            ``Method.preferred``.
        optimizer: a class of ``torch.optim``, called with the parameters and ``lr``, or a function
            of the parameters (default: Adam). For methods that train the model again, the
            :class:`expunge.Recipe` by which it was trained: ``refresh`` follows it for its
            ``budget`` of the epochs, ``retrain`` for all. It decides the schedule as well, and
            whichever of ``epochs``, ``batch_size`` and ``lr`` is not given.
        loss: maps (logits, targets) to the mean over the batch.
        augment: applied to whole batches of images held in memory.
        execution: how the machine runs it: seed, device, precision, checkpoint, callbacks, …; see
            :class:`expunge.Execution`.

    Returns:
        The unlearned model, in eval mode, on the device of ``model``, and the history.

    Raises:
        Diverged: a loss or gradient became non-finite; ``.result`` has the last good weights.

    Example:
        >>> import torch
        >>> data = torch.utils.data.TensorDataset(torch.randn(32, 3), torch.arange(32) % 2)
        >>> forget, retain = torch.utils.data.random_split(data, [8, 24])
        >>> model = torch.nn.Linear(3, 2)
        >>> result = unlearn(model, forget=forget, retain=retain, epochs=30, batch_size=4)
        >>> len(result.history.epochs), result.history.epochs[-1]["steps"]
        (30, 2)
    """
    # What decides the run; its options are checked first, with their ranges.
    recipe = optimizer if isinstance(optimizer, Recipe) else None
    arguments, names = locals(), ("addon", "aggregate", "epochs", "batch_size", "lr")
    given = {name: arguments[name] for name in names if arguments[name] is not None}
    if isinstance(method, Procedure):
        procedure = replace(method, **given)
    else:
        procedure = Procedure.preferred(recipe, method=method, **given)
    check_arguments(unlearn, locals())
    check_disjoint(forget, retain)
    if recipe is not None:
        optimizer = _followed(procedure, recipe)
    elif isinstance(procedure.method, Retrain) and optimizer is None:
        optimizer = Recipe(**common_options(procedure))
    assert isinstance(procedure.method, Method)
    if execution.micro_batches > 1 and not procedure.method.supports_micro_batches:
        raise InvalidInput(
            f"{procedure.label} computes its losses over whole batches: `micro_batches` should be "
            f"1. (got {execution.micro_batches}) Take smaller batches instead."
        )
    run = Run(
        model,
        forget,
        retain,
        unseen,
        procedure=procedure,
        execution=execution,
        optimizer=optimizer,
        loss=loss,
        augment=augment,
    )
    if optimizer is None:
        _warn_if_short(run)
    return run.execute()


def _followed(procedure: Procedure, recipe: Recipe) -> Recipe:
    """The recipe of a run that trains the model again: the procedure's part of it."""
    own: Recipe | None = procedure.method.own_recipe(recipe)  # type: ignore[union-attr]
    if own is None:
        raise InvalidInput(
            "A recipe as `optimizer` is for methods that train the model again: refresh and "
            f"retrain. (got {procedure.label})"
        )
    plain_epochs = min(own.plain_epochs, procedure.epochs)
    return replace(own, **common_options(procedure), plain_epochs=plain_epochs)


def _warn_if_short(run: Run) -> None:
    """Warn where steps cannot move a weight far enough, and the method does nothing before them."""
    prepares = type(run.method).prepare is not Method.prepare
    travel = run.total_steps * run.procedure.lr
    if prepares or travel >= LEAST_TRAVEL or not run.group.is_first:
        return
    warnings.warn(
        f"This run moves a weight by {travel:g} at most (steps: {run.total_steps}, rate: "
        f"{run.procedure.lr:g}): too little to forget anything. Take more epochs, smaller batches "
        "or a larger rate.",
        stacklevel=3,
    )


def train(
    model: nn.Module,
    data: Data,
    *,
    recipe: Recipe | None = None,
    loss: Loss = F.cross_entropy,
    augment: Augment | None = None,
    execution: Execution = Execution(),
) -> Result:
    """Train a copy of ``model`` on ``data``: how initial and ideal models are made.

    The same loop as :func:`unlearn`, with the same promises: deterministic, resumable from a
    checkpoint, stopped at divergence with the last good weights, shared by a group of processes.
    """
    check_arguments(train, locals())
    recipe = recipe or Recipe()
    procedure = Procedure(method=Retrain(reset=False), addon="none", **common_options(recipe))
    return Run(
        model,
        None,
        data,
        procedure=procedure,
        execution=replace(execution, title=execution.title or "train"),
        optimizer=recipe,
        loss=loss,
        augment=augment,
    ).execute()
