"""The sections of the evidence: what each part of ``evidence.json`` holds.

Numbers that are not defined are NaN in memory and null in JSON.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema

Status = Literal["achieved", "not achieved", "cannot be told"]
AttackVerdict = Literal["detected", "not detected", "over-forgotten", "inconclusive"]
EarlierStatus = Literal["still forgotten", "exposed again", "was not achieved", "could not be told"]
AttemptStatus = Literal["achieved", "not achieved", "cannot be told", "not finished"]
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
    """A part of the evidence: immutable, and without keys that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Interval(Section):
    """A value with its confidence interval."""

    value: Number
    low: Number
    high: Number

    @classmethod
    def of(cls, estimate: tuple[float, float, float], decimals: int = 6) -> Interval:
        """An interval from value, low and high, rounded."""
        value, low, high = (round(float(number), decimals) for number in estimate)
        return cls(value=value, low=low, high=high)

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def locate(self, value: float) -> Literal["inside", "on the edge of", "above", "below"]:
        """Where a percentage lies; at 0 and 100 % and in a single point there is no edge."""
        if value not in self:
            return "above" if value > self.high else "below"
        edges = {self.low, self.high} - {0.0, 100.0}
        return "on the edge of" if value in edges and self.low < self.high else "inside"


class RequestVerdict(Section):
    """The verdict, why, what was and was not shown, and what to try next, in sentences.

    - *achieved*: forgotten records are treated like unseen ones, nothing else broke, and the tests
      would have noticed a model that forgot nothing;
    - *not achieved*: a test failed; the bundle holds the model as it was;
    - *cannot be told*: every test passed, but a model that forgot nothing would probably have
      passed too; the bundle holds the unlearned model.
    """

    status: Status
    headline: str
    reasons: list[str]
    objections: list[str] = Field(default=[], description="Failed tests; they are reasons too.")
    shown: list[str]
    not_shown: list[str]
    next_steps: list[str] = Field(default=[], description="What to try if it was not achieved.")


class ForgottenCopies(Section):
    """How many copies of requested records were forgotten with them."""

    exact: int = 0
    near: int = 0


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
    copies: ForgottenCopies = ForgottenCopies()
    skipped: int = Field(default=0, description="Ids without a training record, left out.")
    unmapped: int = Field(
        default=0, description="Training records that the table of records gives to nobody."
    )
    unseen: int = Field(
        default=0,
        description="Records of these ids, or of earlier requests, in val and test: nothing was "
        "compared with them.",
    )
    share: float = Field(description="Fraction of the training data.")
    source: str = Field(description="How the ids were given: in a file, or in Python.")
    when: str = Field(description="ISO 8601, UTC.")
    ledger: LedgerName
    previous: str | None = Field(description="SHA-256 of the previous request's evidence.sha256.")
    attempt: int = Field(default=1, description="1 plus the earlier attempts that are known.")


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


class Environment(Section):
    """What the request ran on."""

    versions: dict[str, str] = {}
    hardware: dict[str, Any] = {}


class PreflightFindings(Section):
    """What was known before anything was changed; also in ``preflight.json``."""

    fit: dict[str, Any] = {}
    ids: dict[str, Any] = {}
    duplicates: dict[str, Any] = {}
    hardness: dict[str, Any] = {}
    cost: dict[str, Any] = {}
    warnings: list[str] = []
    notes: list[str] = []


class TargetInterval(Interval):
    """The accuracy on the forget set expected of a model that never saw it, in percent."""

    n_val: int
    n_forget: int
    notes: list[str] = Field(description="What the estimate assumes.")


class MetricRow(Section):
    """A headline metric before and after, and its target if it has one."""

    name: str
    label: str
    unit: str
    direction: Direction
    before: Interval
    after: Interval
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


class ComparisonValues(Section):
    """The comparison of forgotten with unseen data; absent if outputs were not finite."""

    ua: Number = math.nan
    va: Number = math.nan
    utility: Number = math.nan
    gap: Number = math.nan
    distance: Number = math.nan
    confidence_ks: Number = math.nan
    confidence_ks_limit: Number = math.nan
    entropy_ks: Number = math.nan
    entropy_ks_limit: Number = math.nan
    mean_confidence: Number = math.nan
    mean_entropy: Number = math.nan
    auc_confidence: Number = math.nan
    auc_entropy: Number = math.nan
    auc_loss: Number = math.nan
    auc_zlib: Number = math.nan
    auc_min_k: Number = math.nan
    auc_min_k_plus_plus: Number = math.nan


