"""The sections of the evidence: what each part of ``evidence.json`` holds.

Numbers that are not defined are NaN in memory and null in JSON.
"""

from __future__ import annotations

import math
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema

Status = Literal["achieved", "not achieved", "inconclusive"]
Moment = Literal[
    "as delivered",
    "after benign steps",
    "after relearning a tenth",
    "with 4-bit weights",
    "in sampled answers",
]
CheckResult = Literal["inside", "outside", "open"]
EarlierStatus = Literal["still forgotten", "exposed again", "was not achieved", "inconclusive"]
Direction = Literal["target", "higher", "lower", "zero"]


def _nan_if_undefined(value: Any) -> Any:
    undefined = value is None or (isinstance(value, float) and not math.isfinite(value))
    return math.nan if undefined else value


Number = Annotated[
    float,
    BeforeValidator(_nan_if_undefined),
    PlainSerializer(lambda value: value if math.isfinite(value) else None, when_used="json"),
    WithJsonSchema({"type": ["number", "null"]}),
]
"""A number that may be undefined: NaN in memory, null in JSON."""


class Section(BaseModel):
    """A part of a file: immutable, and without keys that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Interval(Section):
    """A value with its confidence interval."""

    value: Number
    low: Number
    high: Number

    @classmethod
    def of(cls, value: float, low: float, high: float) -> Interval:
        """An interval in six decimals."""
        return cls(value=round(value, 6), low=round(low, 6), high=round(high, 6))


class RequestVerdict(Section):
    """The verdict, why, what was shown, and what to try next, in sentences.

    - *achieved*: every check is inside its margin, as delivered, after benign steps and, of
      texts, under further attacks;
    - *not achieved*: a check is outside, the run changed nothing, or it exposed the records of an
      earlier request again; the bundle holds the model as it was;
    - *inconclusive*: neither; the bundle holds the unlearned model.
    """

    status: Status
    headline: str
    reasons: list[str]
    shown: list[str]
    next_steps: list[str] = Field(default=[], description="What to try if it was not achieved.")


class LedgerName(Section):
    """Which ledger a request belongs to: the same in all of its requests."""

    id: str = Field(description="Made at random for the first request.")
    model: str = Field(description="SHA-256 of the weights before the first request.")
    data: str = Field(description="SHA-256 of the data.")


class RequestSummary(Section):
    """What was requested, and when."""

    number: int = Field(description="Position in the ledger, from 1.")
    ids: int = Field(description="Number of ids requested.")
    records: int = Field(description="Number of training records forgotten, copies included.")
    copies: int = Field(0, description="How many of them are duplicates that nobody asked for.")
    skipped: int = Field(default=0, description="Ids without a training record, left out.")
    unmapped: int = Field(
        default=0, description="Training records that the table of records gives to nobody."
    )
    left_out: int = Field(
        default=0,
        description="Records of these ids, or of earlier requests, in val and test: nothing was "
        "compared with them.",
    )
    share: float = Field(description="Fraction of the training data.")
    source: str = Field(description="How the ids were given: in a file, or in Python.")
    when: str = Field(description="ISO 8601, UTC.")
    ledger: LedgerName
    previous: str | None = Field(description="SHA-256 of the previous request's evidence.sha256.")
    attempt: int = Field(default=1, description="1 plus the earlier attempts in this ledger.")
    judged_before: int | None = Field(
        default=None,
        description="The request that discarded the same model, bit for bit: what it measured was "
        "known when the margins of this one were set.",
    )
    legal_basis: str | None = Field(default=None, description="On which ground, as the job says.")
    received: date | None = Field(default=None, description="The day it was received.")
    due: date | None = Field(
        default=None, description="One month after that: GDPR, Art. 12(3). Weekends count."
    )
    days_left: int | None = Field(
        default=None, description="From the day it was carried out to the day it is due."
    )


class DerivedModel(Section):
    """A model that was made from the one of a request, and may know its records, too."""

    name: str
    kind: Literal["fine-tuned", "distilled", "deployed"]
    status: Literal["open", "closed"] = Field(
        default="open", description="Closed: it was replaced, made again or withdrawn."
    )


class Hashes(Section):
    """SHA-256 of what went in and came out.

    Those of weights are of their values: names, types, shapes and bytes. That of the ids is of
    keyed hashes.
    """

    weights_before: str
    data: str
    ids: str
    config: str
    weights_after: str = ""
    discarded: str = Field(default="", description="The weights of a model that was discarded.")


class Environment(Section):
    """What the request ran on."""

    versions: dict[str, str] = {}
    hardware: dict[str, Any] = {}


class Check(Section):
    """A quantity with one-sided 95 % bounds on either side, and the margin it should be within.

    For an AUC the margin is the largest one, and one minus it the smallest; for a difference of
    accuracies it counts on either side; for a drop in accuracy it is the largest. ``inside``: both
    bounds are within the margin. ``outside``: both are beyond the same end of it. ``open``: an end
    of the margin lies between them.
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

    @property
    def is_attack(self) -> bool:
        """Whether it is the AUC of an attack."""
        return self.name.startswith("auc_")

    @property
    def right_at_most(self) -> float:
        """Upper bound on the share of pairs that an attack orders correctly, either way round."""
        return max(self.high, 1.0 - self.low)


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
    after_benign_steps: Interval | None = None
    target: Interval | None
    explain: str = ""


