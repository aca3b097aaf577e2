"""Results by task, variant, hyperparameters and seed: what tables, figures and claims read."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from expunge._errors import InvalidInput
from expunge.bench._results import HYPERPARAMETERS, TASK, VARIANT, BenchResult, BenchRun

K = TypeVar("K", bound=Hashable)

SECOND_IDEAL = "another ideal"
PAPER_EPOCH = 10
"""The epoch of the paper's tables."""

CONFIGURATION = (*VARIANT, *HYPERPARAMETERS)
_MOMENTS_FIRST = ("published", "", "adam")

ResultsBySeed = dict[int, BenchResult]
"""One result per seed, by seed."""

Sweep = dict[BenchRun, ResultsBySeed]
"""The results of a variant by hyperparameters and seed."""


@dataclass(frozen=True)
class TaskResults:
    """The unlearning runs and reference models of one task, under a name that no other task has."""

    task: BenchRun
    name: str
    unlearned: tuple[BenchResult, ...]
    initial: tuple[BenchResult, ...] = ()
    ideal: tuple[BenchResult, ...] = ()
    second_ideal: tuple[BenchResult, ...] = ()
    """Ideal models trained with another seed: their distance from the first is a noise floor."""

    @property
    def file_name(self) -> str:
        """The name for paths: ``cifar10-vgg16-random-0.1``."""
        return re.sub(r"[^\w.]+", "-", self.name).strip("-")

    @cached_property
    def variants(self) -> dict[BenchRun, list[BenchResult]]:
        """The results of each variant, at all hyperparameters."""
        return _grouped(self.unlearned, lambda run: run.variant)

    @cached_property
    def main_hyperparameters(self) -> BenchRun | None:
        """The hyperparameters that tables show: those that most methods (variants, runs) share."""
        groups = _grouped(self.unlearned, lambda run: (run.aggregate, run.hyperparameters))

        def popularity(group: tuple[str, BenchRun]) -> tuple[int, int, int]:
            variants = {run.variant for run in groups[group]}
            return len({v.method for v in variants}), len(variants), len(groups[group])

        return max(groups, key=popularity)[1] if groups else None

    @cached_property
    def main_variants(self) -> dict[BenchRun, list[BenchResult]]:
        """The results of each variant at the main hyperparameters, without those of a sweep.

        A variant that was never run at them, as its method has weights of its own, is there with
        the one setting that shares rate, batches and epochs with them, or with its only one.
        """
        shown, main = {}, self.main_hyperparameters
        for variant, runs in self.variants.items():
            tried = _grouped(runs, lambda run: run.hyperparameters)
            alike = [e for e in tried if main and _length_and_rate(e) == _length_and_rate(main)]
            for chosen in ([each for each in tried if each == main], alike, [*tried]):
                if len(chosen) == 1:
                    shown[variant] = tried[chosen[0]]
                    break
        return shown

    @property
    def references(self) -> dict[str, tuple[BenchResult, ...]]:
        """Initial and ideal models, as far as there are any, by what tables call them."""
        models = {"initial": self.initial, "ideal": self.ideal, SECOND_IDEAL: self.second_ideal}
        return {name: results for name, results in models.items() if results}

    @cached_property
    def epoch(self) -> int:
        """The epoch that tables show: the paper's where it was evaluated, else the last one."""
        shown = (run for runs in self.main_variants.values() for run in runs)
        epochs = {row["epoch"] for run in shown for row in run.evaluated} - {0}
        return PAPER_EPOCH if PAPER_EPOCH in epochs or not epochs else max(epochs)

    def at_main(self, variant: BenchRun) -> ResultsBySeed:
        """The results of a variant at the main hyperparameters; empty where there are none."""
        return one_per_seed(self.main_variants.get(variant, ()))

    def sweep(self, variant: BenchRun) -> Sweep:
        """The results of a variant at all hyperparameters; empty where there are none."""
        tried = _grouped(self.variants.get(variant, ()), lambda run: run.hyperparameters)
        return {chosen: one_per_seed(runs) for chosen, runs in tried.items()}


