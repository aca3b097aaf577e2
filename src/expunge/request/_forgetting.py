"""Forget records: train again without them, wholly or from refreshed weights, or unlearn them.

Methods that never read the records (``refresh``, ``retrain``) are run as they are. All others need
to be told when to stop: they are watched on val, and the best epoch is kept.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from expunge._errors import Diverged, InvalidInput
from expunge._specs import join_part, split_part
from expunge.data import Augment, Examples
from expunge.data.text import TextExamples
from expunge.engine import (
    Callback,
    Card,
    Execution,
    PredictionCache,
    Procedure,
    Recipe,
    Run,
    unlearn,
)
from expunge.evaluation import (
    BENIGN_BATCH,
    BENIGN_STEPS,
    Estimate,
    accuracy,
    delong_interval,
    loss,
    loss_auc,
    match_class_mix,
    mean_fan_in,
)
from expunge.evidence import Stop
from expunge.methods import Loss, Method, Refresh, next_token_loss
from expunge.models import has_adapters
from expunge.request._job import Job
from expunge.request._predictions import evenly_spaced, predict_records
from expunge.request.loading._load import ModelAndData

MIN_STEPS, MAX_STEPS, MIN_EPOCHS = 320, 800, 8
"""A run whose rate falls to 0 takes at least ``MIN_STEPS`` steps, and at most the larger of
``MAX_STEPS`` steps and ``MIN_EPOCHS`` epochs."""
CALM_STEPS = 320
"""A longer run takes smaller steps: the rate a method prefers falls as the root of their number.

