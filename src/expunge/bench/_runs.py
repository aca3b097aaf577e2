"""Records grouped into runs: by task, arm, dials and seed.

Tables, figures and claims all read records through this module:

- a :class:`Task` says what is forgotten from what; only runs on the same task are rivals;
- an :class:`Arm` is a method with an add-on;
- :class:`Dials` are what a sweep varies; a task's *main* dials are those its tables show;
- :class:`TaskRuns` holds the records of one task, and :func:`group_records` makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, TypeVar

from expunge._errors import InvalidInput
from expunge.bench._records import Record
from expunge.data import CORPORA
from expunge.methods import METHODS
from expunge.update import ADDONS, AGGREGATES
from expunge.update._aggregate import aggregate_label

K = TypeVar("K", bound=Hashable)

PAPER_EPOCH = 10
"""The epoch of the paper's tables."""

CONSTRAINED_METHODS = ("random-label", "neg-grad-plus", "scrub")
"""The methods that the paper plugs its add-ons into: SRL, NGPlus, SCRUB."""

TASK_SETTINGS = ("dataset", "arch", "width", "limit", "scenario")
"""The settings of a record that make up its task."""

_MOMENTS_FIRST = ("published", "", "adam")
_WRITTEN = {
    "digits": "digits",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "svhn": "SVHN",
    "vgg16": "VGG16",
    "vgg16-released": "VGG16 (released)",
    "resnet18": "ResNet18",
    "invented-people": "invented people",
    "small-transformer": "small transformer",
}

Seeds = dict[int, Record]
"""One record per seed, by seed."""

Sweep = dict["Dials", Seeds]
"""The runs of an arm by dials and seed."""


@dataclass(frozen=True)
class Task:
    """What is forgotten from what: data, model and scenario.

    ``block`` is empty, except where blocks of a protocol are told apart (:func:`group_records`).
    """

    dataset: str
    arch: str
    width: float | None
    limit: int | None
    scenario: str
    block: str = ""

    @classmethod
    def of(cls, record: Record) -> Task:
        """The task of a record, without its block."""
        return cls(**{name: record[name] for name in TASK_SETTINGS})

    @property
    def kind(self) -> str:
        """The kind of scenario: ``random``, ``class``, ``people`` or ``ids``."""
        return self.scenario.partition(":")[0]

    @property
    def is_text(self) -> bool:
        """Whether its data are texts."""
        return self.dataset in CORPORA

    @property
    def title(self) -> str:
        """``CIFAR-10, VGG16, 10 % random forgetting``, with what makes it smaller."""
        words = [_WRITTEN.get(self.dataset, self.dataset), _WRITTEN.get(self.arch, self.arch)]
        words += [f"width {self.width:g}"] if self.width not in (None, 1.0) else []
        what = "people" if self.is_text else "images"
        words += [f"{self.limit:,} {what}"] if self.limit else []
        return ", ".join([*words, scenario_in_words(self.scenario)])

    @property
    def short_name(self) -> str:
        """``cifar10/vgg16/random:0.1``; tasks that differ in size alone share it."""
        return f"{self.dataset}/{self.arch}/{self.scenario}"


@dataclass(frozen=True)
class Arm:
    """A method with an add-on; ``moments`` is empty where the add-on has none.

    ``aggregate`` is empty for the paper's, ``linear``.
    """

    method: str
    addon: str = "none"
    moments: str = ""
    aggregate: str = ""

    @classmethod
    def of(cls, record: Record) -> Arm:
        """The arm of an unlearning run."""
        aggregate = record["aggregate"] or ""
        aggregate = "" if aggregate == "linear" else aggregate
        return cls(record["method"], record["addon"], record["moments"] or "", aggregate)

    @property
    def label(self) -> str:
        """The paper's short names; moments are named unless they are the published ones.

        >>> Arm("random-label", "focus", "published").label, Arm("scrub", "prob", "adam").label
        ('SRL-FOCUS', 'SCRUB-PROB (adam)')
        """
        name = METHODS.label(self.method) if self.method in METHODS else self.method
        if self.aggregate:
            known = self.aggregate in AGGREGATES or ":" in self.aggregate
            name += f"-{aggregate_label(self.aggregate) if known else self.aggregate}"
        if self.addon not in ("", "none"):
            name += f"-{ADDONS.label(self.addon) if self.addon in ADDONS else self.addon}"
        return name if self.moments in ("", "published") else f"{name} ({self.moments})"


