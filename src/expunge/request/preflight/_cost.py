"""What a request and retraining would cost, from timed steps, and which one to prefer."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor, nn

from expunge._durations import format_duration
from expunge._errors import InvalidInput
from expunge.data.text import TextExamples
from expunge.engine import Procedure, StepTimes, measure_step_times
from expunge.evidence import Advice, Cost
from expunge.methods import Method, next_token_loss
from expunge.request._forgetting import BENIGN_EXAMPLES, fit_to_size, known_recipe
from expunge.request._job import Job
from expunge.request.subject._load import Subject

OVERHEAD = 1.15
"""Factor for batches, checkpoints and the like, which step times leave out."""
FIXED_SECONDS = 3.0
"""What a request of any size takes besides passes of the model: libraries, attacks, the page."""
CHEAP, DEAR = 0.4, 0.6
"""Below the first part of the cost of retraining a request pays, above the second it does not; in
between either is right, so that the advice does not depend on how busy the machine is."""
JUDGING_PASSES = 3
"""Over all data: of the given model, the new one, and the new one after benign steps."""
TIMED_EXAMPLES = 64
"""Examples in a timed step."""
HOW_TO_KNOW = (
    "say for how many epochs the model was trained (`--training-epochs`, or `training_epochs` in "
    "the job)"
)


def estimate_cost(subject: Subject, forget: int, retain: int, job: Job) -> Cost:
    """Estimate the cost of a request from steps timed on this machine."""
    inputs = subject.train.inputs[:TIMED_EXAMPLES]
    if isinstance(subject.train, TextExamples):
        wanted = subject.train.targets[:TIMED_EXAMPLES]
        size = len(inputs)
        speed = measure_step_times(subject.model, inputs, wanted, size, loss=next_token_loss)
    else:
        speed = _measure_speed(subject.model, inputs, subject.train.labels[:TIMED_EXAMPLES])

    # The request: its steps, the benign ones, and passes over all data.
    recipe = known_recipe(subject.card, job)
    procedure = job.procedure_by(recipe)
    if not job.trains_again:
        procedure = fit_to_size(procedure, forget, subject.model, job.max_epochs)
    epoch = _epoch_seconds(speed, forget, retain, len(subject.val), procedure)
    unlearning = epoch * procedure.epochs
    examples = len(subject.train) + len(subject.val) + len(subject.test)
    judging = JUDGING_PASSES * examples * speed.inference + BENIGN_EXAMPLES * speed.training
    request = unlearning + OVERHEAD * judging + FIXED_SECONDS

    # Retraining, as far as its epochs are known.
    epochs, source = _training_epochs(subject, job)
    retraining_epoch = OVERHEAD * retain * speed.training
    retraining = None if epochs is None else epochs * retraining_epoch
    processor = None
    if epochs is not None and not math.isnan(speed.training_processor):
        processor = OVERHEAD * epochs * retain * speed.training_processor
    advice, sentence = advise(request, retraining, retraining_epoch, exact=job.exact)
    return Cost(
        training_step=_rounded(speed.training),
        epoch_seconds=_rounded(epoch),
        unlearning_seconds=_rounded(unlearning),
        request_seconds=_rounded(request),
        retraining_epoch_seconds=_rounded(retraining_epoch),
        retraining_seconds=None if retraining is None else _rounded(retraining),
        retraining_processor_seconds=None if processor is None else _rounded(processor),
        retraining_epochs=epochs,
        advice=advice,
        sentence=sentence,
        note=f"{source} The request: {procedure.epochs} epochs, preflight, checks and page. From "
        f"steps of {len(inputs)} examples timed on this machine, plus {OVERHEAD - 1:.0%} for "
        "everything else.",
    )


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.4g}")


def _training_epochs(subject: Subject, job: Job) -> tuple[int | None, str]:
    """The epochs of the model's training, if they are known, and who says so, in a sentence."""
    if job.training_epochs is not None:
        epochs = job.training_epochs
        return epochs, f"Retraining for {epochs} epochs, as stated."
    recipe = known_recipe(subject.card, job)
    if recipe is not None:
        return recipe.epochs, f"Retraining for {recipe.epochs} epochs, as for the model itself."
    return None, f"What retraining would cost is unknown: {HOW_TO_KNOW}."


def advise(
    request: float,
    retraining: float | None,
    retraining_epoch: float = 0.0,
    *,
    exact: bool = False,
) -> tuple[Advice, str]:
    """What to prefer, from the seconds of a request, of retraining and of one of its epochs.

    >>> [advise(cost, 100.0)[0] for cost in (20.0, 50.0, 80.0)]
    ['unlearn', 'either', 'exact']
    """
    takes = format_duration(request)
    if exact:
        return "exact", f"Train again: about {takes}."
    if retraining is None:
        worth = f", as long as {request / retraining_epoch:.1f} epochs of it"
        return "unlearn", (
            f"Unlearn: about {takes}{worth if retraining_epoch > 0 else ''}. What retraining would "
            "take is unknown."
        )
    times = f"about {takes} against {format_duration(retraining)} for retraining"
    if request <= CHEAP * retraining:
        return "unlearn", f"Unlearn: {times}."
    if request >= DEAR * retraining:
        return "exact", f"Train again (`--exact`), which leaves no doubt: unlearning takes {times}."
    return "either", f"Either: unlearning takes {times}, which leaves no doubt (`--exact`)."


def _epoch_seconds(
    speed: StepTimes, forget: int, retain: int, val: int, procedure: Procedure
) -> float:
    """Seconds per epoch: a pass over one split, as much of the other, and the checks."""
    method, size = procedure.method, procedure.batch_size
    assert isinstance(method, Method)
    walked, other = (retain, forget) if method.epoch_over == "retain" else (forget, retain)
    paired = math.ceil(walked / size) * min(size, other) if method.constrained else 0
    seconds = (walked + paired) * speed.training + (val + forget) * speed.inference
    return OVERHEAD * seconds


def _measure_speed(model: nn.Module, inputs: Tensor, labels: Tensor) -> StepTimes:
    try:
        return measure_step_times(model, inputs, labels, TIMED_EXAMPLES)
    except InvalidInput:  # a model that needs the plain memory layout: rows do not have one
        shape: Sequence[int] = inputs.shape[1:]
        unflattened = nn.Sequential(nn.Unflatten(1, tuple(shape)), model)
        return measure_step_times(unflattened, inputs.flatten(1), labels, TIMED_EXAMPLES)
