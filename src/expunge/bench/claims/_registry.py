"""The claims by name, in the order of the ledger. Adding one is its own rule and a line here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from expunge._registry import Registry
from expunge.bench._records import Record
from expunge.bench._runs import TaskRuns, group_records
from expunge.bench.claims._addon_order import ORDER
from expunge.bench.claims._base import Claim, ClaimFinding
from expunge.bench.claims._cost import FAST, OVERHEAD, SALUN_OVERHEAD
from expunge.bench.claims._frontier import CLOCK
from expunge.bench.claims._gradients import PRODUCT_SHRINKS, PRODUCT_ZERO, QUARTERS
from expunge.bench.claims._ledger import ClaimLedger
from expunge.bench.claims._metric_shift import (
    AND_RUA,
    FOCUS_MIA,
    FOCUS_RUA,
    PROB_RUA,
    SALUN_LITTLE,
    TA_COST,
)
from expunge.bench.claims._unstable_runs import AND_UNSTABLE, EARLY_TA

CLAIMS: Registry[Claim] = Registry("claim")
for _claim in (
    FOCUS_RUA,
    PROB_RUA,
    AND_RUA,
    FOCUS_MIA,
    TA_COST,
    SALUN_LITTLE,
    AND_UNSTABLE,
    EARLY_TA,
    OVERHEAD,
    SALUN_OVERHEAD,
    PRODUCT_ZERO,
    PRODUCT_SHRINKS,
    QUARTERS,
    ORDER,
    FAST,
    CLOCK,
):
    CLAIMS.add(_claim.name, _claim)


def judge_claims(
    records: Iterable[Record], names: Sequence[str] | None = None
) -> list[ClaimFinding]:
    """Test claims on records: the named ones (default: all), in the order of :data:`CLAIMS`."""
    return _judge(_tasks(records), names)


def claim_ledger(records: Iterable[Record], names: Sequence[str] | None = None) -> ClaimLedger:
    """The findings of :func:`judge_claims` as a ledger; its notes say what dials were compared."""
    tasks = _tasks(records)
    notes = []
    for runs in tasks:
        main = runs.main_dials
        assert main is not None  # there are runs
        weights = "" if main.alpha is None else f", alpha {main.alpha:g}, beta {main.beta:g}"
        notes.append(
            f"{runs.name}: {main.aggregate}{weights}, lr {main.lr:g}, batches of "
            f"{main.batch_size}, {main.budget} epochs."
        )
    return ClaimLedger(tuple(_judge(tasks, names)), tuple(notes))


def _tasks(records: Iterable[Record]) -> list[TaskRuns]:
    """The tasks that something was unlearned on."""
    return [runs for runs in group_records(records, tell_blocks_apart=True) if runs.unlearned]


def _judge(tasks: Sequence[TaskRuns], names: Sequence[str] | None) -> list[ClaimFinding]:
    wanted = list(CLAIMS) if names is None else {CLAIMS.name(name) for name in names}
    chosen = [CLAIMS[name] for name in CLAIMS if name in wanted]
    return [finding for claim in chosen for finding in claim.judge(tasks)]
