"""What was known of a request before anything was changed: a section of the evidence.

Nothing here describes a single record: whoever has the data would find it.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from expunge.evidence._sections import Interval, Number, Section

Advice = Literal["unlearn", "exact", "either"]


class ModelFit(Section):
    """Accuracy in percent per split, and why the model does not fit the data, if so."""

    accuracy: dict[str, Interval]
    chance: float = Field(
        description="Accuracy in percent of always predicting the most frequent class of val."
    )
    fits: bool
    reasons: list[str]


class ClassCounts(Section):
    """How many of the training records of a class are to be forgotten."""

    name: str
    forgotten: int
    train: int
    share: float


class RecordCounts(Section):
    """How many records the ids stand for, in all and per class."""

    asked: int
    records: int
    earlier: int
    train: int
    share: float
    twice: int
    skipped: int
    unmapped: int
    unseen: int
    classes: list[ClassCounts]


class DuplicateCounts(Section):
    """How many duplicates of the records remain in the data; thresholds are null if nothing is
    left that they could be estimated from."""

    exact: int
    near: int
    in_retain: dict[str, int]
    near_expected_by_chance: float
    thresholds: dict[str, float | None]
    quantile: float
    notes: list[str]


class Familiarity(Section):
    """How well the model knows some records: accuracy in percent, and means over them."""

    accuracy: Interval
    confidence: float
    entropy: float | None = None


class Hardness(Section):
    """How well the model knows the records to forget and val, and whether confidence tells them."""

    forget: Familiarity
    val: Familiarity
    auc: float
    sentence: str


class Cost(Section):
    """Estimated seconds, the advice that follows from them, and what they assume.

    What retraining costs is null where nothing says for how many epochs the model was trained.
    """

    training_step: Number = Field(description="Seconds per example in a training step.")
    epoch_seconds: Number
    unlearning_seconds: Number = Field(description="For all epochs that are allowed.")
    request_seconds: Number = Field(description="The same with preflight, checks and page.")
    retraining_epoch_seconds: Number
    retraining_seconds: float | None
    retraining_processor_seconds: float | None
    retraining_epochs: int | None
    advice: Advice
    sentence: str
    note: str


class PreflightFindings(Section):
    """What was known before anything was changed; also in ``preflight.json``."""

    fit: ModelFit
    ids: RecordCounts
    duplicates: DuplicateCounts
    hardness: Hardness
    cost: Cost
    warnings: list[str]
    notes: list[str]
