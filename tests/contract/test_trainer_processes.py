"""Two processes under the Hugging Face Trainer take the steps of one, whole or sharded."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch

import expunge
from expunge.data import PreferredAnswers
from tests.team import Team
from tests.unit.integrations.trainer_runs import (
    Texts,
    adapted,
    gpt,
    launched,
    sharded_trainer,
    trainer,
    whole_state,
)

pytest.importorskip("transformers")

FORGET = Texts(7, 1)
"""With batches of 4: the second has 3, so that shares differ, in examples and in tokens."""

SETTINGS: dict[str, dict[str, Any]] = {
    "npo": {"max_grad_norm": 0.5, "lr_scheduler_type": "linear"},
    "accumulated": {"method": "wga", "gradient_accumulation_steps": 2, "addon": "saliency"},
    "preferred": {
        "method": "dpo",
        "forget": PreferredAnswers(FORGET, Texts(7, 5)),
        "addon": "prob",
    },
    "drawn": {"method": "npo", "addon": "bernoulli"},
    "bf16": {"bf16": True, "method": expunge.methods.SimNPO(retain="kl")},
    "adapters": {"adapters": True, "max_grad_norm": 0.5},
}
SHARDED: dict[str, dict[str, Any]] = {
    "npo": SETTINGS["npo"],
    "saliency": SETTINGS["accumulated"],
    "two passes before one backward": SETTINGS["preferred"],
    "activations": {
        "method": expunge.methods.RMU("transformer.h.0", parameters="mlp"),
        "addon": "and",
    },
    "adapters": SETTINGS["adapters"],
}


def thorough_but(names: Iterable[str], *usual: str) -> list[Any]:
    """All names, of which only the ``usual`` ones are for every day."""
    return [
        pytest.param(name, marks=() if name in usual else pytest.mark.thorough) for name in names
    ]


def outcome(folder: str, options: dict[str, Any], kind: str = "whole") -> dict[str, Any]:
    """Weights and logs after two epochs, of a process of a team or of one alone."""
    make = sharded_trainer if kind == "sharded" else trainer
    chosen = {"optim": "sgd", "forget": FORGET, "num_train_epochs": 2} | options
    model = adapted(gpt()) if chosen.pop("adapters", False) else gpt()
    own = make(Path(folder), model, **chosen)
    own.train()
    keep = ("objective", "constraint", "cosine", "moved", "grad_norm")
    logs = [
        {k: row[k] for k in keep if k in row} for row in own.state.log_history if "objective" in row
    ]
    return {"model": whole_state(own.model), "logs": logs}


def of_the_team(folder: str, options: dict[str, Any], kind: str = "whole") -> dict[str, Any]:
    with launched():
        return outcome(folder, options, kind)


def assert_alike(team: Team, folder: Path, options: dict[str, Any], kind: str) -> None:
    if "adapters" in options:
        pytest.importorskip("peft")
    alone = outcome(str(folder), {"per_device_train_batch_size": 4} | options)
    first, second = team(of_the_team, str(folder), options, kind)
    wide = "bf16" in options  # other sums are rounded otherwise
    tolerance = {"rtol": 2e-2, "atol": 2e-3} if wide else {"rtol": 1e-4, "atol": 1e-6}
    assert len(first["logs"]) == len(alone["logs"])
    for one, two in zip(alone["logs"], first["logs"], strict=True):
        assert two == pytest.approx(one, rel=tolerance["rtol"], abs=tolerance["atol"] * 10)
    for name, values in alone["model"].items():
        assert torch.equal(first["model"][name], second["model"][name]), name
        torch.testing.assert_close(first["model"][name], values, **tolerance)


@pytest.mark.parametrize("name", thorough_but(SETTINGS, "npo", "accumulated"))
def test_two_processes_equal_one(pair: Team, tmp_path: Path, name: str) -> None:
    assert_alike(pair, tmp_path, SETTINGS[name], "whole")


@pytest.mark.parametrize(
    "name", thorough_but(SHARDED, "adapters", "two passes before one backward")
)
def test_two_shards_equal_one_model(pair: Team, tmp_path: Path, name: str) -> None:
    assert_alike(pair, tmp_path, SHARDED[name], "sharded")


def resumed(folder: str, kind: str, adapters: bool) -> dict[str, bool]:
    """Stopped after step 3 of 4, in the second epoch, and taken up: as undisturbed."""
    make = sharded_trainer if kind == "sharded" else trainer
    options = {"addon": "bernoulli", "forget": FORGET, "lr_scheduler_type": "linear"}
    saved = {"save_strategy": "steps", "save_steps": 3}

    def model() -> torch.nn.Module:
        return adapted(gpt(dropout=0.1)) if adapters else gpt(dropout=0.1)

    with launched():
        first = make(Path(folder), model(), **options, **saved)
        first.train()
        again = make(Path(folder) / "again", model(), **options)
        again.train(resume_from_checkpoint=str(Path(folder) / "checkpoint-3"))
        one, two = (whole_state(run.model) for run in (first, again))
    begun = whole_state(model())
    moved = {name for name in begun if not torch.equal(begun[name], one[name])}
    return {
        "same": all(torch.equal(one[name], two[name]) for name in one),
        "sharded": any(hasattr(p, "device_mesh") for p in first.model.parameters()),
        "moved": bool(moved),
        "base moved": any("lora" not in name for name in moved),
    }


@pytest.mark.parametrize(
    ("kind", "adapters"),
    [
        ("whole", True),
        ("sharded", False),
        pytest.param("whole", False, marks=pytest.mark.thorough),
        pytest.param("sharded", True, marks=pytest.mark.thorough),
    ],
)
def test_a_resumed_run_ends_as_one_undisturbed(
    pair: Team, tmp_path: Path, kind: str, adapters: bool
) -> None:
    if adapters:
        pytest.importorskip("peft")
    found = {"same": True, "sharded": kind == "sharded", "moved": True, "base moved": not adapters}
    assert pair(resumed, str(tmp_path), kind, adapters) == [found, found]


SCRIPT = """
import sys
from pathlib import Path

