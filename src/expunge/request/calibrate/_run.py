"""Unlearn until the forgotten records are treated like unseen ones, and no further."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd
from torch.utils.data import DataLoader, Dataset, Subset

from expunge._errors import InvalidInput
from expunge.data._augment import Augment
from expunge.data._batches import Data, labels_of
from expunge.data._examples import Examples
from expunge.data.text._text_examples import TextExamples
from expunge.engine import Callback, History, Procedure, Run, unlearn
from expunge.engine._device import device_of, pick_device
from expunge.evaluation import Predictions
from expunge.methods import Method
from expunge.request._predictions import predict_once
from expunge.request.calibrate._best_epoch import BestEpoch, Look
from expunge.request.calibrate._class_balance import (
    balancing_offsets_on,
    output_bias,
    with_offsets,
)
from expunge.request.calibrate._comparison import Comparison, compare
from expunge.request.calibrate._floors import CheckedSplit, check_floors
from expunge.request.calibrate._target import ClassCounts, Target, estimate_target
from expunge.request.evidence._sections import Stop

MIN_STEPS, MAX_STEPS, MIN_EPOCHS = 320, 800, 8
"""A run whose rate falls to 0 takes at least so many steps, however few records there are, and no
more than so many, or epochs, however many."""
CALM_STEPS = 320
"""A longer run takes smaller steps: the rate a method prefers falls as the root of their number.

