"""Three requests in a row on one model: what was forgotten stays forgotten.

Run:  python examples/forget_sequence.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from expunge.data import load
from expunge.engine import Recipe
from expunge.evaluation._file_jobs import train_initial
from expunge.request import Ledger, forget, verify


def main(folder: Path, width: float = 0.5) -> None:
    weights = folder / "model.safetensors"
    recipe = Recipe(epochs=20, batch_size=32, lr=0.05, schedule="one-cycle")
    train_initial("digits", weights, width=width, recipe=recipe, limit=300)
    size = len(load("digits", limit=300).train)
    print(f"A model of {size} digits. Three people ask to be forgotten, one after the other.")
    for records in (range(20), range(20, 45), range(100, 110)):
        outcome = forget(
            weights=weights,
            data="digits",
            ids=list(records),
            out=folder / "requests",
        )
        assert outcome.evidence is not None
        print(outcome.evidence.verdict.status, "-", outcome.evidence.verdict.headline)
    ledger = Ledger.read(folder / "requests")
    for entry in ledger.entries:
        records = entry.evidence.request.records
        print(f"request {entry.number}: {records} records, achieved {entry.evidence.achieved}")
    for row in ledger.entries[-1].evidence.earlier:
        print(f"  the records of request {row.number}: {row.status}")
    assert all(verification.ok for verification in verify(folder / "requests"))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(scratch))
