"""Tasks: the records on one data set, model and scenario, at the setting most methods share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from expunge.bench._records import Record
from expunge.bench.runs._cells import cell_values, is_reference, plain, unique
from expunge.bench.runs._settings import (
    DIALS,
    TASK,
    arm_label,
    dials_of,
    main_dials,
    scenario_in_words,
    task_of,
)
from expunge.bench.tables._summary import Row

EPOCH = 10
"""The epoch of the paper's tables."""

_NAMES = {"cifar10": "CIFAR-10", "svhn": "SVHN", "vgg16": "VGG16", "resnet18": "ResNet18"}

Arm = tuple[str, str, str]
"""Method, add-on and moments, by their full names; moments are empty for those of the paper."""


@dataclass(frozen=True)
class Task:
    """One task. ``arms`` holds the records of each way to unlearn, ``references`` those of the
    initial and the ideal model, ``left_out`` how many records of other settings there were."""

    settings: dict[str, Any]
    main: dict[str, Any]
    arms: dict[Arm, list[Record]]
    references: dict[str, list[Record]]
    left_out: int = 0
    labels: dict[Arm, str] = field(default_factory=dict)

    @property
    def evaluated(self) -> list[int]:
        """The epochs at which some run was scored, the start apart."""
        rows = (row for runs in self.arms.values() for r in runs for row in r.evaluated)
        return sorted({row["epoch"] for row in rows} - {0})

    @property
    def epoch(self) -> int:
        """The paper's, where it was scored; else the last."""
        found = self.evaluated
        return EPOCH if EPOCH in found or not found else found[-1]

    @property
    def title(self) -> str:
        """``CIFAR-10, VGG16, 10 % random forgetting``, with what makes it smaller."""
        s = self.settings
        said = [_NAMES.get(s["dataset"], s["dataset"]), _NAMES.get(s["arch"], s["arch"])]
        said += [f"width {plain(s['width'])}"] if s["width"] not in (None, 1.0) else []
        said += [f"{s['limit']:,} images"] if s["limit"] else []
        return ", ".join([*said, scenario_in_words(s["scenario"])])

    @property
    def notes(self) -> tuple[str, ...]:
        """The setting shown, and what was left out of it."""
        lr, alpha, batch = (plain(self.main[name]) for name in ("lr", "alpha", "batch_size"))
        said = [f"Learning rate {lr}, α = {alpha}, batches of {batch}"]
        if self.left_out:
            said[0] += f"; {self.left_out} runs at other settings are left out"
        lost = [r for runs in self.arms.values() for r in runs if r.diverged]
        if lost:
            names = ", ".join(f"{r.label} (seed {r['seed']})" for r in lost)
            said.append(f"Diverged, and absent from there on: {names}")
        return tuple(said)

    def row(self, arm: Arm, metrics: Sequence[str], label: str = "") -> Row:
        """A way to unlearn at the task's epoch."""
        return self.row_of(self.arms[arm], metrics, label or self.labels[arm])

    def row_of(
        self, records: list[Record], metrics: Sequence[str], label: str, epoch: int | None = None
    ) -> Row:
        """Records that differ in their seed alone; ``epoch`` is the task's unless told."""
        at = self.epoch if epoch is None else epoch
        where = f"{self.title}: {label}"
        return Row(label, {m: cell_values(records, m, at, where) for m in metrics})


def tasks(records: Iterable[Record]) -> list[Task]:
    """The tasks among records, in their order."""
    found: dict[tuple[Any, ...], list[Record]] = {}
    for record in unique(records):
        found.setdefault(task_of(record), []).append(record)
    return [_task(dict(zip(TASK, key, strict=True)), own) for key, own in found.items()]


def arm_of(record: Record) -> Arm:
    """How a record unlearned."""
    moments = record["moments"] or ""
    return record["method"], record["addon"], "" if moments == "published" else moments


def _task(settings: dict[str, Any], records: list[Record]) -> Task:
    runs = [record for record in records if not is_reference(record)]
    references: dict[str, list[Record]] = {}
    for record in records:
        if is_reference(record):
            references.setdefault(record["model"], []).append(record)
    main = main_dials(runs) or tuple(None for _ in DIALS)
    arms: dict[Arm, list[Record]] = {}
    labels: dict[Arm, str] = {}
    for record in runs:
        if dials_of(record) == main:
            arm = arm_of(record)
            arms.setdefault(arm, []).append(record)
            labels.setdefault(arm, arm_label(*arm))
    kept = sum(len(own) for own in arms.values())
    shared = dict(zip(DIALS, main, strict=True))
    return Task(settings, shared, arms, references, len(runs) - kept, labels)