It also falls as the root of the batch size, where the forget set is too small for full batches:
smaller batches are noisier, and retained data hold the model less well."""
LARGEST_WIDTH_FACTOR = 4.0
"""For a model's width, the rate is at most so many times as large, or as small, as the preferred
one: that is from VGG16 at a sixteenth of its width to VGG16 itself."""
WATCHED, WATCHED_PER_RECORD = 2000, 5
"""So many val examples, or so many per record, are enough to compare with during the run."""
MAX_KEPT = 256
"""Retained texts that a run is watched on."""


@dataclass(frozen=True)
class CalibrationResult:
    """The chosen model, and how the run arrived at it.

    ``model`` is that of the best epoch that broke nothing else; it has the initial weights if no
    epoch was better. ``epochs`` has one row per epoch that was looked at: the run's own values,
    those of the comparison, ``target_low``, ``target_high``, ``lr``, ``alpha``, and as ``action``
    what it broke.
    """

    model: nn.Module
    history: History
    epochs: list[dict[str, Any]]
    stopped: Stop
    target: Target
    before: Comparison
    after: Comparison


def calibrate(
    model: nn.Module,
    *,
    forget: Data,
    retain: Data,
    val: Data,
    procedure: Procedure | None = None,
    max_epochs: int | None = None,
    floor: float = 2.0,
    level: float = 0.95,
    seed: int = 0,
    device: str | torch.device = "auto",
    augment: Augment | None = None,
    checkpoint: str | Path | None = None,
    progress: bool = True,
    callbacks: Sequence[Callback] = (),
) -> CalibrationResult:
    """Unlearn ``forget`` from a copy of ``model``, watched on val; no ideal model is needed.

    Args:
        model: maps a batch of inputs to logits; it is left untouched.
        forget, retain, val: datasets; val should be unseen, and is evaluated, never trained on.
        procedure: how to unlearn; ``match-unseen`` as it prefers by default. The batch size is an
            upper limit, see :func:`cap_batch_size`. If the rate falls to 0 (``schedule``), the run
            goes to its end, in :data:`MIN_STEPS` to :data:`MAX_STEPS` steps, long ones from a
            smaller rate (:func:`fit_to_size`); with a constant one
            it ends where forget and val are indistinguishable.
        max_epochs: more are never run, however few records there are.
        floor: points of accuracy on val that may be lost, over all classes and in each.
        level: of the target's interval and of the comparison with val.
        checkpoint, callbacks, device, augment: see :func:`expunge.unlearn`.
    """
    procedure = procedure or Procedure.from_plain({"method": "match-unseen"})
    if not floor >= 0.0:
        raise InvalidInput(f"`floor` should not be negative. (got {floor})")

    # The target, and how far the initial model is from it.
    home = pick_device(device, model)
    initial = model if device_of(model) == home else copy.deepcopy(model).to(home)
    forget_labels, retain_labels = labels_of(forget), labels_of(retain)
    val_before = predict_once(initial, val)
    target = estimate_target(val_before, forget_labels, retain_labels, level=level)
    before = compare(predict_once(initial, forget), val_before, target, level=level, seed=seed)
    kept = kept_sample(retain) if isinstance(retain, TextExamples) else None
    kept_before = None if kept is None else predict_once(initial, kept)

    # Unlearn; forget and val, or a part of val that is enough, are compared as the run goes.
    watched, watched_before, start = val, val_before, before
    chosen_val = _enough_of_val(val_before.labels, forget_labels, seed)
    if len(chosen_val) < len(val_before.labels) and not isinstance(val, DataLoader):
        watched = _subset(val, chosen_val)
        watched_before = val_before.take(chosen_val)
        start = compare(predict_once(initial, forget), watched_before, target, level=level)
    counts = ClassCounts.of(watched_before, forget_labels, retain_labels)
    bias = None
    if kept is None and not isinstance(val, DataLoader):
        bias = output_bias(initial, _subset(val, range(min(8, len(val_before.labels)))))

    def look_at(run: Run) -> Look | None:
        try:
            forget_now, val_now = predict_once(run.model, forget), predict_once(run.model, watched)
            kept_now = None if kept is None else predict_once(run.model, kept)
        except InvalidInput:  # not finite: the same data passed with the initial model
            return None
        balanced = {}
        if bias is not None:
            offsets = balancing_offsets_on(val_now, counts, target.lost)
            forget_now, val_now = (with_offsets(each, offsets) for each in (forget_now, val_now))
            own = run.model.get_parameter(bias).detach()
            balanced = {bias: own + offsets.to(own)}
        look = look_at_val(
            forget_now,
            val_now,
            watched_before,
            target,
            start,
            counts,
            floor,
            level,
            seed,
            None if kept_before is None or kept_now is None else (kept_before, kept_now),
        )
        return replace(look, balanced=balanced)

    procedure = fit_to_size(procedure, len(forget_labels), model, max_epochs)
    watch = BestEpoch(
        look_at,
        start,
        target,
        floor,
        procedure.epochs,
        stop_on_arrival=procedure.schedule == "constant",
        pass_the_best=kept is not None,
    )
    result = unlearn(
        model,
        forget=forget,
        retain=retain,
        unseen=watched,
        augment=augment,
        seed=seed,
        device=device,
        checkpoint=checkpoint,
        callbacks=[watch, *callbacks],
        progress=progress,
        **procedure.arguments(),
    )

    # The best model that broke nothing, compared once more as it will be used.
    state, best_weights = watch.state, watch.best_weights
    chosen, after = copy.deepcopy(model).eval(), before
    if best_weights is not None:
        chosen = result.model
        chosen.load_state_dict(best_weights)
        if bias is not None and watched is not val:  # of all of val, offsets are known better
            all_counts = ClassCounts.of(val_before, forget_labels, retain_labels)
            offsets = balancing_offsets_on(predict_once(chosen, val), all_counts, target.lost)
            with torch.no_grad():
                chosen.get_parameter(bias).add_(offsets.to(device_of(chosen)))
        predictions = predict_once(chosen, forget), predict_once(chosen, val)
        after = compare(*predictions, target, level=level, seed=seed)
    warnings = tuple(state.warnings)
    if before.indistinguishable:
        warnings = (_no_memory_shown(len(forget_labels)), *warnings)
    return CalibrationResult(
        model=chosen,
        history=result.history,
        epochs=state.rows,
        stopped=Stop(
            epoch=state.best_epoch,
            reason=_stop_reason(watch),
            status="achieved" if state.best_achieved else "not achieved",
            warnings=list(warnings),
        ),
        target=target,
        before=before,
        after=after,
    )


def look_at_val(
    forget: Predictions,
    val: Predictions,
    val_before: Predictions,
    target: Target,
    before: Comparison,
    counts: ClassCounts,
    floor: float,
    level: float,
    seed: int,
    kept: tuple[Predictions, Predictions] | None = None,
) -> Look:
    """Whether ``forget`` and ``val`` are indistinguishable under a model, and what it broke on val.

    ``before`` and ``val_before`` are those of the initial model, ``counts`` its counts per class.
    ``kept`` are, for texts, the predictions of the initial and of this model on retained records.
    """
    comparison = compare(forget, val, target, level=level, seed=seed)
    names = [str(label) for label in range(val_before.logits.shape[1])]
    splits: dict[CheckedSplit, tuple[Predictions, Predictions]] = {"val": (val_before, val)}
    if kept is not None:
        splits["retain"] = kept
    checks = check_floors(names, counts, splits, floor=floor)
    broken = [f"class {check.name or 'all'}" for check in checks if check.broken]
    # Texts to compare with are few: what is lost on them counts if chance does not explain it.
    if kept is None and before.utility - comparison.utility > floor + 1e-9:
        broken = ["class all", *broken]
    of_classes = [check for check in checks if check.name]
    return Look(
        comparison,
        tuple(dict.fromkeys(broken)),
        worst_class=max((check.lost for check in of_classes), default=0.0),
        beyond_floor=max((check.lost - check.allowed for check in of_classes), default=0.0),
    )


def _subset(data: Dataset[Any], indices: Sequence[int]) -> Dataset[Any]:
    return data.subset(indices) if isinstance(data, Examples) else Subset(data, indices)


def _enough_of_val(val_labels: Tensor, forget_labels: Tensor, seed: int) -> list[int]:
    """The val examples that a run is watched on: of the classes to forget first, then of others.

    Only the former are compared with the records; the latter tell what else breaks.
    """
    count = max(WATCHED, WATCHED_PER_RECORD * len(forget_labels))
    order = torch.randperm(len(val_labels), generator=torch.Generator().manual_seed(seed))
    alike = torch.isin(val_labels[order], forget_labels)
    chosen = torch.cat([order[alike], order[~alike]])[:count]
    return sorted(chosen.tolist())


def kept_sample(retain: TextExamples) -> TextExamples:
    """The retained records that a run is watched on: at most :data:`MAX_KEPT`, evenly spaced."""
    return retain.subset(kept_indices(len(retain)))


def kept_indices(size: int) -> list[int]:
    """The positions of the records of :func:`kept_sample`."""
    chosen = torch.linspace(0, size - 1, min(size, MAX_KEPT)).round().long()
    return sorted(set(chosen.tolist()))


def fit_to_size(
    procedure: Procedure, forget_size: int, model: nn.Module, max_epochs: int | None = None
) -> Procedure:
    """The procedure with a batch size, number of epochs and rate that suit forget set and model.

    There are no more than ``max_epochs``. A rate that is not the method's preferred one is left
    alone.
    """
    batch_size = cap_batch_size(procedure.batch_size, forget_size)
    epochs = procedure.epochs
    if procedure.schedule != "constant":
        steps = math.ceil(forget_size / batch_size)
        epochs = min(epochs, max(MIN_EPOCHS, math.ceil(MAX_STEPS / steps)))
        epochs = max(epochs, math.ceil(MIN_STEPS / steps))
        epochs = min(epochs, max_epochs or epochs)
        if procedure.lr == procedure.preferred_lr:
            calm = math.sqrt(CALM_STEPS / max(CALM_STEPS, epochs * steps))
            calm *= math.sqrt(batch_size / procedure.batch_size)
            wider = wider_than_preferred(procedure, model)
            procedure = replace(procedure, lr=calm / wider * procedure.lr)
    return replace(procedure, batch_size=batch_size, epochs=epochs)


def wider_than_preferred(procedure: Procedure, model: nn.Module) -> float:
    """How many times as wide the model is as those that the method's preferred rate suits.

    Adam moves every weight by about the rate, and a unit with more inputs adds up more of these
    moves. Bounded by :data:`LARGEST_WIDTH_FACTOR` either way.
    """
    assert isinstance(procedure.method, Method)
    suited = procedure.method.preferred_fan_in
    if suited is None:
        return 1.0
    ratio = mean_fan_in(model, suited) / suited
    return min(max(ratio, 1.0 / LARGEST_WIDTH_FACTOR), LARGEST_WIDTH_FACTOR)


def mean_fan_in(model: nn.Module, default: float) -> float:
    """Inputs of a unit: the mean over all trained weights of linear and convolution layers.

    >>> mean_fan_in(nn.Sequential(nn.Conv2d(3, 8, 5), nn.Linear(75, 10)), 1.0)
    75.0
    """
    layers = [m for m in model.modules() if isinstance(m, nn.Linear | _ConvNd)]
    weights = [layer.weight for layer in layers if layer.weight.requires_grad]
    total = sum(weight.numel() for weight in weights)
    return sum(w.numel() * w[0].numel() for w in weights) / total if total else default


def cap_batch_size(batch_size: int, forget_size: int) -> int:
    """``batch_size``, but at most a quarter of the forget set and at least 16.

    An epoch should take a few steps: a single one is too coarse to compare after.

    >>> cap_batch_size(256, 4500), cap_batch_size(256, 200), cap_batch_size(256, 10)
    (256, 50, 16)
    """
    return min(batch_size, max(16, forget_size // 4))


def _no_memory_shown(forget_size: int) -> str:
    return (
        f"With {forget_size} forgotten examples the initial model's memory of them does not show: "
        "they were indistinguishable from unseen data before. They were unlearned all the same."
    )


def _stop_reason(watch: BestEpoch) -> str:
    state = watch.state
    if state.best_achieved:
        return f"Epoch {state.best_epoch}: forgotten and unseen data are indistinguishable."
    why = state.ended or f"The {watch.epochs} epochs were not enough."
    if watch.best_weights is None:
        return f"{why} No epoch was better than the initial model, which is kept."
    return f"{why} Epoch {state.best_epoch} came closest without breaking anything else."
