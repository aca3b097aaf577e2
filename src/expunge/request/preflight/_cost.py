"""What a request and retraining would cost, from timed steps, and which one to prefer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from torch import Tensor, nn

from expunge._durations import format_duration
from expunge._errors import InvalidInput
from expunge.data.text._text_examples import TextExamples
from expunge.engine import Procedure
from expunge.engine._step_times import StepTimes, measure_step_times
from expunge.methods import Method, next_token_loss
from expunge.request._job import Job
from expunge.request.calibrate._run import fit_to_size
from expunge.request.subject._load import Subject

OVERHEAD = 1.15
"""Factor for batches, checkpoints and the like, which step times leave out."""
FIXED_SECONDS = 3.0
"""What a request of any size takes besides passes of the model: libraries, attacks, the page."""
MAX_SHARE = 0.30
"""A larger share of the training data is better forgotten by retraining."""
MAX_COST_RATIO = 0.5
"""Retraining is also better if the request takes more than this part of its time."""
TIMED_EXAMPLES = 64
"""Examples in a timed step."""
HOW_TO_KNOW = (
    "say for how many epochs the model was trained (`--training-epochs`, or `training_epochs` in "
    "the job)"
)


@dataclass(frozen=True)
class Cost:
    """Estimated seconds, the advice that follows from them, and what they assume.

    What retraining costs is None where nothing says for how many epochs the model was trained.
    """

    training_step: float
    """Seconds per example in a training step."""
    epoch_seconds: float
    unlearning_seconds: float
    """For all epochs allowed; a run that stops earlier takes less."""
    request_seconds: float
    """The same with everything around it: preflight, audit, page."""
    retraining_epoch_seconds: float
    """One epoch of retraining."""
    retraining_seconds: float | None
    retraining_processor_seconds: float | None
    retraining_epochs: int | None
    advice: Literal["unlearn", "retrain"]
    sentence: str
    note: str

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        rounded = {k: float(f"{v:.4g}") for k, v in asdict(self).items() if isinstance(v, float)}
        return asdict(self) | rounded


def estimate_cost(subject: Subject, forget: int, retain: int, job: Job) -> Cost:
    """Estimate the cost of a request from steps timed on this machine."""
    inputs = subject.train.inputs[:TIMED_EXAMPLES]
    if isinstance(subject.train, TextExamples):
        wanted = subject.train.targets[:TIMED_EXAMPLES]
        size = len(inputs)
        speed = measure_step_times(subject.model, inputs, wanted, size, loss=next_token_loss)
    else:
        speed = _measure_speed(subject.model, inputs, subject.train.labels[:TIMED_EXAMPLES])

    # The request: all epochs allowed, and the given and the new model over all data.
    procedure = fit_to_size(job.procedure, forget, subject.model, job.max_epochs)
    epoch = _epoch_seconds(speed, forget, retain, len(subject.val), procedure)
    unlearning = epoch * procedure.epochs
    examples = len(subject.train) + len(subject.val) + len(subject.test)
    request = unlearning + OVERHEAD * 2 * examples * speed.inference + FIXED_SECONDS

    # Retraining, as far as its epochs are known.
    epochs, source = _training_epochs(subject, job)
    retraining_epoch = OVERHEAD * retain * speed.training
    retraining = None if epochs is None else epochs * retraining_epoch
    processor = None
    if epochs is not None and not math.isnan(speed.training_processor):
        processor = OVERHEAD * epochs * retain * speed.training_processor
    share = forget / len(subject.train)
    advice, sentence = advise(share, request, retraining, retraining_epoch)
    return Cost(
        training_step=speed.training,
        epoch_seconds=epoch,
        unlearning_seconds=unlearning,
        request_seconds=request,
        retraining_epoch_seconds=retraining_epoch,
        retraining_seconds=retraining,
        retraining_processor_seconds=processor,
        retraining_epochs=epochs,
        advice=advice,
        sentence=sentence,
        note=f"{source} The request: all {procedure.epochs} epochs allowed with checks after each, "
        f"preflight, audit and page. From steps of {len(inputs)} examples timed on this machine, "
        f"plus {OVERHEAD - 1:.0%} for everything else.",
    )


def _training_epochs(subject: Subject, job: Job) -> tuple[int | None, str]:
    """The epochs of the model's training, if they are known, and who says so, in a sentence."""
    if job.training_epochs is not None:
        epochs = job.training_epochs
        return epochs, f"Retraining for {epochs} epochs, as stated."
    recipe = {} if subject.card is None else subject.card.recipe
    if "epochs" in recipe:
        epochs = int(recipe["epochs"])
        return epochs, f"Retraining for {epochs} epochs, as for the model itself."
    return None, f"What retraining would cost is unknown: {HOW_TO_KNOW}."


def advise(
    share: float,
    request_seconds: float,
    retraining_seconds: float | None,
    retraining_epoch_seconds: float = 0.0,
) -> tuple[Literal["unlearn", "retrain"], str]:
    """Advise to retrain for more than 30 % of the data, or if a request saves under half the time.

    Where the cost of retraining is not known, the share alone decides, and the sentence says how
    many epochs of retraining the request is worth.

    >>> advise(0.4, 1.0, 100.0)[0], advise(0.1, 60.0, 100.0)[0], advise(0.1, 10.0, 100.0)[0]
    ('retrain', 'retrain', 'unlearn')
    """
    request = format_duration(request_seconds)
    if retraining_seconds is None:
        times = f"at most about {request}"
        if retraining_epoch_seconds > 0:
            times += f", as long as {request_seconds / retraining_epoch_seconds:.1f} epochs of it"
    else:
        times = f"about {request} against {format_duration(retraining_seconds)}"
    if share > MAX_SHARE:
        return "retrain", (
            f"Just retrain: {share:.0%} of the training data are to be forgotten, and beyond "
            f"{MAX_SHARE:.0%} little is left to save ({times})."
        )
    if retraining_seconds is None:
        return "unlearn", (
            f"Unlearn: {share:.1%} of the training data are to be forgotten. What retraining would "
            f"take is unknown; the request takes {times}."
        )
    if request_seconds > MAX_COST_RATIO * retraining_seconds:
        return "retrain", (
            f"Just retrain: the request may take {times} for retraining, and retraining leaves no "
            "doubt."
        )
    return "unlearn", f"Unlearn: at most {times} for retraining."


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
