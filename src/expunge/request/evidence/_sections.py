"""The sections of the evidence: what each part of ``evidence.json`` holds.

Numbers that are not defined are NaN in memory and null in JSON. Keys that a section does not know
are kept as they are.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema

Status = Literal["achieved", "not achieved", "inconclusive"]
Moment = Literal["as delivered", "after benign steps"]
CheckResult = Literal["inside", "outside", "open"]
EarlierStatus = Literal["still forgotten", "exposed again", "was not achieved", "inconclusive"]
AttemptStatus = Literal["achieved", "not achieved", "inconclusive", "not finished"]
ExampleFlag = Literal["", "still exposed", "over-forgotten"]
Direction = Literal["target", "higher", "lower", "zero"]


def _nan_if_undefined(value: Any) -> Any:
    undefined = value is None or (isinstance(value, float) and not math.isfinite(value))
    return math.nan if undefined else value


def _null_if_undefined(value: float) -> float | None:
    return value if math.isfinite(value) else None


Number = Annotated[
    float,
    BeforeValidator(_nan_if_undefined),
    PlainSerializer(_null_if_undefined, when_used="json"),
    WithJsonSchema({"type": ["number", "null"]}),
]
"""A number that may be undefined: NaN in memory, null in JSON."""


class Section(BaseModel):
    """A part of the evidence: immutable, and open to keys that it does not know."""

    model_config = ConfigDict(frozen=True, extra="allow")


class Interval(Section):
    """A value with its confidence interval."""

    value: Number
    low: Number
    high: Number

    @classmethod
    def of(cls, estimate: tuple[float, float, float]) -> Interval:
        """An interval from value, low and high, rounded to six decimals."""
        value, low, high = (round(float(number), 6) for number in estimate)
        return cls(value=value, low=low, high=high)


class RequestVerdict(Section):
    """The verdict, why, what was and was not shown, and what to try next, in sentences.

    - *achieved*: every bound lies inside its margin, as delivered and after benign steps;
    - *not achieved*: a bound lies outside; the bundle holds the model as it was;
    - *inconclusive*: neither; the bundle holds the unlearned model.
    """

    status: Status
    headline: str
    reasons: list[str]
    shown: list[str]
    not_shown: list[str]
    next_steps: list[str] = Field(default=[], description="What to try if it was not achieved.")


class ForgottenCopy(NamedTuple):
    """A copy of a requested record that was forgotten with it; a list of four in JSON.

    Both records are keyed hashes; in bundles of earlier versions, indices.
    """

    record: int | str
    kind: Literal["exact", "near"]
    copy_of: int | str
    similarity: float


class RequestSummary(Section):
    """What was requested, and when."""

    number: int = Field(description="Position in the ledger, from 1.")
    ids: int = Field(description="Number of ids requested.")
    records: int = Field(description="Number of training records forgotten, copies included.")
    copies: list[ForgottenCopy]
    share: float = Field(description="Fraction of the training data.")
    source: str = Field(description="How the ids were given: in a file, or in Python.")
    when: str = Field(description="ISO 8601, UTC.")
    previous: str | None = Field(description="SHA-256 of the previous request's evidence.json.")
    previous_seal: str | None = Field(
        default=None, description="SHA-256 of the previous request's evidence.sha256."
    )
    attempt: int = Field(default=1, description="1 plus the earlier attempts that are known.")


class Hashes(Section):
    """SHA-256 of what went in and came out.

    Those of weights are of their values: names, types, shapes and bytes (before version 3, of
    files). That of the ids is of keyed hashes.
    """

    weights_before: str
    data: str
    ids: str
    config: str
    weights_after: str = ""


class PreflightFindings(Section):
    """What was known before anything was changed; also in ``preflight.json``."""

    fit: dict[str, Any] = {}
    ids: dict[str, Any] = {}
    duplicates: dict[str, Any] = {}
    hardness: dict[str, Any] = {}
    cost: dict[str, Any] = {}
    warnings: list[str] = []
    notes: list[str] = []


class Check(Section):
    """A quantity with one-sided 95 % bounds on either side, and the margin it should be within.

    For an AUC the margin is the largest one, and one minus it the smallest; for a difference of
    accuracies it counts on either side; for a loss it is the largest. ``inside``: both bounds are
    within the margin. ``outside``: one is beyond it. ``open``: neither.
    """

    name: str
    label: str
    moment: Moment
    unit: str
    value: Number
    low: Number
    high: Number
    margin: Number
    records: int = Field(description="Records, or test examples, that it was measured on.")
    result: CheckResult
    needed: int | None = Field(
        default=None, description="Records that would decide an open check, at the same value."
    )


class MetricRow(Section):
    """A headline metric before and after, and after benign steps if they were taken.

    ``target`` is the same of test data of the records' classes, which the model never saw.
    """

    name: str
    label: str
    unit: str
    direction: Direction
    before: Interval
    after: Interval
    relearned: Interval | None = None
    target: Interval | None
    explain: str = ""


class RunValues(Section):
    """What the unlearning run itself records of an epoch; step diagnostics are means."""

    epoch: int
    steps: int = 0
    seconds: Number = math.nan
    processor_seconds: Number = math.nan
    objective: Number = math.nan
    constraint: Number = math.nan
    objective_alignment: Number = math.nan
    constraint_alignment: Number = math.nan
    product: Number = math.nan
    cosine: Number = math.nan
    agreement: Number = math.nan
    moved: Number = math.nan
    norm: Number = math.nan
    bound: Number = math.nan
    undecided: Number = math.nan
    feasible: Number = math.nan


class EpochRow(RunValues):
    """An epoch: what the run recorded and, where it was watched, how val and records did."""

    ua: Number = math.nan
    va: Number = math.nan
    auc: Number = math.nan
    lr: Number = math.nan


class Stop(Section):
    """Which epoch's model was chosen (0: the initial model), and why."""

    epoch: int
    reason: str


