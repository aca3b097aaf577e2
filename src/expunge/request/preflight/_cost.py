"""What a request and retraining would cost, from timed steps, and which one to prefer."""

from __future__ import annotations

import math
from dataclasses import replace

from expunge._durations import format_duration
from expunge.data.text import TextExamples
from expunge.engine import Execution, Procedure, Recipe, train
from expunge.evidence import Advice, Cost
from expunge.methods import Method
from expunge.request._forgetting import (
    BENIGN_EXAMPLES,
    augmentation,
    fit_to_size,
    known_recipe,
    loss_of,
)
from expunge.request._job import Job
from expunge.request.loading._load import ModelAndData

OVERHEAD = 1.05
"""Factor for checkpoints and the like, which the times of steps leave out."""
FIXED_SECONDS = 3.0
"""What a request of any size takes besides passes of the model: libraries, attacks, the page."""
CHEAP, EXPENSIVE = 0.4, 0.6
"""Below the first part of the cost of retraining a request pays, above the second it does not; in
between either is right, so that the advice does not depend on how busy the machine is."""
JUDGING_PASSES = 3
"""Over all data: of the given model, the new one, and the new one after benign steps."""
ANSWERS_PER_RECORD = 16
"""In each of these passes: 16 are sampled of a text to forget and 32 of unseen ones, in all 48."""
FORWARD = 1 / 3
"""The part of a training step that running the model takes: backward takes twice as long."""
TIMED = ((2, 2), (8, 4))
"""Steps per epoch, and epochs, of a timed training; the second where the first is over soon."""
LONG_ENOUGH = 0.05
"""Seconds that the timed epochs should take."""


def estimate_cost(loaded: ModelAndData, forget: int, retain: int, job: Job) -> Cost:
    """Estimate the cost of a request from steps timed on this machine."""
    # The request: its steps, the benign ones, and passes over all data.
    recipe = known_recipe(loaded.card, job)
    procedure = job.procedure_by(recipe)
    steps = Recipe(batch_size=procedure.batch_size, algorithm="adam")
    training, processor_time = time_training(loaded, job, recipe or steps)
    stepping = training
    if not job.trains_again:
        procedure = fit_to_size(procedure, forget, loaded.model, job.max_epochs)
        stepping, _ = time_training(loaded, job, steps)
    epoch = _epoch_seconds(stepping, forget, retain, len(loaded.val), procedure)
    unlearning = epoch * procedure.epochs
    examples = len(loaded.train) + len(loaded.val) + len(loaded.test)
    if isinstance(loaded.train, TextExamples):
        examples += ANSWERS_PER_RECORD * forget
    judging = JUDGING_PASSES * examples * FORWARD * training + BENIGN_EXAMPLES * training
    request_seconds = unlearning + OVERHEAD * judging + FIXED_SECONDS

    # Retraining, as far as its epochs are known.
    epochs, source = _training_epochs(job, recipe)
    retraining_epoch = OVERHEAD * retain * training
    retraining = None if epochs is None else epochs * retraining_epoch
    processor = None if epochs is None else OVERHEAD * epochs * retain * processor_time
    advice, sentence = advise(request_seconds, retraining, retraining_epoch, exact=job.exact)
    return Cost(
        training_step=_rounded(training),
        epoch_seconds=_rounded(epoch),
        unlearning_seconds=_rounded(unlearning),
        request_seconds=_rounded(request_seconds),
        retraining_epoch_seconds=_rounded(retraining_epoch),
        retraining_seconds=None if retraining is None else _rounded(retraining),
        retraining_processor_seconds=None if processor is None else _rounded(processor),
        retraining_epochs=epochs,
        advice=advice,
        sentence=sentence,
        note=f"{source} The request: {procedure.epochs} epochs, preflight, checks and page. From "
        f"steps of {procedure.batch_size} examples timed on this machine, plus "
        f"{100 * (OVERHEAD - 1):.0f} % for everything else.",
    )


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.4g}")


def _training_epochs(job: Job, recipe: Recipe | None) -> tuple[int | None, str]:
    """The epochs of the model's training, if they are known, and who says so, in a sentence."""
    if (epochs := job.training_epochs) is not None:
        return epochs, f"Retraining for {epochs} epochs, as stated."
    if recipe is not None:
        return recipe.epochs, f"Retraining for {recipe.epochs} epochs, as for the model itself."
    return None, (
        "What retraining would cost is unknown: say for how many epochs the model was trained "
        "(`--training-epochs`, or `training_epochs` in the job)."
    )


def advise(
    request_seconds: float,
    retraining: float | None,
    retraining_epoch: float = 0.0,
    *,
    exact: bool = False,
) -> tuple[Advice, str]:
    """What to prefer, from the seconds of a request, of retraining and of one of its epochs.

    >>> [advise(cost, 100.0)[0] for cost in (20.0, 50.0, 80.0)]
    ['unlearn', 'either', 'exact']
    """
    takes = format_duration(request_seconds)
    if exact:
        return "exact", f"Train again: about {takes}."
    if retraining is None:
        worth = f", as long as {request_seconds / retraining_epoch:.1f} epochs of it"
        return "unlearn", (
            f"Unlearn: about {takes}{worth if retraining_epoch > 0 else ''}. What retraining would "
            "take is unknown."
        )
    times = f"about {takes} against {format_duration(retraining)} for retraining"
    if request_seconds <= CHEAP * retraining:
        return "unlearn", f"Unlearn: {times}."
    if request_seconds >= EXPENSIVE * retraining:
        return "exact", f"Train again (`--exact`), which leaves no doubt: unlearning takes {times}."
    return "either", f"Either: unlearning takes {times}, which leaves no doubt (`--exact`)."


def _epoch_seconds(
    training: float, forget: int, retain: int, val: int, procedure: Procedure
) -> float:
    """Seconds per epoch: a pass over one split, as much of the other, and the checks."""
    method, size = procedure.method, procedure.batch_size
    assert isinstance(method, Method)
    walked, other = (retain, forget) if method.epoch_over == "retain" else (forget, retain)
    paired = math.ceil(walked / size) * min(size, other) if method.constrained else 0
    return OVERHEAD * training * (walked + paired + FORWARD * (val + forget))


def time_training(loaded: ModelAndData, job: Job, recipe: Recipe) -> tuple[float, float]:
    """Wall and processor seconds per example of training by ``recipe``, after a first epoch."""
    size = recipe.batch_size
    for steps, epochs in TIMED:
        count = min(steps * size, len(loaded.train))
        count -= count % size if count > size else 0  # whole batches
        short = replace(recipe, epochs=epochs, plain_epochs=0, lr=1e-9)  # it must not diverge
        result = train(
            loaded.model,
            loaded.train.subset(range(count)),
            recipe=short,
            loss=loss_of(loaded.train),
            augment=augmentation(job, loaded, job.procedure),
            execution=Execution.from_plain(
                vars(job), device=job.device, progress=False, title="timing"
            ),
        )
        first, *_, last = result.history.epochs
        if last["seconds"] - first["seconds"] > LONG_ENOUGH:
            break
    seen = count * (epochs - 1)
    wall, processor = (last[key] - first[key] for key in ("seconds", "processor_seconds"))
    return wall / seen, processor / seen
