"""The rows of a run."""

from __future__ import annotations

import math
from typing import Any

import pytest
from torch import nn

import expunge
from expunge import Result
from tests import tiny
from tests.tiny import TinyConv, images

FORGET, RETAIN = images(11, seed=1), images(14, seed=2)


def unlearn(model: nn.Module | None = None, **options: Any) -> Result:
    chosen: dict[str, Any] = {"forget": FORGET, "retain": RETAIN, "epochs": 2, "batch_size": 4}
    return tiny.unlearn(model or TinyConv(), **chosen | {"lr": 1e-2} | options)


def test_history_has_a_row_an_epoch_and_a_row_a_step() -> None:
    history = unlearn(method="neg-grad-plus", addon="focus").history
    assert len(history.epochs) == 2
    assert len(history.steps) == 6
    assert [row["step"] for row in history.steps] == [1, 2, 3, 4, 5, 6]
    assert [row["epoch"] for row in history.steps] == [1, 1, 1, 2, 2, 2]
    for k, row in enumerate(history.epochs):
        steps = history.steps[3 * k : 3 * k + 3]
        for name in ("objective", "constraint", "agreement", "moved", "feasible", "norm"):
            assert row[name] == pytest.approx(sum(s[name] for s in steps) / 3), name
        assert 0 <= row["feasible"] <= 1
    assert 0 < history.epochs[0]["seconds"] < history.epochs[1]["seconds"] == history.seconds
    assert history.column("objective")[0] < 0 < history.column("constraint")[0]
    assert all(math.isnan(value) for value in history.column("unknown"))


def test_an_unconstrained_run_has_epoch_rows_only() -> None:
    history = unlearn(method="fine-tune").history
    assert history.steps == []
    assert math.isnan(history.epochs[0]["constraint"])
    assert history.epochs[0]["objective"] > 0


def test_an_empty_history_took_no_time() -> None:
    assert expunge.History().seconds == 0.0
