"""What unlearning and retraining take here, from measured steps, and which is the better deal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from torch import Tensor, nn

from expunge._durations import format_duration
from expunge.engine._speed import Pace, measure_pace
from expunge.methods import METHODS, Method
from expunge.request._job import Job
from expunge.request.calibrate._rules import cap_batch_size
from expunge.request.subject._examples import inputs_of
from expunge.request.subject._load import Subject

EPOCHS = 100
"""Epochs of retraining where nothing says how the model was trained."""
OVERHEAD = 1.15
"""Batches, checkpoints and the like, which step times leave out."""
LARGE = 0.30
"""A larger share of the training data is better forgotten by retraining."""
DEAR = 0.5
"""So is one whose unlearning takes more than this part of the time of retraining."""
PROBE = 64
"""Examples of a timed step."""


@dataclass(frozen=True)
class Cost:
    """Seconds, the advice that follows from them, and what they assume."""

    training_step: float
    """Seconds an example takes in a training step."""
    epoch_seconds: float
    unlearning_seconds: float
    """For all epochs allowed; a run that gets there earlier takes less."""
    retraining_seconds: float
    retraining_epochs: int
    advice: Literal["unlearn", "retrain"]
    sentence: str
    note: str

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        rounded = {k: float(f"{v:.4g}") for k, v in asdict(self).items() if isinstance(v, float)}
        return asdict(self) | rounded


def estimate_cost(subject: Subject, forget: int, retain: int, job: Job) -> Cost:
    """Time steps on this machine, and multiply."""
    inputs = inputs_of(subject.train)[:PROBE]
    pace = _pace(subject.model, inputs, subject.train.labels[:PROBE])
    epoch = _epoch_seconds(pace, forget, retain, len(subject.val), job)
    recipe = {} if subject.card is None else subject.card.recipe
    epochs = int(recipe.get("epochs", EPOCHS))
    retraining = OVERHEAD * epochs * retain * pace.training
    unlearning = epoch * job.max_epochs
    share = forget / len(subject.train)
    advice, sentence = advise(share, unlearning, retraining)
    source = "as the model was" if "epochs" in recipe else "assumed: its own training is not known"
    return Cost(
        training_step=pace.training,
        epoch_seconds=epoch,
        unlearning_seconds=unlearning,
        retraining_seconds=retraining,
        retraining_epochs=epochs,
        advice=advice,
        sentence=sentence,
        note=f"Retraining for {epochs} epochs, {source}; unlearning for all {job.max_epochs} "
        f"epochs allowed, with checks after each. From steps of {len(inputs)} examples timed on "
        f"this machine, and {OVERHEAD - 1:.0%} for what surrounds them.",
    )


def advise(
    share: float, unlearning: float, retraining: float
) -> tuple[Literal["unlearn", "retrain"], str]:
    """Retrain for more than 30 % of the data, or where unlearning saves less than half the time.

    >>> advise(0.4, 1.0, 100.0)[0], advise(0.1, 60.0, 100.0)[0], advise(0.1, 10.0, 100.0)[0]
    ('retrain', 'retrain', 'unlearn')
    """
    times = f"about {format_duration(unlearning)} against {format_duration(retraining)}"
    if share > LARGE:
        return "retrain", (
            f"Just retrain: {share:.0%} of the training data are to be forgotten, and beyond "
            f"{LARGE:.0%} little is left to save ({times})."
        )
    if unlearning > DEAR * retraining:
        return "retrain", (
            f"Just retrain: unlearning may take {times} for retraining, and retraining leaves no "
            "doubt."
        )
    return "unlearn", f"Unlearn: at most {times} for retraining."


def _epoch_seconds(pace: Pace, forget: int, retain: int, val: int, job: Job) -> float:
    """A pass over one split, paired with as much of the other, and a look at forget and val."""
    method: Method = METHODS.resolve(job.method)
    size = cap_batch_size(job.batch_size, forget)
    walked, other = (retain, forget) if method.epoch_over == "retain" else (forget, retain)
    beside = math.ceil(walked / size) * min(size, other) if method.constrained else 0
    work = (walked + beside) * pace.training + (val + forget) * pace.inference
    return OVERHEAD * work


def _pace(model: nn.Module, inputs: Tensor, labels: Tensor) -> Pace:
    try:
        return measure_pace(model, inputs, labels, PROBE)
    except RuntimeError:  # a model that counts on the plain memory layout: rows do not have one
        shape: Sequence[int] = inputs.shape[1:]
        flat = nn.Sequential(nn.Unflatten(1, tuple(shape)), model)
        return measure_pace(flat, inputs.flatten(1), labels, PROBE)
