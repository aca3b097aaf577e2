"""Unlearn until the forgotten records are treated like unseen ones, and no further."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from expunge._errors import InvalidInput
from expunge.data._augment import Augment
from expunge.data._batches import Data, labels_of
from expunge.engine import Callback, History, Procedure, unlearn
from expunge.engine._device import pick_device
from expunge.evaluation import predict
from expunge.request.calibrate._best_epoch import BestEpoch
from expunge.request.calibrate._comparison import Comparison, compare
from expunge.request.calibrate._controller import Controller
from expunge.request.calibrate._rules import Rules, cap_batch_size
from expunge.request.calibrate._target import Target, estimate_target
from expunge.request.evidence._sections import Status, Stop

MIN_STEPS = 160
"""A method with targets of its own takes at least so many steps, however few records there are."""


@dataclass(frozen=True)
class CalibrationResult:
    """The chosen model, and how the run arrived at it.

    ``model`` is that of the best epoch above the utility floor; it has the initial weights if no
    epoch was better. ``epochs`` has one row per epoch: the run's own values, those of the
    comparison, ``target_low``, ``target_high``, ``lr``, ``alpha`` and ``action``. ``warnings``
    report rollbacks and over-forgetting.
    """

    model: nn.Module
    history: History
    epochs: list[dict[str, Any]]
    stopped: Stop
    target: Target
    before: Comparison
    after: Comparison
    warnings: tuple[str, ...]


def calibrate(
    model: nn.Module,
    *,
    forget: Data,
    retain: Data,
    val: Data,
    procedure: Procedure | None = None,
    floor: float = 2.0,
    level: float = 0.95,
    rules: Rules | None = None,
    seed: int = 0,
    device: str | torch.device = "auto",
    augment: Augment | None = None,
    checkpoint: str | Path | None = None,
    progress: bool = True,
    callbacks: Sequence[Callback] = (),
) -> CalibrationResult:
    """Unlearn ``forget`` from a copy of ``model``, steered by val; no ideal model is needed.

    Args:
        model: maps a batch of inputs to logits; it is left untouched.
        forget, retain, val: datasets; val should be unseen, and is evaluated, never trained on.
        procedure: how to unlearn, for 30 epochs at most by default. The batch size is an upper
            limit; see :func:`~expunge.request.calibrate._rules.cap_batch_size`. A method that aims
            at unseen data by itself (``match-unseen``) runs as it is, for at least ``MIN_STEPS``
            steps. For others a controller changes ``lr`` and the weights of the linear
            aggregation; another aggregation is left as it is.
        floor: points of accuracy on val that may be lost.
        level: of the target's interval and of the comparison with val.
        rules: all numbers of the :class:`Rules`, instead of ``floor``.
        checkpoint, callbacks, device, augment: see :func:`expunge.unlearn`.
    """
    procedure = procedure or Procedure(epochs=30)
    rules = rules or Rules(floor=floor, depth=max(Rules.depth, floor))

    # The target, and how far the initial model is from it.
    initial = copy.deepcopy(model).to(pick_device(device, model)).eval()
    forget_labels = labels_of(forget)
    val_predictions = predict(initial, val)
    target = estimate_target(val_predictions, forget_labels, labels_of(retain), level=level)
    before = compare(predict(initial, forget), val_predictions, target, level=level, seed=seed)

    # Unlearn, with a controller that compares forget and val after every epoch.
    def compare_model(net: nn.Module) -> Comparison | None:
        try:
            predictions = predict(net, forget), predict(net, val)
        except InvalidInput:  # not finite: the same data passed with the initial model
            return None
        return compare(*predictions, target, level=level, seed=seed)

    batch_size = cap_batch_size(procedure.batch_size, len(forget_labels))
    procedure = replace(procedure, batch_size=batch_size)
    controller: Controller | BestEpoch
    if _has_own_targets(procedure):
        steps = math.ceil(len(forget_labels) / batch_size)
        procedure = replace(procedure, epochs=max(procedure.epochs, math.ceil(MIN_STEPS / steps)))
        controller = BestEpoch(compare_model, before, target, rules.floor, procedure.epochs)
    else:
        controller = Controller(compare_model, before, target, rules, procedure.epochs)
    result = unlearn(
        model,
        forget=forget,
        retain=retain,
        unseen=val,
        augment=augment,
        seed=seed,
        device=device,
        checkpoint=checkpoint,
        callbacks=[controller, *callbacks],
        progress=progress,
        **procedure.arguments(),
    )

    # The best model above the utility floor, compared once more as it will be used.
    state, best_weights = controller.state, controller.best_weights
    chosen, after = copy.deepcopy(model).eval(), before
    if best_weights is not None:
        chosen = result.model
        chosen.load_state_dict(best_weights)
        predictions = predict(chosen, forget), predict(chosen, val)
        after = compare(*predictions, target, level=level, seed=seed)
    status: Status = "achieved" if state.best_achieved else "not achieved"
    warnings = tuple(state.warnings)
    if before.indistinguishable:
        warnings = (_no_memory_shown(len(forget_labels)), *warnings)
    return CalibrationResult(
        model=chosen,
        history=result.history,
        epochs=state.rows,
        stopped=Stop(
            epoch=state.best_epoch,
            reason=_stop_reason(controller),
            status=status,
            share=state.best_share,
        ),
        target=target,
        before=before,
        after=after,
        warnings=warnings,
    )


def _has_own_targets(procedure: Procedure) -> bool:
    """Whether the method aims at unseen data by itself, so that there is nothing to steer."""
    return bool(getattr(procedure.method, "needs_unseen", False))


def _no_memory_shown(forget_size: int) -> str:
    return (
        f"With {forget_size} forgotten examples the initial model's memory of them does not show: "
        "they were indistinguishable from unseen data before. At least one epoch was run all the "
        "same."
    )


def _stop_reason(controller: Controller | BestEpoch) -> str:
    state = controller.state
    fraction = f" ({100 * state.best_share:.0f} % of the way)"
    fraction = fraction if state.best_share < 1.0 else ""
    if state.best_achieved:
        return (
            f"Epoch {state.best_epoch}{fraction}: forgotten and unseen data are indistinguishable."
        )
    why = state.ended or f"The {controller.max_epochs} epochs were not enough."
    if controller.best_weights is None:
        return f"{why} No epoch was better than the initial model, which is kept."
    return f"{why} Epoch {state.best_epoch}{fraction} came closest above the utility floor."
