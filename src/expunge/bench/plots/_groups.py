"""Which records belong in one picture: groups of one data set, and the setting most arms share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from expunge._errors import InvalidInput
from expunge.bench._records import Record
from expunge.bench.runs._settings import DIALS, TASK, main_dials, scenario_in_words, task_of

PREFERRED_MOMENTS = ("published", "adam")

Arms = dict[tuple[str, str], list[Record]]
"""Records, one a seed, by method and add-on."""


class Lacking(InvalidInput):
    """The records do not hold what a figure needs."""


@dataclass(frozen=True)
class Group:
    """The runs on one data set, architecture and scenario, with their reference models."""

    name: str
    """What file names call it."""
    settings: dict[str, Any]
    runs: tuple[Record, ...]
    initial: tuple[Record, ...]
    ideal: tuple[Record, ...]

    @property
    def title(self) -> str:
        """The group in words."""
        own = self.settings
        model = own["arch"] if own["width"] in (None, 1) else f"{own['arch']} ×{own['width']:g}"
        size = "" if own["limit"] is None else f" ({own['limit']} training images)"
        return f"{own['dataset']}{size}, {model}, {scenario_in_words(own['scenario'])}"


def groups_of(records: Sequence[Record]) -> list[Group]:
    """The groups in ``records`` in their order; a file name says width and size where it must."""
    parts: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        parts.setdefault(task_of(record), []).append(record)
    tasks = [dict(zip(TASK, key, strict=True)) for key in parts]
    short = [(task["dataset"], task["arch"], task["scenario"]) for task in tasks]
    found = []
    for task, words, own in zip(tasks, short, parts.values(), strict=True):
        size = (f"x{task['width']:g}", f"n{task['limit'] or 'all'}")
        name = (*words, *size) if short.count(words) > 1 else words
        by_model = {
            model: tuple(record for record in own if record["model"] == model)
            for model in ("unlearned", "initial", "ideal")
        }
        found.append(
            Group(
                "-".join(str(word).replace(":", "-") for word in name),
                task,
                *by_model.values(),
            )
        )
    return found


def main_setting(group: Group) -> dict[str, Any]:
    """The values of the dials under which most arms of a group were run."""
    best = main_dials(group.runs)
    return {} if best is None else dict(zip(DIALS, best, strict=True))


def main_arms(group: Group) -> Arms:
    """The arms of a group under its main setting: no record of a sweep is among them."""
    main = main_setting(group)
    fitting = [r for r in group.runs if all(r[name] == value for name, value in main.items())]
    return {
        (method, addon): one_a_seed(
            preferred([r for r in fitting if (r["method"], r["addon"]) == (method, addon)])
        )
        for method, addon in dict.fromkeys((r["method"], r["addon"]) for r in fitting)
    }


def preferred(records: Sequence[Record]) -> list[Record]:
    """The records with published moments; with Adam's, or others, where there are none."""
    kinds = list(dict.fromkeys(record["moments"] for record in records))
    for kind in (*PREFERRED_MOMENTS, *kinds):
        if kind in kinds:
            return [record for record in records if record["moments"] == kind]
    return []


def one_a_seed(records: Sequence[Record]) -> list[Record]:
    """The first record of each seed, by seed."""
    found: dict[Any, Record] = {}
    for record in records:
        found.setdefault(record["seed"], record)
    return [found[seed] for seed in sorted(found)]