It also falls as the root of the batch size, where the forget set is too small for full batches:
smaller batches are noisier."""
LARGEST_WIDTH_FACTOR = 4.0
"""The most by which a preferred rate is scaled for the width of a model, up or down: from VGG16 at
a sixteenth of its width to VGG16 itself."""
ADAPTER_RATE = 10.0
"""Adapters need so many times the rate that suits all weights: see docs/how-to/lora.md."""
MAX_VAL_DROP = 2.0
"""Points of val accuracy that an epoch of a watched method may lose."""
BENIGN_EXAMPLES = BENIGN_STEPS * BENIGN_BATCH
MAX_KEPT = 256
"""Retained texts that a run is watched on, at most."""
WATCHED = ("best_epoch", "best_distance", "warnings", "ended")
"""What a checkpoint keeps of a watched run besides the best weights."""
REMEMBERED = 0.55
"""After ``refresh``, an AUC of the loss attack against val that is larger, by its 95 % bound, means
that too much of the trained weights was kept: a second run leaves half of it."""


@dataclass(frozen=True)
class ForgettingResult:
    """The model, and how the run arrived at it.

    ``model`` has the initial weights if no epoch was better than the initial model. ``epochs`` has
    a row per epoch.
    """

    model: nn.Module
    epochs: list[dict[str, Any]]
    stopped: Stop


def forget_records(
    job: Job,
    loaded: ModelAndData,
    forget: Examples,
    retain: Examples,
    **run: Any,
) -> ForgettingResult:
    """Forget ``forget`` in a copy of the model as the job says, and keep ``retain``.

    A method that reads the records is watched on val, which is never trained on. ``run`` are fields
    of :class:`expunge.Execution`, such as ``checkpoint``.
    """
    recipe = known_recipe(loaded.card, job)
    if job.exact and recipe is None:
        raise InvalidInput(
            "To train again, it should be known how the model was trained: give `[recipe]` in the "
            "job file, or weights that expunge trained."
        )
    procedure = job.procedure_by(recipe)
    method, model = procedure.method, loaded.model
    assert isinstance(method, Method)
    watch = None
    if method.reads_forget:
        procedure = fit_to_size(procedure, len(forget), model, job.max_epochs)
        floor = MAX_VAL_DROP if job.margin_test is None else job.margin_test
        watch = BestEpoch(loaded, forget, retain, floor, procedure)
        run["callbacks"] = [watch, *run.get("callbacks", ())]
    result = unlearn(
        model,
        forget=forget,
        retain=retain,
        unseen=None if watch is None else loaded.val,
        method=procedure,
        optimizer=recipe if watch is None else None,
        loss=loss_of(retain),
        augment=augmentation(job, loaded, procedure),
        execution=Execution.from_plain(vars(job), seed=job.seed, device=job.device, **run),
    )
    rows = [dict(row) for row in result.history.epochs]
    if watch is None:
        last = Stop(epoch=len(rows), reason=f"Trained for {len(rows)} epochs on retained data.")
        done = ForgettingResult(result.model, rows, last)
        if not isinstance(method, Refresh) or (method.keep or method.left) is not None:
            return done
        known = _loss_attack_on_val(result.model, forget, loaded)
        if known is None or known.low <= REMEMBERED:
            return done
        name, options = split_part(job.method)
        less = {"method": join_part(name, options | {"left": method.left_in(model) / 2})}
        if run.get("checkpoint"):
            run["checkpoint"] = f"{run['checkpoint']}.deeper"
        deeper = forget_records(job.model_copy(update=less), loaded, forget, retain, **run)
        why = (
            f"The loss attack against val still had an AUC of {known.value:.2f}, so less of the "
            f"trained weights was kept in a second run, for the same cost again."
        )
        return replace(
            deeper, stopped=Stop(epoch=len(deeper.epochs), reason=f"{why} {last.reason}")
        )
    chosen = result.model if watch.best_weights else copy.deepcopy(model).eval()
    if watch.best_weights is not None:
        chosen.load_state_dict(watch.best_weights)
    stopped = Stop(epoch=watch.best_epoch, reason=watch.reason, warnings=watch.warnings)
    return ForgettingResult(chosen, rows, stopped)


def _loss_attack_on_val(
    model: nn.Module, forget: Examples, loaded: ModelAndData
) -> Estimate | None:
    """The AUC of the loss attack against val of the same classes; None if val has none of them."""
    chosen = match_class_mix(loaded.val.labels, forget.labels, seed=0, most=math.inf)
    if not chosen:
        return None
    records, unseen = (predict_records(model, part, loaded.cache) for part in (forget, loaded.val))
    return delong_interval(-loss(records), -loss(unseen.take(chosen)))


def known_recipe(card: Card | None, job: Job) -> Recipe | None:
    """How the model was trained, by the card of its weights; what the job says comes first."""
    known = (card.recipe if card is not None else {}) | (job.recipe or {})
    return Recipe(**known) if known else None


def loss_of(data: Examples) -> Loss:
    """Cross-entropy, of the next token for texts."""
    return next_token_loss if isinstance(data, TextExamples) else F.cross_entropy


def augmentation(job: Job, loaded: ModelAndData, procedure: Procedure) -> Augment | None:
    """Crops and mirror images as in training; for other methods small ones.

    A model that knows its training images by heart has no loss on them, so their gradients do not
    keep it where it is. It has a loss on images that are moved by a pixel or two.
    """
    shape = tuple(loaded.train[0][0].shape)
    trained_here = job.trains_again and loaded.card is not None
    if job.augment or (trained_here and len(shape) == 3 and min(shape[1:]) >= 28):
        return Augment(padding=4, flip=loaded.flip)
    if procedure.augment_splits != "retain" or len(shape) != 3 or not min(shape[1:]) // 16:
        return None
    return Augment(padding=min(shape[1:]) // 16, flip=loaded.flip)


class BestEpoch(Callback):
    """Keeps the epoch at which the records look most like val, of those that lost little there.

    The distance is the larger of |2 AUC - 1| of the loss attack and the difference of accuracies,
    between records and val of the same class mix; epoch 0 counts. A rate that falls to 0 is run to
    its end. With a constant one, the run ends at the first epoch that is no better than an earlier
    one at which the model was right on the records no more often than on val.
    """

    def __init__(
        self,
        loaded: ModelAndData,
        forget: Examples,
        retain: Examples,
        floor: float,
        procedure: Procedure,
    ) -> None:
        self.forget, self.val = forget, loaded.val
        chosen = match_class_mix(self.val.labels, forget.labels, seed=0, most=math.inf)
        self.alike = chosen or list(range(len(self.val)))
        watched = evenly_spaced(len(retain), MAX_KEPT)
        self.kept = [retain.subset(watched)] if isinstance(retain, TextExamples) else []
        self.floor, self.epochs = floor, procedure.epochs
        self.constant = procedure.schedule == "constant"
        # What is known of the run so far, which is part of its checkpoint.
        self.best_distance, _, self.before = self._measure(loaded.model, loaded.cache)
        self.best_epoch, self.ended = 0, ""
        self.warnings: list[str] = []
        self.best_weights: dict[str, Tensor] | None = None

    def on_start(self, run: Run) -> None:
        if self.ended:
            run.stop()

    def on_epoch(self, run: Run) -> None:
        try:
            distance, values, useful = self._measure(run.model, run.predictions)
        except InvalidInput:  # not finite: the same data passed with the initial model
            self._fail(run, "The model's outputs were not finite.")
            return
        run.record(**values, va=useful[0])
        lost = max(old - new for old, new in zip(self.before, useful, strict=True))
        if lost <= self.floor and distance < self.best_distance:
            self.best_epoch, self.best_distance = run.epoch, distance
            self.best_weights = {k: v.detach().clone() for k, v in run.model.state_dict().items()}
        elif self.constant and self.best_epoch and values["ua"] <= values["val_alike"]:
            self.ended = "The model is right on the records no more often than on unseen data."
            run.stop()

    def on_divergence(self, run: Run, error: Diverged) -> bool:
        self._fail(run, "The run diverged.")
        return True

    @property
    def reason(self) -> str:
        """Why the chosen epoch was chosen, in a sentence or two."""
        why = self.ended or f"The run took {self.epochs} epochs."
        if self.best_weights is None:
            return f"{why} No epoch was better than the initial model, which is kept."
        return f"{why} At epoch {self.best_epoch} the records looked most like unseen data."

    def _measure(
        self, model: nn.Module, cache: PredictionCache
    ) -> tuple[float, dict[str, float], list[float]]:
        """The distance, what it is made of, and the accuracies that should not fall.

        These are on val and, of texts, on a sample of what is retained.
        """
        forget, val, *kept = (
            predict_records(model, part, cache) for part in (self.forget, self.val, *self.kept)
        )
        unseen = val.take(self.alike)
        area = loss_auc(forget, unseen)
        rates = accuracy(forget), accuracy(unseen)
        distance = max(abs(2.0 * area - 1.0), abs(rates[0] - rates[1]) / 100.0)
        values = {"ua": rates[0], "val_alike": rates[1], "auc": area}
        return distance, values, [accuracy(part) for part in (val, *kept)]

    def _fail(self, run: Run, why: str) -> None:
        self.ended = why
        self.warnings.append(f"Epoch {run.epoch}: {why}")
        run.stop()

    def state_dict(self) -> dict[str, Any]:
        state = {name: getattr(self, name) for name in WATCHED}
        return {"floor": self.floor, "state": state, "best": self.best_weights}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state["floor"] != self.floor:
            raise InvalidInput(
                "The checkpoint belongs to a run with another floor. Use another path, or delete "
                f"it to start again. (it has {state['floor']}, this run {self.floor})"
            )
        for name in WATCHED:
            setattr(self, name, state["state"][name])
        self.best_weights = state["best"]


def fit_to_size(
    procedure: Procedure, forget_size: int, model: nn.Module, max_epochs: int | None = None
) -> Procedure:
    """The procedure with a batch size, number of epochs and rate that suit forget set and model.

    There are no more than ``max_epochs``. A rate that is not the method's preferred one is left
    alone.
    """
    # An epoch should take a few steps: a single one is too coarse to compare after.
    batch_size = min(procedure.batch_size, max(16, forget_size // 4))
    epochs = procedure.epochs
    if procedure.schedule != "constant":
        steps = math.ceil(forget_size / batch_size)
        wanted = min(epochs, max(MIN_EPOCHS, math.ceil(MAX_STEPS / steps)))
        epochs = max(wanted, math.ceil(MIN_STEPS / steps))
        epochs = min(epochs, max_epochs or epochs)
        if procedure.lr == procedure.method.preferred.get("lr"):  # type: ignore[union-attr]
            calm = math.sqrt(CALM_STEPS / max(CALM_STEPS, epochs * steps))
            calm *= math.sqrt(batch_size / procedure.batch_size)
            calm *= ADAPTER_RATE if has_adapters(model) else 1.0
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
