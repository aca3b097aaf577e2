"""The evidence of a request: the types of what was measured, and of how it is written."""

from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports

if TYPE_CHECKING:
    from expunge.evidence._schema import Evidence as Evidence
    from expunge.evidence._schema import read_evidence as read_evidence
    from expunge.evidence._sections import Interval as Interval
if TYPE_CHECKING:  # for other packages of expunge
    from expunge.evidence._requirements import NOT_ADVICE, REQUIREMENTS, claims_of
    from expunge.evidence._schema import (
        ACCURACY_COLUMNS,
        SCHEMA_VERSION,
        Advice,
        ClassCounts,
        Cost,
        DuplicateCounts,
        Hardness,
        ModelFit,
        PreflightFindings,
        RecordCounts,
    )
    from expunge.evidence._sections import (
        Check,
        CheckResult,
        ClassRow,
        DerivedModel,
        EarlierAttempt,
        EarlierRequest,
        EarlierStatus,
        Environment,
        EpochRow,
        ExposureCounts,
        Hashes,
        LedgerName,
        MetricRow,
        Moment,
        RequestSummary,
        RequestVerdict,
        Seconds,
        Section,
        StageSeconds,
        Status,
        Stop,
    )
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
