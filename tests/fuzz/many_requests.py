"""``python -m tests.fuzz.many_requests [COUNT]``: requests one after another, of one model.

Prints the processor time of each in seconds, and how far the model has drifted: its accuracy on
test data, and the distance of its weights from those before the first request, relative to their
length. At the end, a model that is retrained without all records is the one to compare with.
"""

from __future__ import annotations

import math
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import expunge
from expunge._tensors import load as load_tensors
from expunge.engine._artifact import Artifact, load_card_data
from expunge.evaluation import predict
from expunge.evaluation._model_files import retrain_ideal, train_initial
from expunge.request import forget, verify
from tests.fuzz.runner import folder_of_its_own

COUNT, RECORDS = 50, 5
RECIPE = expunge.Recipe(epochs=40, batch_size=64)
ROW = "| {:>7} | {:<14} | {:7.1f} | {:8.1f} | {:9.1f} | {:5.1f} |"
HEADER = "| request | verdict | seconds | test, % | forgotten, % | drift, % |"


def carry_out_all(folder: Path, count: int, **settings: Any) -> Iterator[tuple[Any, ...]]:
    """Make ``count`` requests for five digits each: a row of numbers for each of them.

    The last row is of a model that is retrained without any of the records.
    """
    weights, ids = folder / "initial.safetensors", folder / "ids.txt"
    first = train_initial("digits", weights, recipe=RECIPE, device="cpu", progress=False)
    splits = load_card_data(first.card)
    train, test = splits.train, splits.test
    names = random.Random(0).sample(range(len(train)), count * RECORDS)
    for number in range(1, count + 1):
        began = time.process_time()
        outcome = forget(
            weights=weights,
            ids=names[RECORDS * (number - 1) : RECORDS * number],
            out=folder / "requests",
            progress=False,
            device="cpu",
            **settings,
        )
        seconds = time.process_time() - began
        assert outcome.model is not None
        forgotten = train.subset(names[: RECORDS * number])
        row = (accuracy(outcome.model, test), accuracy(outcome.model, forgotten))
        yield number, outcome.status, seconds, *row, drift(first, outcome.folder)
    ids.write_text("".join(f"{name}\n" for name in names))
    began = time.process_time()
    ideal = retrain_ideal(
        first, f"ids:{ids}", folder / "ideal.safetensors", device="cpu", progress=False
    )
    scores = accuracy(ideal.model, test), accuracy(ideal.model, train.subset(names))
    yield "retrain", "", time.process_time() - began, *scores, math.nan


def accuracy(model: torch.nn.Module, data: Any) -> float:
    """Per cent of ``data`` that ``model`` classifies correctly."""
    return 100 * float((predict(model, data).classes == data.labels).float().mean())


def drift(first: Artifact, folder: Path | None) -> float:
    """Per cent by which the weights in a bundle differ from those of the first model."""
    assert folder is not None
    now, _ = load_tensors(folder / "weights.safetensors")
    then = {name: value.detach() for name, value in first.model.named_parameters()}
    moved = sum(float((now[k] - v).square().sum()) for k, v in then.items())
    return 100 * (moved / sum(float(v.square().sum()) for v in then.values())) ** 0.5


def main() -> None:
    """Print a row per request, and how long it takes to verify all of them."""
    torch.set_num_threads(1)
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    with folder_of_its_own() as folder:
        print(HEADER, "| ---: | --- | ---: | ---: | ---: | ---: |", sep="\n")
        for row in carry_out_all(folder, count):
            print(ROW.format(*row), flush=True)
        for quick in (True, False):
            began = time.process_time()
            holds = all(each.ok for each in verify(folder / "requests", quick=quick))
            seconds = time.process_time() - began
            print(f"verify{' --quick' if quick else ''}: {seconds:.1f} s, holds: {holds}")


if __name__ == "__main__":
    main()
