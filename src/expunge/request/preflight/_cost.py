"""What unlearning and retraining would cost, from timed steps, and which one to prefer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from torch import Tensor, nn

from expunge._durations import format_duration
from expunge.engine._step_times import StepTimes, measure_step_times
from expunge.methods import Method
from expunge.request._job import Job
from expunge.request.calibrate._run import cap_batch_size
from expunge.request.subject._dataset import inputs_of
from expunge.request.subject._load import Subject

RETRAINING_EPOCHS = 100
"""Epochs of retraining if nothing says how the model was trained."""
OVERHEAD = 1.15
"""Factor for batches, checkpoints and the like, which step times leave out."""
MAX_SHARE = 0.30
"""A larger share of the training data is better forgotten by retraining."""
MAX_COST_RATIO = 0.5
"""Retraining is also better if unlearning takes more than this part of its time."""
TIMED_EXAMPLES = 64
"""Examples in a timed step."""


@dataclass(frozen=True)
class Cost:
    """Estimated seconds, the advice that follows from them, and what they assume."""

    training_step: float
    """Seconds per example in a training step."""
    epoch_seconds: float
    unlearning_seconds: float
    """For all epochs allowed; a run that stops earlier takes less."""
    retraining_seconds: float
    retraining_epochs: int
    advice: Literal["unlearn", "retrain"]
    sentence: str
    note: str

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        rounded = {k: float(f"{v:.4g}") for k, v in asdict(self).items() if isinstance(v, float)}
        return asdict(self) | rounded


def estimate_cost(subject: Subject, forget: int, retain: int, job: Job) -> Cost:
    """Estimate the cost of a request from steps timed on this machine."""
    inputs = inputs_of(subject.train)[:TIMED_EXAMPLES]
    speed = _measure_speed(subject.model, inputs, subject.train.labels[:TIMED_EXAMPLES])
    epoch = _epoch_seconds(speed, forget, retain, len(subject.val), job)
    recipe = {} if subject.card is None else subject.card.recipe
    epochs = int(recipe.get("epochs", RETRAINING_EPOCHS))
    retraining = OVERHEAD * epochs * retain * speed.training
    unlearning = epoch * job.max_epochs
    share = forget / len(subject.train)
    advice, sentence = advise(share, unlearning, retraining)
    known = "epochs" in recipe
    source = "as for the model itself" if known else "assumed, as its training is not known"
    return Cost(
        training_step=speed.training,
        epoch_seconds=epoch,
        unlearning_seconds=unlearning,
        retraining_seconds=retraining,
        retraining_epochs=epochs,
        advice=advice,
        sentence=sentence,
        note=f"Retraining for {epochs} epochs, {source}; unlearning for all {job.max_epochs} "
        f"epochs allowed, with checks after each. From steps of {len(inputs)} examples timed on "
        f"this machine, plus {OVERHEAD - 1:.0%} for everything else.",
    )


def advise(
    share: float, unlearning_seconds: float, retraining_seconds: float
) -> tuple[Literal["unlearn", "retrain"], str]:
    """Advise to retrain for more than 30 % of the data, or if unlearning saves under half the time.

    >>> advise(0.4, 1.0, 100.0)[0], advise(0.1, 60.0, 100.0)[0], advise(0.1, 10.0, 100.0)[0]
    ('retrain', 'retrain', 'unlearn')
    """
    unlearning, retraining = map(format_duration, (unlearning_seconds, retraining_seconds))
    times = f"about {unlearning} against {retraining}"
    if share > MAX_SHARE:
        return "retrain", (
            f"Just retrain: {share:.0%} of the training data are to be forgotten, and beyond "
            f"{MAX_SHARE:.0%} little is left to save ({times})."
        )
    if unlearning_seconds > MAX_COST_RATIO * retraining_seconds:
        return "retrain", (
            f"Just retrain: unlearning may take {times} for retraining, and retraining leaves no "
            "doubt."
        )
    return "unlearn", f"Unlearn: at most {times} for retraining."


def _epoch_seconds(speed: StepTimes, forget: int, retain: int, val: int, job: Job) -> float:
    """Seconds per epoch: a pass over one split, as much of the other, and the checks."""
    procedure = job.procedure
    assert isinstance(procedure.method, Method)
    method = procedure.method
    size = cap_batch_size(procedure.batch_size, forget)
    walked, other = (retain, forget) if method.epoch_over == "retain" else (forget, retain)
    paired = math.ceil(walked / size) * min(size, other) if method.constrained else 0
    seconds = (walked + paired) * speed.training + (val + forget) * speed.inference
    return OVERHEAD * seconds


def _measure_speed(model: nn.Module, inputs: Tensor, labels: Tensor) -> StepTimes:
    try:
        return measure_step_times(model, inputs, labels, TIMED_EXAMPLES)
    except RuntimeError:  # a model that needs the plain memory layout: rows do not have one
        shape: Sequence[int] = inputs.shape[1:]
        unflattened = nn.Sequential(nn.Unflatten(1, tuple(shape)), model)
        return measure_step_times(unflattened, inputs.flatten(1), labels, TIMED_EXAMPLES)
