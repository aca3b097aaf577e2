"""Exposed examples: forgotten ones that still stand out, and retained ones that newly do."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Literal

import numpy as np

from expunge._arrays import Array
from expunge._errors import InvalidInput
from expunge._files import atomic
from expunge._kinds import Fraction, check_arguments
from expunge.data import Examples
from expunge.evaluation._views import Views, check_same_labels
from expunge.evaluation.attacks._attack import Attack
from expunge.evaluation.attacks._registry import ATTACKS


@dataclass(frozen=True)
class Exposed:
    """One example.

    ``before`` and ``after`` are its exposure under the initial and the unlearned model: the share
    of unseen examples with a lower membership score (ties count half), in [0, 1]; 0.5 is typical of
    unseen data, near 1 stands out. ``score`` is the attack's score after unlearning.
    """

    split: Literal["forget", "retain"]
    index: int
    name: str
    label: str
    before: float
    after: float
    change: float
    score: float


@dataclass(frozen=True)
class Exposure:
    """The examples that stand out, the worst first.

    ``forget`` are the examples whose score fewer than ``fpr`` of the unseen ones reach;
    ``expected`` of them would be there by chance. ``retain`` are the examples that the unlearning
    pushed over the same line.
    """

    forget: tuple[Exposed, ...]
    retain: tuple[Exposed, ...]
    fpr: float
    sizes: tuple[int, int]

    @property
    def expected(self) -> tuple[float, float]:
        """The numbers of exposed forget and retain examples if they were unseen data."""
        return self.fpr * self.sizes[0], self.fpr * self.sizes[1]

    def __str__(self) -> str:
        return (
            f"{len(self.forget)} of {self.sizes[0]} forget examples are still exposed "
            f"({self.expected[0]:.0f} expected of unseen data); {len(self.retain)} of "
            f"{self.sizes[1]} retain examples became exposed."
        )

    def write_csv(self, path: str | Path, *, keep_examples: bool = True) -> None:
        """Write all rows, forget first, with a header, for the owner's eyes only.

        Without ``keep_examples``, those of forget examples are left out: even without their names,
        whoever has the data and the models finds them by their numbers.
        """
        names = [item.name for item in fields(Exposed)]
        with (
            atomic(path, private=True) as scratch,
            scratch.open("w", newline="", encoding="utf-8") as file,
        ):
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(asdict(row) for row in self.forget if keep_examples)
            writer.writerows(asdict(row) for row in self.retain)


def expose(
    initial: Views,
    unlearned: Views,
    *,
    attack: Attack | str = "loss",
    references: Sequence[Views] = (),
    forget: Examples | None = None,
    retain: Examples | None = None,
    fpr: Fraction = 0.01,
    seed: int = 0,
) -> Exposure:
    """Compare the models example by example.

    Args:
        initial, unlearned: views with ``forget``, ``retain`` and ``test``.
        attack: whose scores to use. The loss makes easy examples look exposed; RMIA with a
            reference model corrects for that.
        references: models that saw neither the forget set nor, for RMIA, the retain set.
        forget, retain: the data, for the names of examples and classes.
        fpr: the share of unseen examples that would be called exposed; at least 1 / len(test).
    """
    check_arguments(expose, locals())
    for name, predictions in unlearned.items():
        check_same_labels(initial.split(name), predictions)
    for name, data in (("forget", forget), ("retain", retain)):
        if data is not None and len(data) != len(unlearned.split(name).labels):
            raise InvalidInput(
                f"`{name}` should be the data that the models were asked about. (got {len(data)} "
                f"examples and {len(unlearned.split(name).labels)} predictions)"
            )
    part: Attack = ATTACKS[attack] if isinstance(attack, str) else attack
    splits = ("forget", "retain", "test")
    if len(unlearned.test.labels) < round(1.0 / fpr):
        raise InvalidInput(
            f"At an FPR of {fpr:g}, at least {round(1.0 / fpr)} test examples are needed. "
            f"(got {len(unlearned.test.labels)})"
        )
    member_scores = [
        part.score(v, references, splits=splits, seed=seed).scores for v in (initial, unlearned)
    ]
    line = 1.0 - fpr
    tables = {}
    for name, data in (("forget", forget), ("retain", retain)):
        before, after = (exposure_of(scores[name], scores["test"]) for scores in member_scores)
        chosen = after > line
        if name == "retain":
            chosen &= before <= line
        order = np.flatnonzero(chosen)
        order = order[np.argsort(-member_scores[1][name][order], kind="stable")]
        labels = unlearned.split(name).labels
        tables[name] = tuple(
            Exposed(
                name,  # type: ignore[arg-type]
                i,
                "" if data is None or data.names is None else data.names[i],
                str(int(labels[i])) if data is None else data.classes[int(labels[i])],
                float(before[i]),
                float(after[i]),
                float(after[i] - before[i]),
                float(member_scores[1][name][i]),
            )
            for i in order.tolist()
        )
    sizes = (len(unlearned.forget.labels), len(unlearned.split("retain").labels))
    return Exposure(tables["forget"], tables["retain"], fpr, sizes)


def exposure_of(scores: Array, unseen: Array) -> Array:
    """The share of ``unseen`` below each score, ties counted half."""
    ranked = np.sort(unseen)
    below = np.searchsorted(ranked, scores, side="left")
    upto = np.searchsorted(ranked, scores, side="right")
    result: Array = (below + upto) / (2.0 * len(ranked))
    return result
