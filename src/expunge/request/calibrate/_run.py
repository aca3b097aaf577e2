"""Unlearn until the forgotten records are treated like unseen ones, and no further."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from expunge._errors import InvalidInput
from expunge.data._augment import Augment
from expunge.data._batches import Data, as_arrays
from expunge.engine import Callback, History, unlearn
from expunge.engine._device import pick_device
from expunge.evaluation import predict
from expunge.methods import BatchNormPolicy, Method
from expunge.request.calibrate._comparison import Behaviour, compare
from expunge.request.calibrate._controller import Controller
from expunge.request.calibrate._rules import Rules, fit_batch
from expunge.request.calibrate._target import Target, estimate_target
from expunge.update import Addon, Aggregate, Linear

EpochRow = dict[str, Any]
"""One epoch: the run's row, the behaviour's, target_low, target_high, lr, alpha and action."""


@dataclass(frozen=True)
class Stop:
    """Which epoch's model was taken (0: the model as it was given), why, and the verdict.

    ``share`` below 1 says that the model lies so far on the line from the given weights to those
    of the epoch.
    """

    epoch: int
    reason: str
    status: Literal["achieved", "not achieved"]
    share: float = 1.0

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Calibrated:
    """The model taken, and how it was come by.

    ``model`` is that of the best epoch above the utility floor; the original weights where no
    epoch was better than those. ``warnings`` tells of rollbacks and of over-forgetting.
    """

    model: nn.Module
    history: History
    epochs: list[EpochRow]
    stopped: Stop
    target: Target
    before: Behaviour
    after: Behaviour
    warnings: tuple[str, ...]


def calibrate(
    model: nn.Module,
    *,
    forget: Data,
    retain: Data,
    val: Data,
    method: Method | str = "random-label",
    addon: Addon | str = "focus",
    alpha: float = 0.05,
    aggregate: Aggregate | str | Any | None = None,
    lr: float = 1e-4,
    batch_size: int = 256,
    max_epochs: int = 30,
    floor: float = 2.0,
    level: float = 0.95,
    rules: Rules | None = None,
    seed: int = 0,
    device: str | torch.device = "auto",
    batchnorm: BatchNormPolicy = "published",
    augment: Augment | None = None,
    checkpoint: str | Path | None = None,
    progress: bool = True,
    callbacks: Sequence[Callback] = (),
) -> Calibrated:
    """Unlearn ``forget`` from a copy of ``model``, steered by val; no ideal model is needed.

    Args:
        model: maps a batch of inputs to logits; it is left untouched.
        forget, retain, val: data sets; val should be unseen, and is looked at, never trained on.
        alpha: of the linear aggregation, with β = 1 − α; another ``aggregate`` is left as it is.
        lr: to start with; it is changed on the way.
        batch_size: at most; see :func:`~expunge.request.calibrate._rules.fit_batch`.
        floor: points of accuracy on val that may be lost.
        level: of the target's interval and of the comparison with val.
        rules: all numbers of the :class:`Rules`, in place of ``floor``.
        checkpoint, callbacks, device, batchnorm, augment: see :func:`expunge.unlearn`.
    """
    if max_epochs < 1:
        raise InvalidInput(f"`max_epochs` should be at least 1. (got {max_epochs})")
    rules = rules or Rules(floor=floor, depth=max(Rules.depth, floor))
    where = pick_device(device, model)
    first = copy.deepcopy(model).to(where).eval()
    labels = labels_of(forget)
    seen = predict(first, val)
    target = estimate_target(seen, labels, labels_of(retain), level=level)
    before = compare(predict(first, forget), seen, target, level=level, seed=seed)

    def look(net: nn.Module) -> Behaviour | None:
        try:
            parts = predict(net, forget), predict(net, val)
        except InvalidInput:  # not finite: these data and this model went through before
            return None
        return compare(*parts, target, level=level, seed=seed)

    controller = Controller(look, before, target, rules, max_epochs)
    result = unlearn(
        model,
        forget=forget,
        retain=retain,
        method=method,
        addon=addon,
        aggregate=Linear(alpha, 1.0 - alpha) if aggregate is None else aggregate,
        epochs=max_epochs,
        batch_size=fit_batch(batch_size, len(labels)),
        lr=lr,
        augment=augment,
        batchnorm=batchnorm,
        seed=seed,
        device=device,
        checkpoint=checkpoint,
        callbacks=[controller, *callbacks],
        progress=progress,
    )
    state = controller.state
    taken = result.model
    if controller.best is None:
        taken = copy.deepcopy(model).eval()
    else:
        taken.load_state_dict(controller.best)
    status: Literal["achieved", "not achieved"] = (
        "achieved" if state.best_achieved else "not achieved"
    )
    stop = Stop(state.best_epoch, _reason(controller), status, state.best_share)
    after = before
    if controller.best is not None:
        after = compare(predict(taken, forget), predict(taken, val), target, level=level, seed=seed)
    warnings = tuple(state.warnings)
    if before.indistinguishable:
        warnings = (_unseen(len(labels)), *warnings)
    return Calibrated(taken, result.history, state.rows, stop, target, before, after, warnings)


def _unseen(size: int) -> str:
    return (
        f"With {size} forgotten examples the given model's memory of them does not show: they were "
        "indistinguishable from unseen data before. One epoch at least was taken all the same."
    )


def _reason(controller: Controller) -> str:
    state = controller.state
    share = f" (taken {100 * state.best_share:.0f} % of the way)"
    part = share if state.best_share < 1.0 else ""
    if state.best_achieved:
        return f"Epoch {state.best_epoch}{part}: forgotten and unseen data are indistinguishable."
    why = state.ended or f"The {controller.max_epochs} epochs were not enough."
    if controller.best is None:
        return f"{why} No epoch was better than the model as it was given, which is kept."
    return f"{why} Epoch {state.best_epoch}{part} came nearest above the utility floor."


def labels_of(data: Data) -> Tensor:
    """The label of every example."""
    arrays = None if isinstance(data, torch.utils.data.DataLoader) else as_arrays(data)
    if arrays is not None:
        return arrays[1].cpu()
    own = getattr(data, "labels", None)
    if isinstance(own, Tensor):
        return own.cpu()
    if isinstance(data, torch.utils.data.DataLoader):
        return torch.cat([torch.as_tensor(item[1]).reshape(-1).cpu() for item in data])
    return torch.tensor([int(data[k][1]) for k in range(len(data))])  # type: ignore[arg-type]