class SplitScores(Section):
    """A score for each record of each split."""

    forget: list[float] = []
    val: list[float] = []
    retain: list[float] = []


class ConfidenceScores(Section):
    """The scores behind the histograms."""

    name: str
    before: SplitScores
    after: SplitScores


class ClassRow(Section):
    """Accuracy on val for one class, in percent; null for a class without val examples."""

    name: str
    forgotten: int
    val: int
    before: float | None
    after: float | None


class ExampleView(Section):
    """How one model treats one forgotten record."""

    correct: bool | None = Field(default=None, description="Whether it predicts the label.")
    prediction: str | None = Field(default=None, description="Only in kept examples.")
    confidence: float = Field(description="Probability of the true label.")
    exposure: float = Field(description="Fraction of test data less confident in their label.")


class ExampleRow(Section):
    """A forgotten record before and after; the records that stand out most come first.

    ``index``, ``label`` and ``image`` are only in bundles of earlier versions and in what
    ``--keep-examples`` keeps beside the evidence.
    """

    index: int | None = None
    id: str = Field(description="The keyed hash of the id that it was asked for by.")
    label: str | None = None
    before: ExampleView
    after: ExampleView
    flag: ExampleFlag
    image: str | None = Field(default=None, description="A PNG data URI, for the first few only.")


class EarlierRequest(Section):
    """The records of an earlier request, under the new model: accuracy, and the loss attack."""

    number: int
    records: int
    ua: Interval
    check: Check | None = Field(description="Null if test has no example of their classes.")
    status: EarlierStatus


class Attempt(Section):
    """The run's best model where it was not good enough and was discarded."""

    stopped: Stop
    metrics: list[MetricRow]
    checks: list[Check]


class EarlierAttempt(Section):
    """An earlier attempt to forget the same ids from the same model, here or in another folder."""

    when: str = Field(description="ISO 8601, UTC.")
    seed: int
    status: AttemptStatus
    request: int | None = Field(description="Its number in this folder; null if it was elsewhere.")