def group_results(results: Iterable[BenchResult]) -> list[TaskResults]:
    """The results by task, in their order and without repetitions.

    A task on which two blocks ran a variant with the same hyperparameters becomes one task per
    block, so that a mean is over seeds alone. Two runs of one block that agree in seed and settings
    raise.
    """
    by_task = _grouped({each.key: each for each in results}.values(), lambda each: each.task)
    parts: dict[BenchRun, list[BenchResult]] = {}
    for task, of_task in by_task.items():
        unlearned = [result for result in of_task if not result.is_reference]
        blocks = _grouped(unlearned, lambda result: result.block)
        settings = [{r.only(CONFIGURATION) for r in runs} for runs in blocks.values()]
        if sum(map(len, settings)) > len(set().union(*settings)):
            parts |= {replace(task, block=block): runs for block, runs in blocks.items()}
        else:
            parts[task] = unlearned
    names = _unique_names(list(parts))
    groups = []
    for task, runs in parts.items():
        of_task = by_task[replace(task, block="")]
        models = [
            tuple(r for r in of_task if r.model == name) for name in ("initial", "ideal", "ideal-2")
        ]
        for alike in (runs, *models):
            _refuse_repeated(alike, names[task])
        groups.append(TaskResults(task, names[task], tuple(runs), *models))
    return groups


def select_variants(
    variants: Iterable[BenchRun], method: str, addons: Sequence[str]
) -> list[BenchRun]:
    """Linear variants of a method with some add-ons, in their order; published moments first."""
    chosen = [v for v in variants if v.method == method and v.is_linear and v.addon in addons]
    return sorted(chosen, key=lambda v: (addons.index(v.addon), *_moments_rank(v)))


def preferred_variants(variants: Iterable[BenchRun]) -> dict[tuple[str, str], BenchRun]:
    """One linear variant per method and add-on: published moments, else Adam's, else others."""
    chosen: dict[tuple[str, str], BenchRun] = {}
    for variant in (each for each in variants if each.is_linear):
        rival = chosen.setdefault((variant.method, variant.addon), variant)
        chosen[variant.method, variant.addon] = min(variant, rival, key=_moments_rank)
    return chosen


def one_per_seed(results: Iterable[BenchResult]) -> ResultsBySeed:
    """The first result of each seed, by ascending seed."""
    first: ResultsBySeed = {}
    for result in results:
        first.setdefault(result.seed, result)
    return dict(sorted(first.items()))


def _grouped(
    results: Iterable[BenchResult], key: Callable[[BenchResult], K]
) -> dict[K, list[BenchResult]]:
    groups: dict[K, list[BenchResult]] = {}
    for result in results:
        groups.setdefault(key(result), []).append(result)
    return groups


def _moments_rank(variant: BenchRun) -> tuple[int, str]:
    first = _MOMENTS_FIRST
    rank = first.index(variant.moments) if variant.moments in first else len(first)
    return rank, variant.moments


def _length_and_rate(settings: BenchRun) -> BenchRun:
    return settings.only(("lr", "batch_size", "total_epochs"))


def _refuse_repeated(results: Iterable[BenchResult], task: str) -> None:
    for run, alike in _grouped(results, lambda each: each.only((*CONFIGURATION, "seed"))).items():
        if len(alike) > 1:
            raise InvalidInput(
                f"Two runs of {alike[0].label} have the same settings and seed {run.seed}: {task}. "
                "Judge their results apart."
            )


def _unique_names(tasks: Sequence[BenchRun]) -> dict[BenchRun, str]:
    """``cifar10/vgg16/random:0.1``, with as much else in brackets as distinguishes the tasks."""
    short = {task: f"{task.dataset}/{task.arch}/{task.scenario}" for task in tasks}
    names = {}
    for task in tasks:
        alike = [other for other in tasks if short[other] == short[task]]
        differing = [
            name for name in (*TASK, "block") if len({getattr(other, name) for other in alike}) > 1
        ]
        details = ", ".join(f"{name} {getattr(task, name)}" for name in differing)
        names[task] = f"{short[task]} ({details})" if details else short[task]
    return names
