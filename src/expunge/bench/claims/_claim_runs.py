"""Records put in order: by situation (data, architecture, scenario), arm, setting and seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

from expunge._errors import InvalidInput
from expunge.bench._records import Record
from expunge.bench.claims._arms import Arm, Setting, Situation, arm_of, setting_of, situation_of
from expunge.bench.runs._settings import main_dials

Seeds = dict[int, Record]
Sweep = dict[Setting, Seeds]


class Runs:
    """The unlearning runs among ``records``; references are left out.

    The initial model is epoch 0 of every run. A comparison takes a situation's *main* setting: the
    one that most methods, then most arms, share.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        unlearned = {r.key: r for r in records if r["model"] == "unlearned"}
        self._table: dict[Situation, dict[Arm, Sweep]] = {}
        mistaken = _mistaken(list(unlearned.values()))
        for record in unlearned.values():
            situation = situation_of(record)
            if situation in mistaken:
                situation = replace(situation, block=record["block"])
            sweep = self._table.setdefault(situation, {}).setdefault(arm_of(record), {})
            seeds = sweep.setdefault(setting_of(record), {})
            if record["seed"] in seeds:
                raise InvalidInput(
                    f"Two runs of {record.label} have the same settings and seed "
                    f"{record['seed']}: {self.name(situation)}. Judge their records apart."
                )
            seeds[record["seed"]] = record

    @property
    def situations(self) -> list[Situation]:
        """In the order of the records."""
        return list(self._table)

    def name(self, situation: Situation) -> str:
        """Data, architecture and scenario, and as much else as it takes to tell it from others."""
        plain = f"{situation.dataset}/{situation.arch}/{situation.scenario}"
        own = (situation.dataset, situation.arch, situation.scenario)
        others = [s for s in self._table if (s.dataset, s.arch, s.scenario) == own]
        parts = [f.name for f in fields(Situation) if len({getattr(s, f.name) for s in others}) > 1]
        told = [f"{part} {getattr(situation, part)}" for part in parts]
        return f"{plain} ({', '.join(told)})" if told else plain

    def main(self, situation: Situation) -> Setting:
        """The setting that most methods, then most arms, share: see :func:`main_dials`."""
        sweeps = self._table[situation].values()
        records = [r for sweep in sweeps for seeds in sweep.values() for r in seeds.values()]
        dials = main_dials(records)
        assert dials is not None
        return Setting(*dials)

    def at_main(self, situation: Situation, arm: Arm) -> Seeds:
        """The runs of an arm at the main setting, by seed."""
        return self.sweep(situation, arm).get(self.main(situation), {})

    def sweep(self, situation: Situation, arm: Arm) -> Sweep:
        """All runs of an arm, by setting and seed."""
        return self._table[situation].get(arm, {})

    def arms(self, situation: Situation, method: str, addon: str) -> list[Arm]:
        """A method with an add-on: one arm for each kind of moments, the published ones first."""
        found = [a for a in self._table[situation] if (a.method, a.addon) == (method, addon)]
        return sorted(found, key=lambda a: (a.moments != "published", a.moments))

    def each(
        self, methods: Sequence[str], addons: Sequence[str]
    ) -> Iterator[tuple[Situation, Arm]]:
        """Every situation with every arm asked for, whether it was run or not."""
        for situation in self.situations:
            for method in methods:
                for addon in addons:
                    arms = self.arms(situation, method, addon) or [Arm(method, addon)]
                    yield from ((situation, arm) for arm in arms)

    def group(self, situation: Situation, arm: Arm) -> str:
        """The name of a finding's group."""
        return f"{self.name(situation)} {arm.label}"


def _mistaken(records: Iterable[Record]) -> set[Situation]:
    """Situations in which different runs look the same but for their block."""
    seen: set[tuple[Any, ...]] = set()
    mistaken = set()
    for record in records:
        situation = situation_of(record)
        run = (situation, arm_of(record), setting_of(record), record["seed"])
        if run in seen:
            mistaken.add(situation)
        seen.add(run)
    return mistaken