@dataclass(frozen=True)
class Dials:
    """The settings of an unlearning run that sweeps vary; ``budget`` is its number of epochs."""

    aggregate: str
    alpha: float | None
    beta: float | None
    lr: float
    batch_size: int
    budget: int

    @classmethod
    def of(cls, record: Record) -> Dials:
        """The dials of an unlearning run."""
        return cls(**{field.name: record[field.name] for field in fields(cls)})

    def same_budget(self, other: Dials | None) -> bool:
        """Whether rate, batches and epochs are those of ``other``."""
        names = ("lr", "batch_size", "budget")
        return other is not None and all(getattr(self, n) == getattr(other, n) for n in names)


@dataclass(frozen=True)
class TaskRuns:
    """The records of one task: its unlearning runs and its reference models.

    ``name`` is the task's short name with as much else as tells it from the other tasks, and
    ``file_name`` the same for paths: ``cifar10-vgg16-random-0.1``.
    """

    task: Task
    name: str
    file_name: str
    unlearned: tuple[Record, ...]
    initial: tuple[Record, ...] = ()
    ideal: tuple[Record, ...] = ()

    @cached_property
    def arms(self) -> dict[Arm, list[Record]]:
        """The runs of each arm, at all dials."""
        return _grouped(self.unlearned, Arm.of)

    @cached_property
    def main_dials(self) -> Dials | None:
        """The dials that tables, figures and claims show; None where nothing was unlearned.

        They are those that most methods share; of equals most arms, then most runs, then the
        first.
        """
        by_dials = _grouped(self.unlearned, Dials.of)

        def popularity(dials: Dials) -> tuple[int, int, int]:
            arms = {Arm.of(run) for run in by_dials[dials]}
            return len({arm.method for arm in arms}), len(arms), len(by_dials[dials])

        return max(by_dials, key=popularity, default=None)

    @cached_property
    def main_arms(self) -> dict[Arm, list[Record]]:
        """The runs of each arm at the main dials, without those of a sweep.

        An arm that was never run at them, as its method has weights of its own, is there with the
        one setting that shares rate, batches and epochs with them, or with its only one.
        """
        shown = {}
        for arm, runs in _grouped(self.unlearned, Arm.of).items():
            by_dials = _grouped(runs, Dials.of)
            alike = [dials for dials in by_dials if dials.same_budget(self.main_dials)]
            for chosen in ([d for d in by_dials if d == self.main_dials], alike, [*by_dials]):
                if len(chosen) == 1:
                    shown[arm] = by_dials[chosen[0]]
                    break
        return shown

    @property
    def references(self) -> dict[str, tuple[Record, ...]]:
        """Initial and ideal models, as far as there are any, by name."""
        models = {"initial": self.initial, "ideal": self.ideal}
        return {name: records for name, records in models.items() if records}

    @property
    def evaluated_epochs(self) -> list[int]:
        """The epochs at which a run at the main dials was evaluated, the start apart."""
        rows = (row for runs in self.main_arms.values() for run in runs for row in run.evaluated)
        return sorted({row["epoch"] for row in rows} - {0})

    @property
    def epoch(self) -> int:
        """The epoch that tables show: the paper's where it was evaluated, else the last one."""
        epochs = self.evaluated_epochs
        return PAPER_EPOCH if PAPER_EPOCH in epochs or not epochs else epochs[-1]

    def at_main(self, arm: Arm) -> Seeds:
        """The runs of an arm at the main dials; empty where there are none."""
        return one_per_seed(self.main_arms.get(arm, ()))

    def sweep(self, arm: Arm) -> Sweep:
        """The runs of an arm at all dials; empty where there are none."""
        by_dials = _grouped(self.arms.get(arm, ()), Dials.of)
        return {dials: one_per_seed(runs) for dials, runs in by_dials.items()}


