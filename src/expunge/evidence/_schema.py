"""The evidence of a deletion request: the typed, versioned content of ``evidence.json``.

The findings of the preflight are a section of it. Nothing here describes a single record: whoever
has the data would find it.
``evidence.schema.json`` beside this file is its JSON Schema, which a test writes and compares.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal

import pydantic
from pydantic import Field

from expunge._errors import DataError
from expunge._strict_json import read_model
from expunge.evidence._sections import (
    Check,
    ClassRow,
    DerivedModel,
    EarlierAttempt,
    EarlierRequest,
    Environment,
    EpochRow,
    ExposureCounts,
    Hashes,
    Interval,
    MetricRow,
    Number,
    RequestSummary,
    RequestVerdict,
    Seconds,
    Section,
    Status,
    Stop,
)

SCHEMA_VERSION: Final = 5
Advice = Literal["unlearn", "exact", "either"]
ACCURACY_NAMES = {"ua": "forgotten data", "ta": "test", "va": "validation", "ra": "retained data"}
ACCURACY_COLUMNS = ("accuracy, %", "before", "after", "after benign steps", "unseen alike")
"""Of the rows of :attr:`Evidence.accuracies`."""


class ModelFit(Section):
    """Accuracy in percent per split, and why the model does not fit the data, if so."""

    accuracy: dict[str, Interval]
    chance: float = Field(
        description="Accuracy in percent of always predicting the most frequent class of val; of "
        "texts, the most frequent token of the retained answers."
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
    left_out: int
    classes: list[ClassCounts]


class DuplicateCounts(Section):
    """How many exact duplicates of the records remain in the data, and in what is retained."""

    exact: int
    in_retain: int


class Hardness(Section):
    """Whether the model's confidence tells the records to forget from val."""

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
    """What was known before anything was changed."""

    fit: ModelFit
    ids: RecordCounts
    duplicates: DuplicateCounts
    hardness: Hardness
    cost: Cost
    warnings: list[str]
    notes: list[str]


class Evidence(Section):
    """Everything that a deletion request shows: the content of ``evidence.json``."""

    schema_version: Literal[5]
    kind: Literal["request"]
    verdict: RequestVerdict
    request: RequestSummary
    hashes: Hashes
    config: dict[str, Any] = Field(description="All settings of the request.")
    environment: Environment = Environment()
    preflight: PreflightFindings
    margins: dict[str, float] = Field(default={}, description="Declared before anything was done.")
    checks: list[Check] = Field(default=[], description="What the verdict rests on.")
    metrics: list[MetricRow] = Field(default=[], description="Headline accuracies.")
    epochs: list[EpochRow] = Field(default=[], description="One row per epoch.")
    stopped: Stop
    classes: list[ClassRow] = Field(default=[], description="One row per class.")
    exposure: ExposureCounts | None = None
    derived: list[DerivedModel] = Field(
        default=[], description="Models made from this one, as the job lists them."
    )
    earlier: list[EarlierRequest] = Field(default=[], description="One row per earlier request.")
    limits: list[str] = Field(default=[], description="What the evidence cannot show.")
    commands: list[str] = Field(default=[], description="What repeats and what checks the request.")
    attempts: list[EarlierAttempt] = Field(
        default=[], description="Earlier requests of the ledger for some of the same records."
    )
    seconds: Seconds | None = None
    texts: bool = Field(
        default=False,
        description="Whether the model is a language model: accuracies are then the shares of "
        "answer tokens predicted, classes are strata of length and rarity.",
    )
    signed_by: str | None = Field(
        default=None, description="SHA-256 of the public key that the bundle is signed with."
    )
    files: dict[str, str] = Field(
        default={}, description="SHA-256 of the files of the bundle written before the evidence."
    )

    @pydantic.field_validator("config")
    @classmethod
    def _states_its_seed(cls, config: dict[str, Any]) -> dict[str, Any]:
        if type(config.get("seed")) is not int:
            raise ValueError(f"`seed` should be a whole number. (got {config.get('seed')!r})")
        return config

    @property
    def seed(self) -> int:
        """The seed of everything random."""
        return int(self.config["seed"])

    @property
    def status(self) -> Status:
        """The verdict in a word or three."""
        return self.verdict.status

    @property
    def achieved(self) -> bool:
        """Whether the records were shown to be forgotten."""
        return self.status == "achieved"

    @property
    def accuracies(self) -> list[tuple[str, ...]]:
        """A row per headline metric, as text: name, before, after, after benign steps, target."""
        moments = ("before", "after", "after_benign_steps", "target")
        rows = []
        for row in self.metrics:
            values = (getattr(row, moment) for moment in moments)
            cells = ("" if value is None else f"{value.value:.1f}" for value in values)
            rows.append((ACCURACY_NAMES.get(row.name, row.label), *cells))
        return rows

    @property
    def unlearned(self) -> bool:
        """Whether the bundle holds the unlearned model, not the one as it was."""
        return self.status != "not achieved"

    @property
    def discarded(self) -> bool:
        """Whether the model that was judged is not the one in the bundle."""
        return not self.unlearned and bool(self.stopped.epoch)

    @property
    def in_memory(self) -> bool:
        """Whether model and data were given from Python, so that no job file can name them."""
        return bool(self.config.get("in_memory"))

    def metric(self, name: str) -> MetricRow:
        """The metric of that name."""
        for metric in self.metrics:
            if metric.name == name:
                return metric
        raise DataError(f"The evidence of request {self.request.number} has no metric {name!r}.")

    def as_json(self) -> dict[str, Any]:
        """Plain values as they are written: without what was never set."""
        return self.model_dump(mode="json", exclude_unset=True)


def read_evidence(path: Path) -> Evidence:
    """Read an ``evidence.json``, without a key that is unknown or there twice."""
    try:
        return read_model(path, Evidence)
    except FileNotFoundError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error
