"""Runs by two processes: checkpoints, resuming, stopping, diverging, files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

import expunge
from expunge import Callback, InvalidInput
from expunge.distributed import as_group, shared_inference
from expunge.engine import Run
from expunge.evaluation import predict
from tests import tiny
from tests.team import Team
from tests.team_runs import Plain, outcome, unlearn
from tests.tiny import TinyConv, images, points
from tests.unit.engine.test_checkpoint import KillAt, Killed


def resumed(folder: str) -> bool:
    """Killed after step 5, of which 4 were kept, and taken up: the same bits as undisturbed."""
    options: dict[str, Any] = {
        "addon": "bernoulli",
        "optimizer": torch.optim.Adam,
        "checkpoint_every": 2,
    }
    make: dict[str, Any] = {"forget": images(21, seed=1), "retain": images(40, seed=2)}

    def go(**more: Any) -> dict[str, Any]:
        chosen = options | make | more
        model = TinyConv(dropout=0.5)
        result = tiny.unlearn(model, **chosen, epochs=2, batch_size=8, lr=1e-2, progress=False)
        return {k: v.numpy() for k, v in result.model.state_dict().items()}

    whole = go()
    path = Path(folder) / "run"
    with pytest.raises(Killed):
        go(checkpoint=path, callbacks=[KillAt(5)])
    again = go(checkpoint=path, callbacks=[KillAt(4)])  # step 4 is behind it
    return all(np.array_equal(whole[k], again[k]) for k in whole)


def test_a_killed_run_resumes_to_the_same_bits(pair: Team, tmp_path: Path) -> None:
    assert pair(resumed, str(tmp_path)) == [True, True]
    assert [p.name for p in tmp_path.iterdir()] == ["run"]
    with pytest.raises(InvalidInput, match=r"another run \(it differs in .*processes"):
        tiny.unlearn(
            TinyConv(dropout=0.5),
            forget=images(21, seed=1),
            retain=images(40, seed=2),
            checkpoint=tmp_path / "run",
        )


class StopInOne(Callback):
    def on_step(self, run: Run) -> None:
        if run.step == 2 and dist.get_rank() == 1:
            run.stop()


class Count(Callback):
    def __init__(self) -> None:
        self.steps = 0

    def on_step(self, run: Run) -> None:
        self.steps += 1


def various() -> dict[str, Any]:
    rank = dist.get_rank()
    results: dict[str, Any] = {}
    count = Count()
    unlearn("plain", "auto", callbacks=[StopInOne(), count])
    results["stopped after"] = count.steps

    with pytest.raises(expunge.Diverged) as error:
        unlearn("plain", "auto", forget=points_with_a_hole())
    results["diverged"] = str(error.value)
    weights = error.value.result.model.state_dict().values()
    results["last good"] = all(bool(w.isfinite().all()) for w in weights)

    with pytest.raises(InvalidInput) as given:
        unlearn("plain", "auto", retain=points(40 + rank, seed=2))
    results["disagree"] = str(given.value)

    torch.manual_seed(rank)  # weights of its own in each process: the first one's count
    model = nn.Linear(4, 3)
    data = {"forget": points(8, seed=1), "retain": points(9, seed=2)}
    result = tiny.unlearn(model, **data, epochs=1, lr=1e-2)
    results["sent"] = result.model.weight.tolist()

    alone = unlearn("plain", None, epochs=1)  # one process may work for itself
    results["alone"] = len(alone.history.epochs)

    with shared_inference(as_group("auto")):
        sets = (points(23), DataLoader(points(23), 4), Subset(Pairs(), range(23)))
        results["predicted"] = [predict(Plain(), s, batch_size=5).logits.tolist() for s in sets]
    return results


def points_with_a_hole() -> TensorDataset:
    """One example is not a number, so one process finds a loss that is not."""
    x, y = points(21, seed=1).tensors
    x[7] = torch.nan
    return TensorDataset(x, y)


class Pairs(torch.utils.data.Dataset[Any]):
    def __getitem__(self, index: int) -> Any:
        return points(23)[index]


def test_what_happens_in_one_process_happens_in_all(pair: Team) -> None:
    first, second = pair(various)
    assert first == second
    assert first["stopped after"] == 2
    assert first["diverged"].startswith("Diverged at step")
    assert first["last good"]
    assert "they differ in retain" in first["disagree"]
    torch.manual_seed(0)
    sent = nn.Linear(4, 3).weight
    assert torch.allclose(torch.tensor(first["sent"]), sent, atol=1e-2)
    assert first["alone"] == 1
    alone = predict(Plain(), points(23)).logits
    for logits in first["predicted"]:
        torch.testing.assert_close(torch.tensor(logits), alone)


class Lazy(torch.utils.data.Dataset[Any]):
    """Points behind a ``__getitem__`` of their own, so that a loader fetches them."""

    def __init__(self, count: int, seed: int) -> None:
        self.data = points(count, seed)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Any:
        x, y = self.data[index]
        return x, int(y)


def test_data_behind_a_loader_is_divided_alike(pair: Team) -> None:
    options = {"forget": Lazy(21, 1), "retain": Lazy(40, 2), "addon": "prob"}
    alone = outcome("plain", None, options)
    first, second = pair(outcome, "plain", "auto", options)
    for name, values in alone["model"].items():
        assert np.array_equal(first["model"][name], second["model"][name])
        np.testing.assert_allclose(first["model"][name], values, rtol=2e-4, atol=2e-6)
