"""A run of a benchmark, planned or finished: its settings, and what was measured.

A run with a few settings stands for all the runs that share them: ``BenchRun("scrub", "focus")`` is
a variant, whatever it was run on. Tables, figures and claims group results by such runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from expunge._errors import DataError
from expunge._files import write_text
from expunge.data import CORPORA
from expunge.methods import METHODS
from expunge.store import Stage
from expunge.update import ADDONS, AGGREGATES, aggregate_label

FORMAT = 1
PAPER_METHODS = ("random-label", "neg-grad-plus", "scrub")
"""The methods that the paper plugs its add-ons into: SRL, NGPlus, SCRUB."""

MAX_IDEALS = 8
"""Retrained models per seed and scenario, at most."""
TASK = ("dataset", "arch", "width", "limit", "scenario")
VARIANT = ("method", "addon", "moments", "aggregate")
HYPERPARAMETERS = ("alpha", "beta", "lr", "batch_size", "total_epochs")
SETTINGS = ("block", *TASK, "seed", "model", *VARIANT, *HYPERPARAMETERS)
"""The settings that distinguish one run from another."""
NAMES_IN_FILES = {"total_epochs": "budget"}

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
class BenchRun:
    """An unlearning run of a protocol, or one of the models that it is compared with.

    ``moments`` is empty where the add-on has none; ``alpha`` and ``beta`` are those of the linear
    aggregation; ``total_epochs`` are those of unlearning. ``model`` is ``unlearned``, ``initial``,
    ``ideal``, ``ideal-2``, ...; all but the first have neither variant nor hyperparameters.
    ``baseline`` is a method that no add-on is plugged into. ``stage`` is the planned work.
    """

    method: str = ""
    addon: str = "none"
    moments: str = ""
    aggregate: str = "linear"
    dataset: str = ""
    arch: str = ""
    width: float | None = None
    limit: int | None = None
    scenario: str = ""
    block: str = ""
    alpha: float | None = None
    beta: float | None = None
    lr: float | None = None
    batch_size: int | None = None
    total_epochs: int | None = None
    seed: int = 0
    model: str = "unlearned"
    baseline: bool = False
    stage: Stage | None = field(default=None, compare=False, repr=False)

    def only(self, names: Iterable[str]) -> BenchRun:
        """What stands for all the runs that share these settings."""
        return BenchRun(**{name: getattr(self, name) for name in names})

    @property
    def task(self) -> BenchRun:
        """What is forgotten from what: only runs on one task are rivals."""
        return self.only(TASK)

    @property
    def variant(self) -> BenchRun:
        """The method with its add-on, moments and aggregation."""
        return self.only(VARIANT)

    @property
    def hyperparameters(self) -> BenchRun:
        """The settings that sweeps vary."""
        return self.only(HYPERPARAMETERS)

    @property
    def settings(self) -> dict[str, Any]:
        """The values of :data:`SETTINGS` by name."""
        return {name: getattr(self, name) for name in SETTINGS}

    @property
    def reference(self) -> Stage:
        """The planned stage that scores the initial and ideal models."""
        assert self.stage is not None
        return self.stage.parents[1]

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stage and all that it depends on, parents first."""
        assert self.stage is not None
        return (*self.reference.parents, self.reference, self.stage)

    @property
    def is_reference(self) -> bool:
        """Whether it is an initial or ideal model, which has no epochs of unlearning."""
        return self.model != "unlearned"

    @property
    def is_linear(self) -> bool:
        """Whether its aggregation is the paper's."""
        return self.aggregate == "linear"

    @property
    def is_text(self) -> bool:
        """Whether its data are texts."""
        return self.dataset in CORPORA

    @property
    def label(self) -> str:
        """The paper's short names, or which reference model it is.

        Moments are named unless they are the published ones.

        >>> BenchRun("random-label", "focus", "published").label
        'SRL-FOCUS'
        >>> BenchRun("scrub", "prob", "adam").label
        'SCRUB-PROB (adam)'
        """
        if self.is_reference:
            return self.model
        name = METHODS.label(self.method) if self.method in METHODS else self.method
        if not self.is_linear:
            known = self.aggregate in AGGREGATES or ":" in self.aggregate
            name += f"-{aggregate_label(self.aggregate) if known else self.aggregate}"
        if self.addon not in ("", "none"):
            name += f"-{ADDONS.label(self.addon) if self.addon in ADDONS else self.addon}"
        return name if self.moments in ("", "published") else f"{name} ({self.moments})"

    @property
    def subject(self) -> str:
        """Data and model in words: ``CIFAR-10, VGG16``."""
        words = [_WRITTEN.get(self.dataset, self.dataset), _WRITTEN.get(self.arch, self.arch)]
        words += [f"width {self.width:g}"] if self.width not in (None, 1.0) else []
        what = "people" if self.is_text else "images"
        words += [f"{self.limit:,} {what}"] if self.limit else []
        return ", ".join(words)

    @property
    def title(self) -> str:
        """The task in words: ``CIFAR-10, VGG16, 10 % random forgetting``."""
        return f"{self.subject}, {scenario_in_words(self.scenario)}"


