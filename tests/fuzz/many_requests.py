"""``python -m tests.fuzz.many_requests [COUNT]``: requests one after another, of one model.

Prints the processor time of each in seconds, the accuracy on test data and on all records that were
to be forgotten so far, and how far the model has drifted: the share of test data that it classifies
otherwise than before the first request. The last row is of a model that was retrained without all
of the records: the one to compare with.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import expunge
from expunge.engine._artifact import load_card_data
from expunge.evaluation import predict
from expunge.evaluation._file_jobs import retrain_ideal, train_initial
from expunge.request import forget, verify
from tests.fuzz.runner import folder_of_its_own

Scores = tuple[float, ...]
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
        scores = measure(outcome.model, first.model, test, forgotten)
        yield number, outcome.status, seconds, *scores
    ids.write_text("".join(f"{name}\n" for name in names))
    began = time.process_time()
    ideal = retrain_ideal(
        first, f"ids:{ids}", folder / "ideal.safetensors", device="cpu", progress=False
    )
    seconds = time.process_time() - began
    yield "retrain", "", seconds, *measure(ideal.model, first.model, test, train.subset(names))


def measure(model: torch.nn.Module, first: torch.nn.Module, test: Any, forgotten: Any) -> Scores:
    """Accuracy on ``test`` and ``forgotten``, and other answers on ``test``, in per cent."""
    answers, before = predict(model, test).classes, predict(first, test).classes
    right = answers == test.labels, predict(model, forgotten).classes == forgotten.labels
    shares = (*right, answers != before)
    return tuple(100 * float(share.float().mean()) for share in shares)


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
