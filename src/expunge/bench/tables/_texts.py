"""The table of language models, each at the epoch at which it has forgotten as the ideal model.

So rows have forgotten alike, as nearly as epochs allow, and what they kept can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from expunge.bench._results import BenchResult
from expunge.bench._tasks import TaskResults, group_results
from expunge.bench.tables._rows import all_rows, task_notes
from expunge.bench.tables._summary import Row, Summary
from expunge.evaluation import Metric

TEXTS_SHOWN = (
    "epoch",
    "gap_exact_memorisation",
    "forget_quality",
    "model_utility",
    "exact_memorisation",
    "extraction_strength",
    "probability",
    "rouge_l",
    "truth_ratio",
    "retain_rouge_l",
    "general_rouge_l",
    "auc_loss",
    "auc_min_k",
    "privacy_leakage",
)
TEXT_COLUMNS = {
    "epoch": Metric("epoch", "the epoch that is shown", "none", "", 1),
    "gap_exact_memorisation": Metric(
        "EM gap", "exact memorisation minus the ideal model's", "zero", "-1 to 1", 3
    ),
}


def texts(results: Iterable[BenchResult]) -> list[Summary]:
    """Forget quality, utility and memorisation, a table per task."""
    return [_text_table(runs) for runs in group_results(results) if runs.unlearned]


def nearest_epoch(result: BenchResult) -> int | None:
    """The epoch, past the start, at which a run's memorisation is nearest to the ideal model's."""
    rows = [row for row in result.evaluated if row.get("gap_exact_memorisation") is not None]
    later = [row for row in rows if row["epoch"]] or rows
    if not later:
        return None
    best = min(later, key=lambda row: (abs(row["gap_exact_memorisation"]), row["epoch"]))
    return int(best["epoch"])


def _text_table(runs: TaskResults) -> Summary:
    def row(results: Sequence[BenchResult], label: str) -> Row:
        return Row(label, {name: _values(results, name) for name in TEXTS_SHOWN})

    summary = all_rows(runs, TEXTS_SHOWN, row=row, columns=TEXT_COLUMNS)
    note = (
        "Each run at the evaluated epoch whose exact memorisation of the forgotten records is "
        "nearest to the ideal model's"
    )
    return replace(summary, title=runs.task.title, notes=(note, *task_notes(runs)))


def _values(results: Iterable[BenchResult], name: str) -> tuple[float, ...]:
    values = []
    for result in results:
        epoch = nearest_epoch(result)
        value = epoch if name == "epoch" else result.value(name, epoch)
        if value is not None and not (name == "epoch" and result.is_reference):
            values.append(float(value))
    return tuple(values)