class EpochRow(Section):
    """An epoch: what the run recorded (step diagnostics are means) and, where it was watched, how
    val and records did."""

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
    ua: Number = math.nan
    va: Number = math.nan
    val_alike: Number = Field(
        default=math.nan, description="Accuracy on val of the records' classes."
    )
    auc: Number = Field(default=math.nan, description="Of the loss attack, against val.")
    keep: Number = Field(default=math.nan, description="The part of the weights that was kept.")


class Stop(Section):
    """Which epoch's model was chosen (0: the initial model), why, and what went wrong."""

    epoch: int
    reason: str
    warnings: list[str] = Field(default=[], description="What the run met with.")


class ClassRow(Section):
    """Accuracy on test for one class, in percent; null for a class without test examples."""

    name: str
    forgotten: int
    test: int
    before: float | None
    after: float | None


class ExposureCounts(Section):
    """How many forgotten records stand where among unseen ones, if there are enough of them.

    Exposure is the fraction of test data that the model is less confident of. A bin is from one of
    the ``edges`` to the next.
    """

    edges: list[float]
    before: list[int]
    after: list[int]


class EarlierRequest(Section):
    """The records of an earlier request, under the new model: accuracy, and the loss attack."""

    number: int
    records: int
    ua: Interval
    check: Check | None = Field(description="Null if test has no example of their classes.")
    status: EarlierStatus


class EarlierAttempt(Section):
    """An earlier request of the ledger that was about some of the same records."""

    when: str = Field(description="ISO 8601, UTC.")
    seed: int
    status: Status
    request: int = Field(description="Its number in the ledger.")
    shared: int = Field(description="How many of these records it was about, too.")


class StageSeconds(Section):
    """Seconds of each stage of a request, and in all."""

    loading: float = Field(description="Libraries, the model and the data.")
    preflight: float
    steps: float = Field(description="Gradient steps.")
    method: float = Field(description="What the method does between epochs, such as new targets.")
    checks: float = Field(description="Comparisons after epochs, and checkpoints.")
    audit: float
    page: float = Field(description="The files of the bundle, those made before the evidence.")
    total: float


class Seconds(Section):
    """What the request took by stage: on the wall clock, and in processor time of all threads."""

    wall: StageSeconds
    processor: StageSeconds

    def in_words(self) -> str:
        """The processor time of the stages in a sentence, those that took longest first."""
        stages = self.processor.model_dump(exclude={"total"})
        parts = (
            f"{value:.0f} s {'gradient steps' if name == 'steps' else name}"
            for name, value in sorted(stages.items(), key=lambda item: -item[1])
            if value >= 0.5
        )
        return f"took {self.processor.total:.0f} s of processor time: {', '.join(parts)}"
