"""A run of a benchmark: what is forgotten from what, by which variant, how, and with which seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

from expunge.data import CORPORA
from expunge.methods import METHODS
from expunge.update import ADDONS, AGGREGATES, aggregate_label

CONSTRAINED_METHODS = ("random-label", "neg-grad-plus", "scrub")
"""The methods that the paper plugs its add-ons into: SRL, NGPlus, SCRUB."""

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


@dataclass(frozen=True)
class Task:
    """What is forgotten from what: data, model and scenario. Only runs on one task are rivals.

    ``block`` is empty, except where blocks of a protocol are distinguished
    (:func:`~expunge.bench._tasks.group_results`).
    """

    dataset: str
    arch: str
    width: float | None
    limit: int | None
    scenario: str
    block: str = ""

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
class Variant:
    """A method with an add-on; ``moments`` is empty where the add-on has none."""

    method: str
    addon: str = "none"
    moments: str = ""
    aggregate: str = "linear"

    @property
    def is_linear(self) -> bool:
        """Whether its aggregation is the paper's."""
        return self.aggregate == "linear"

    @property
    def label(self) -> str:
        """The paper's short names; moments are named unless they are the published ones.

        >>> Variant("random-label", "focus", "published").label
        'SRL-FOCUS'
        >>> Variant("scrub", "prob", "adam").label
        'SCRUB-PROB (adam)'
        """
        name = METHODS.label(self.method) if self.method in METHODS else self.method
        if not self.is_linear:
            known = self.aggregate in AGGREGATES or ":" in self.aggregate
            name += f"-{aggregate_label(self.aggregate) if known else self.aggregate}"
        if self.addon not in ("", "none"):
            name += f"-{ADDONS.label(self.addon) if self.addon in ADDONS else self.addon}"
        return name if self.moments in ("", "published") else f"{name} ({self.moments})"


@dataclass(frozen=True)
class Hyperparameters:
    """The settings of an unlearning run that sweeps vary; ``budget`` is its number of epochs.

    ``alpha`` and ``beta`` are those of the linear aggregation.
    """

    alpha: float | None = None
    beta: float | None = None
    lr: float = 0.0
    batch_size: int = 0
    budget: int = 0

    def same_budget(self, other: Hyperparameters | None) -> bool:
        """Whether rate, batches and epochs are those of ``other``."""
        names = ("lr", "batch_size", "budget")
        return other is not None and all(getattr(self, n) == getattr(other, n) for n in names)


_TASK = ("dataset", "arch", "width", "limit", "scenario")
_VARIANT = tuple(each.name for each in fields(Variant))
_HYPERPARAMETERS = tuple(each.name for each in fields(Hyperparameters))
SETTINGS = ("block", *_TASK, "seed", "model", *_VARIANT, *_HYPERPARAMETERS)
"""The names of the settings that distinguish one run from another, as files have them; ``model`` is
initial, ideal or unlearned."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """An unlearning run of a protocol, or one of the models that it is compared with.

    ``model`` is ``unlearned``, ``initial``, ``ideal`` or ``ideal-2``; all but the first have no
    variant and no hyperparameters. ``baseline`` is a method that no add-on is plugged into.
    """

    task: Task
    seed: int
    variant: Variant = field(default_factory=lambda: Variant("", "", "", ""))
    hyperparameters: Hyperparameters = field(default_factory=Hyperparameters)
    model: str = "unlearned"
    block: str = ""
    baseline: bool = False

    @property
    def is_reference(self) -> bool:
        """Whether it is an initial or ideal model, which has no epochs of unlearning."""
        return self.model != "unlearned"

    @property
    def label(self) -> str:
        """The variant's label, or which reference model it is."""
        return self.model if self.is_reference else self.variant.label

    @property
    def settings(self) -> dict[str, Any]:
        """The values of :data:`SETTINGS` by name: plain, for files."""
        found = asdict(self.task) | asdict(self.variant) | asdict(self.hyperparameters)
        found |= dict.fromkeys(_HYPERPARAMETERS) if self.is_reference else {}
        found |= {"block": self.block, "seed": self.seed, "model": self.model}
        return {name: found[name] for name in SETTINGS}

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], **more: Any) -> Self:
        """A run with these settings; ``more`` are its other fields."""
        reference = settings["model"] != "unlearned"
        varied = {} if reference else {name: settings[name] for name in _HYPERPARAMETERS}
        return cls(
            task=Task(**{name: settings[name] for name in _TASK}),
            variant=Variant(**{name: settings[name] for name in _VARIANT}),
            hyperparameters=Hyperparameters(**varied),
            **{name: settings[name] for name in ("block", "seed", "model")},
            **more,
        )


def scenario_in_words(scenario: str) -> str:
    """A scenario as tables and figures call it.

    >>> scenario_in_words("random:0.1"), scenario_in_words("class:3:0.4")
    ('10 % random forgetting', '40 % of class 3')
    """
    match scenario.split(":"):
        case ["random", share]:
            return f"{100 * float(share):g} % random forgetting"
        case ["people", share]:
            return f"{100 * float(share):g} % of the people"
        case ["class", name, share]:
            return f"{100 * float(share):g} % of class {name}"
        case ["class", name]:
            return f"class {name}"
    return scenario
