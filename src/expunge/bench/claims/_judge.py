"""Claims tested on records, and the ledger of the findings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from expunge.bench._records import Record
from expunge.bench._runs import TaskRuns, group_records
from expunge.bench.claims._base import ClaimFinding
from expunge.bench.claims._ledger import ClaimLedger
from expunge.bench.claims._registry import CLAIMS


def judge_claims(
    records: Iterable[Record], names: Sequence[str] | None = None
) -> list[ClaimFinding]:
    """Test claims on records: the named ones, in the order of :data:`CLAIMS`.

    By default all those about the kind of data at hand, images or texts.
    """
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
    if names is None:
        kinds = {runs.task.is_text for runs in tasks} or {False, True}
        chosen = [CLAIMS[name] for name in CLAIMS if CLAIMS[name].texts in kinds]
    else:
        wanted = {CLAIMS.name(name) for name in names}
        chosen = [CLAIMS[name] for name in CLAIMS if name in wanted]
    return [finding for claim in chosen for finding in claim.judge(tasks)]