import torch
from tests.unit.integrations.trainer_runs import Texts, gpt, trainer, whole_state

folder, size, last = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:] and sys.argv[3]
steps = {"max_grad_norm": 0.5, "lr_scheduler_type": "linear", "per_device_train_batch_size": size}
saved = {"save_strategy": "steps", "save_steps": 3}
own = trainer(folder, gpt(), method="npo", forget=Texts(7, 1), optim="sgd", **steps, **saved)
own.train(resume_from_checkpoint=last or None)
assert own.args.world_size * size == 4
if own.is_world_process_zero():
    torch.save(whole_state(own.model), folder / "end.pt")
"""


def run_script(folder: Path, *words: object, processes: int) -> dict[str, torch.Tensor]:
    """The weights that the script ends with, started by torchrun unless it is one process."""
    folder.mkdir()
    script = folder / "unlearn.py"
    script.write_text(SCRIPT)
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    command = [sys.executable, *(launcher if processes > 1 else ()), str(script), str(folder)]
    root = Path(__file__).parents[2]
    paths = os.pathsep.join([str(root), str(root / "src")])
    done = subprocess.run(
        [*command, *map(str, words)],
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    weights: dict[str, torch.Tensor] = torch.load(folder / "end.pt", weights_only=True)
    return weights


@pytest.mark.thorough
def test_a_script_under_torchrun_ends_as_in_one_process_also_when_resumed(tmp_path: Path) -> None:
    alone = run_script(tmp_path / "one", 4, processes=1)
    two = run_script(tmp_path / "two", 2, processes=2)
    last = tmp_path / "two" / "checkpoint-3"
    resumed_there = run_script(tmp_path / "resumed", 2, last, processes=2)
    begun = whole_state(gpt())
    for name, values in alone.items():
        torch.testing.assert_close(two[name], values, rtol=1e-4, atol=1e-6)
        assert torch.equal(resumed_there[name], two[name]), name
    assert any(not torch.equal(values, begun[name]) for name, values in alone.items())