def group_records(records: Iterable[Record], *, tell_blocks_apart: bool = False) -> list[TaskRuns]:
    """The records by task, in their order and without repetitions.

    With ``tell_blocks_apart``, a task on which runs of two blocks look the same becomes one task
    per block; two runs of a block with the same settings and seed raise.
    """
    by_task = _grouped({record.key: record for record in records}.values(), Task.of)
    parts: dict[Task, list[Record]] = {}
    for task, of_task in by_task.items():
        unlearned = [record for record in of_task if not record.is_reference]
        if tell_blocks_apart and _first_repeated(unlearned) is not None:
            by_block = _grouped(unlearned, lambda record: str(record["block"]))
            parts |= {replace(task, block=block): runs for block, runs in by_block.items()}
        else:
            parts[task] = unlearned
    names = _unique_names(list(parts))
    file_names = _file_names(list(parts))
    if tell_blocks_apart:
        for task, runs in parts.items():
            if (repeated := _first_repeated(runs)) is not None:
                raise InvalidInput(
                    f"Two runs of {repeated.label} have the same settings and seed "
                    f"{repeated['seed']}: {names[task]}. Judge their records apart."
                )
    groups = []
    for task, runs in parts.items():
        of_task = by_task[replace(task, block="")]
        references = (
            tuple(r for r in of_task if r["model"] == model) for model in ("initial", "ideal")
        )
        groups.append(TaskRuns(task, names[task], file_names[task], tuple(runs), *references))
    return groups


def select_arms(arms: Iterable[Arm], method: str, addons: Sequence[str]) -> list[Arm]:
    """The arms of a method with some add-ons, in their order; published moments come first.

    Those with an aggregation of their own are left out.
    """
    own = [arm for arm in arms if arm.method == method and not arm.aggregate]
    chosen = [arm for arm in own if arm.addon in addons]
    return sorted(chosen, key=lambda arm: (addons.index(arm.addon), *_moments_rank(arm)))


def preferred_arms(arms: Iterable[Arm]) -> dict[tuple[str, str], Arm]:
    """One arm per method and add-on: with published moments, else with Adam's, else others.

    Those with an aggregation of their own are left out.
    """
    chosen: dict[tuple[str, str], Arm] = {}
    for arm in (arm for arm in arms if not arm.aggregate):
        rival = chosen.setdefault((arm.method, arm.addon), arm)
        chosen[arm.method, arm.addon] = min(arm, rival, key=_moments_rank)
    return chosen


def one_per_seed(records: Iterable[Record]) -> Seeds:
    """The first record of each seed, by ascending seed."""
    first: Seeds = {}
    for record in records:
        first.setdefault(record["seed"], record)
    return dict(sorted(first.items()))


def scenario_in_words(scenario: str) -> str:
    """A scenario as tables and figures call it.

    >>> scenario_in_words("random:0.1"), scenario_in_words("class:3:0.4")
    ('10 % random forgetting', '40 % of class 3')
    """
    kind, _, rest = scenario.partition(":")
    name, _, share = rest.partition(":")
    try:
        if kind == "random":
            return f"{100 * float(name):g} % random forgetting"
        if kind == "hardest":
            return f"the {100 * float(name):g} % hardest to forget"
        if kind == "people":
            return f"{100 * float(name):g} % of the people"
        if kind == "class":
            return f"{100 * float(share):g} % of class {name}" if share else f"class {name}"
    except ValueError:
        pass
    return scenario


def _grouped(records: Iterable[Record], key: Callable[[Record], K]) -> dict[K, list[Record]]:
    groups: dict[K, list[Record]] = {}
    for record in records:
        groups.setdefault(key(record), []).append(record)
    return groups


def _moments_rank(arm: Arm) -> tuple[int, str]:
    first = _MOMENTS_FIRST
    return first.index(arm.moments) if arm.moments in first else len(first), arm.moments


def _first_repeated(runs: Iterable[Record]) -> Record | None:
    """The first run with the arm, dials and seed of an earlier one."""
    seen: set[tuple[Any, ...]] = set()
    for run in runs:
        identity = (Arm.of(run), Dials.of(run), run["seed"])
        if identity in seen:
            return run
        seen.add(identity)
    return None


def _unique_names(tasks: Sequence[Task]) -> dict[Task, str]:
    """Short names, with as much else in brackets as it takes to tell them apart."""
    names = {}
    for task in tasks:
        alike = [other for other in tasks if other.short_name == task.short_name]
        differing = [
            field.name
            for field in fields(Task)
            if len({getattr(other, field.name) for other in alike}) > 1
        ]
        details = ", ".join(f"{name} {getattr(task, name)}" for name in differing)
        names[task] = f"{task.short_name} ({details})" if details else task.short_name
    return names


def _file_names(tasks: Sequence[Task]) -> dict[Task, str]:
    """Short names for paths, with width and number of images where two tasks share one."""
    shared = [task.short_name for task in tasks]
    names = {}
    for task in tasks:
        words = [task.dataset, task.arch, task.scenario]
        if shared.count(task.short_name) > 1:
            words += [f"x{task.width or 1:g}", f"n{task.limit or 'all'}"]
        names[task] = "-".join(words).replace(":", "-")
    return names