@dataclass(frozen=True, kw_only=True)
class BenchResult(BenchRun):
    """A finished run, and what was measured.

    ``epochs`` holds a dict per epoch: ``epoch``, ``seconds`` (RTE so far), ``processor_seconds``,
    losses and diagnostics of the epoch, and at evaluated epochs the metrics. An unlearning run
    begins with epoch 0, the initial model. ``steps`` holds, for constrained methods, a list per
    diagnostic; ``agreement`` a histogram of f over the parameters in 50 bins of [0, 1], by epoch;
    ``definitions``, for texts, the versions of the definitions of its metrics.
    """

    key: str
    epochs: list[dict[str, Any]]
    diverged: str = ""
    steps: dict[str, list[float | None]] = field(default_factory=dict)
    agreement: dict[str, list[float]] = field(default_factory=dict)
    definitions: dict[str, int] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)

    @property
    def evaluated(self) -> list[dict[str, Any]]:
        """The rows that hold metrics."""
        return [row for row in self.epochs if is_scored(row)]

    @property
    def final(self) -> dict[str, Any]:
        """The last row that holds metrics."""
        rows = self.evaluated
        return rows[-1] if rows else {}

    @property
    def clock(self) -> str:
        """What RTE counts: seconds, or on a CPU processor time, which other work disturbs less."""
        return "seconds" if self.environment.get("gpus") else "processor_seconds"

    def value(self, metric: str, epoch: float | None = None) -> float | None:
        """A metric at an epoch (default: the last evaluated one); ``abs_rua`` is |rUA|."""
        row = self.final
        if epoch is not None:
            row = next((row for row in self.epochs if row["epoch"] == epoch), {})
        value = row.get({"rte": self.clock, "abs_rua": "rua"}.get(metric, metric))
        if value is None:
            return None
        return abs(float(value)) if metric == "abs_rua" else float(value)

    @property
    def machine(self) -> str:
        """The machine it was computed on, with the version of torch."""
        known = self.environment
        words = [str(gpu) for gpu in known.get("gpus", ())]
        if not words and "cores" in known:
            cores = "1 core" if known["cores"] == 1 else f"{known['cores']} cores"
            words = [f"{cores} of {known.get('processor', 'a processor')}"]
        return ", ".join([*words, *([f"torch {known['torch']}"] if "torch" in known else [])])

    def dump(self) -> str:
        """One line of JSON; what is empty is left out."""
        own = ("diverged", "epochs", "steps", "agreement", "definitions", "environment")
        names = ("key", "label", "baseline", "settings", *own)
        plain = {name: value for name in names if (value := getattr(self, name))}
        plain["settings"] = {NAMES_IN_FILES.get(k, k): v for k, v in self.settings.items()}
        return json.dumps({"format": FORMAT} | plain)


def is_scored(row: Mapping[str, Any]) -> bool:
    """Whether a row of an epoch holds metrics: those of images, or those of texts."""
    return "ua" in row or "exact_memorisation" in row


def save_results(path: Path, results: Iterable[BenchResult]) -> None:
    """Write results as JSON lines, atomically."""
    write_text(path, "".join(result.dump() + "\n" for result in results))


def load_results(path: str | Path) -> list[BenchResult]:
    """The results of a JSON-lines file; a damaged line is named."""
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    results = []
    for number, line in enumerate(lines, start=1):
        try:
            plain = json.loads(line)
            version = plain.pop("format", 0)
            if version > FORMAT:
                raise DataError(
                    f"{path}, line {number}: written by a newer version of expunge (format "
                    f"{version}, this one reads {FORMAT}). Update expunge to read it."
                )
            plain.pop("label", None)
            saved = plain.pop("settings")
            settings = {name: saved[NAMES_IN_FILES.get(name, name)] for name in SETTINGS}
            results.append(BenchResult(**settings, **plain))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DataError(f"{path}, line {number}: this is not a result. ({error!r})") from error
    return results


def scenario_in_words(scenario: str) -> str:
    """A scenario as tables and figures call it."""
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
