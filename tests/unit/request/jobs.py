"""How tests make requests."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expunge import _tensors as tensors
from expunge.evidence import Evidence
from expunge.request._job import Job, make_job
from expunge.request._run import Outcome, carry_out

IDS = list(range(0, 60, 2))
WATCHED = {"method": "SRL", "lr": 3e-3, "batch_size": 16, "max_epochs": 6}
"""A method that reads the records, and takes the few epochs that it is given."""
SETTINGS = WATCHED | {
    # Margins wide enough for thirty records.
    "margin_auc": 0.99,
    "margin_records": 100.0,
    "margin_test": 100.0,
    "margin_of_class": 100.0,
    "device": "cpu",
}
REFRESH = {"method": "refresh", "lr": 0.05, "batch_size": 32, "budget": 0.9, "max_epochs": None}
"""The default method, for long enough to learn ninety digits again."""

RUINOUS = REFRESH | {"budget": 0.1, "margin_test": 10.0}
"""The same for so short a time that the model is of no use, and is discarded."""


class JobMaker:
    """Makes jobs on one net, all with the same folder ``out``."""

    def __init__(self, weights: Path, folder: Path) -> None:
        self.weights, self.folder = weights, folder
        self.out = folder / "out"

    def __call__(self, ids: list[int] | None = None, **values: Any) -> Job:
        path = self.folder / f"ids-{len(list(self.folder.glob('ids-*')))}.json"
        path.write_text(json.dumps(IDS if ids is None else ids))
        given = {"weights": self.weights, "ids": path, "out": self.out}
        return make_job(**(given | SETTINGS | values))


def carry_out_quietly(job: Job, **options: Any) -> Outcome:
    return carry_out(job, progress=False, **options)


def weights_digest(path: Path) -> str:
    """The SHA-256 of the values of weights, whatever the file."""
    return tensors.state_digest(tensors.load(path)[0])


def timeless(evidence: dict[str, Any]) -> dict[str, Any]:
    """The evidence without what the clock and the folder decide."""
    kept = json.loads(json.dumps(evidence))
    for name in ("seconds", "environment", "files", "commands"):
        kept.pop(name)
    kept["verdict"].pop("next_steps")  # they say what retraining would cost
    kept["request"].pop("when")
    kept["request"]["ledger"].pop("id")
    kept["preflight"].pop("cost")
    for row in kept["epochs"]:
        row.pop("seconds", None)
        row.pop("processor_seconds", None)
    kept["config"].pop("out")
    kept["hashes"].pop("config")
    return kept  # type: ignore[no-any-return]


@dataclass(frozen=True)
class FinishedRequest:
    """A request that was carried out: its evidence and folder are there."""

    job: Job
    outcome: Outcome
    evidence: Evidence
    folder: Path

    @classmethod
    def of(cls, job: Job, outcome: Outcome) -> FinishedRequest:
        assert outcome.evidence is not None
        assert outcome.folder is not None
        return cls(job, outcome, outcome.evidence, outcome.folder)