class EpochRow(ComparisonValues, RunValues):
    """An epoch: what the run recorded, the comparison, and what was decided."""

    target_low: Number = math.nan
    target_high: Number = math.nan
    lr: Number = math.nan
    alpha: Number = math.nan
    action: str = ""
    best_epoch: int = 0
    best_distance: Number = math.nan


class Stop(Section):
    """Which epoch's model was chosen (0: the initial model), why, and the run's verdict."""

    epoch: int
    reason: str
    status: Status
    warnings: list[str] = Field(default=[], description="What the run met with.")


class AttackResult(Section):
    """How well one attack did on one model."""

    auc: Interval
    verdict: AttackVerdict
    reason: str


class AttackRow(Section):
    """A membership attack on the model before and after."""

    name: str
    label: str
    before: AttackResult
    after: AttackResult
    budget: str


class HeldOutComparison(ComparisonValues):
    """Forgotten records against test data, which took no part in any decision of the run."""

    matched: Number = Field(
        default=math.nan, description="Accuracy on test data of the same class mix, %."
    )
    attacks: dict[str, Interval] = {}
    indistinguishable: bool
    over_forgotten: bool
    reasons: list[str] = []


class PowerCheck(Section):
    """Whether the tests would have noticed a model that forgot nothing.

    Forget sets of the same size are drawn from the given model's predictions; ``power`` is the
    fraction of draws that the comparison with val or with test tells from unseen data.
    """

    power: Number
    needed: float = Field(description="A pass with less power is no achievement.")
    draws: int = Field(
        description="No more than needed to decide; 0 if the distance alone leaves no doubt."
    )
    told_apart: int = Field(description="Draws told from unseen data.")
    distance: Number = Field(description="Of the given model's forget set from unseen data.")
    sufficient: bool
    auc_limit: Number | None = Field(
        default=None,
        description="Of texts: the AUC that chance alone explains at this many records.",
    )


class FloorCheck(Section):
    """The accuracy lost on one split, of one class or of all, against what may be lost; points.

    ``low`` is the lower end of the one-sided interval of ``lost``; above ``allowed``, the class is
    broken. What a retrained model is expected to lose for having less data is allowed too.
    """

    name: str = Field(description="The class; empty for all classes together.")
    split: Literal["val", "test", "retain"]
    records: int
    before: Number = Field(description="Accuracy before, %.")
    after: Number = Field(description="Accuracy after, %.")
    lost: Number
    low: Number
    allowed: Number
    broken: bool


class SplitScores(Section):
    """How many records of each split have a score in each bin: equal bins from 0 to 1."""

    forget: list[int] = []
    val: list[int] = []
    retain: list[int] = []


class ConfidenceScores(Section):
    """Histograms of the scores, if enough records were forgotten that none shows by itself."""

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


class ExposureCounts(Section):
    """How many forgotten records stand where among unseen ones, if there are enough of them.

    Exposure is the fraction of test data that the model is less confident of. A bin is from one of
    the ``edges`` to the next.
    """

    edges: list[float]
    before: list[int]
    after: list[int]


class ExampleView(Section):
    """How one model treats one forgotten record."""

    prediction: str
    confidence: float = Field(description="Probability of the true label.")
    exposure: float = Field(description="Fraction of test data less confident in their label.")


class ExampleRow(Section):
    """A forgotten record before and after, which ``--keep-examples`` keeps beside the evidence.

    Never in the evidence itself: whoever has the data and the models finds a record by its numbers.
    """

    id: str = Field(description="The keyed hash of the id that it was asked for by.")
    label: str
    before: ExampleView
    after: ExampleView
    flag: ExampleFlag
    image: str | None = Field(default=None, description="A PNG data URI, for the first few only.")


class EarlierRequest(Section):
    """The records of an earlier request, under the new model."""

    number: int
    records: int
    ua: Interval
    target: Interval
    status: EarlierStatus


class Attempt(Section):
    """The run's best model where it was not good enough and was discarded."""

    stopped: Stop
    metrics: list[MetricRow]
    attacks: list[AttackRow] = []
    floors: list[FloorCheck] = []


class EarlierAttempt(Section):
    """An earlier attempt to forget the same ids from the same model, here or in another folder."""

    when: str = Field(description="ISO 8601, UTC.")
    seed: int
    status: AttemptStatus
    request: int | None = Field(description="Its number in this folder; null if it was elsewhere.")
