"""The command line under torchrun: a real job of two processes, one of which is shot."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from expunge import InvalidInput, Recipe
from expunge import _tensors as tensors
from expunge.cli import main
from expunge.distributed import as_group
from expunge.distributed._launch import launched_group
from expunge.engine import Execution, Procedure
from expunge.engine._artifact import load_artifact
from expunge.evaluation._file_jobs import train_initial, unlearn_artifact
from tests.team import Team
from tests.tiny import bits, same

ROOT = Path(__file__).parents[3]
OPTIONS = ("--forget", "random:0.2", "--batch-size", "16", "--lr", "0.01", "--addon", "BER")


@pytest.fixture(scope="module")
def initial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("launch") / "initial.safetensors"
    recipe = Recipe(epochs=1, batch_size=32)
    train_initial("digits", path, width=0.1, recipe=recipe, limit=120)
    return path


def torchrun(*arguments: object) -> subprocess.Popen[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command = [*launcher, "--master-port", port, "-m", "expunge", *arguments]
    return subprocess.Popen(
        [str(word) for word in command],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "400", "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def process_of(launcher: int, rank: int) -> int:
    """The process that a launcher started as number ``rank``."""
    for task in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((task / "stat").read_text().rpartition(")")[2].split()[1])
            words = (task / "environ").read_text().split("\0")
        except (OSError, IndexError):
            continue
        if parent == launcher and f"RANK={rank}" in words:
            return int(task.name)
    raise AssertionError("There is no such process.")


def undisturbed(initial: str, out: str, epochs: int) -> dict[str, Any]:
    """The same job in a group that stays alive."""
    procedure = Procedure(addon="BER", epochs=epochs, batch_size=16, lr=0.01)
    done, _ = unlearn_artifact(
        load_artifact(initial),
        "random:0.2",
        Path(out),
        procedure,
        evaluate_at="never",
        execution=Execution(group=as_group("auto")),
    )
    return {name: tensor.numpy() for name, tensor in bits(done.model).items()}


@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc")
def test_a_job_that_lost_a_process_says_so_and_resumes(
    pair: Team, initial: Path, tmp_path: Path
) -> None:
    out = tmp_path / "unlearned.safetensors"
    checkpoint = tmp_path / "unlearned.safetensors.checkpoint"
    job = torchrun("unlearn", initial, *OPTIONS, "--epochs", 100_000, "-o", out)
    while not checkpoint.exists() and job.poll() is None:
        time.sleep(0.01)
    assert job.poll() is None, job.communicate()
    os.kill(process_of(job.pid, rank=1), signal.SIGKILL)
    _, errors = job.communicate(timeout=300)
    assert job.returncode == 1
    assert "Another process of this job has ended" in errors or "was told to stop" in errors
    assert "to resume from" in errors
    assert not out.exists()

    arrays, notes = tensors.load(checkpoint)
    epochs = len(tensors.unpack(arrays, notes["tree"])["history"]["epochs"]) + 2
    assert epochs > 2, "nothing was kept"
    job = torchrun("unlearn", initial, *OPTIONS, "--epochs", epochs, "-o", out)
    shown, errors = job.communicate(timeout=300)
    assert job.returncode == 0, errors
    assert shown.count("UA") == errors.count("Wrote") == 1, "only one process speaks"
    assert sorted(p.name for p in tmp_path.iterdir()) == [out.name, f"{out.name}.times.json"]
    pair(undisturbed, str(initial), str(tmp_path / "whole.safetensors"), epochs)
    whole, resumed = (load_artifact(tmp_path / name) for name in ("whole.safetensors", out.name))
    assert same(bits(whole.model), bits(resumed.model))
    assert len(resumed.card.epochs) == epochs


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a launcher's second process."""
    around = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
    for name, value in around.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("launched")
def test_other_commands_are_refused_under_a_launcher(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["expunge", "train", "-o", "nowhere"])
    with pytest.raises(SystemExit) as ending:
        main()
    assert ending.value.code == 2
    errors = " ".join(capsys.readouterr().err.split())
    assert "Wrong usage (process 1): Under torchrun, only `unlearn` divides its work" in errors


@pytest.mark.usefixtures("launched")
def test_what_a_launched_process_may_not_ask_for() -> None:
    with pytest.raises(InvalidInput, match=r"a GPU of its own: use `cuda`. \(got cuda:1\)"), \
            launched_group("cuda:1"):  # fmt: skip
        pass
    with pytest.raises(InvalidInput, match=r"`timeout` should be positive. \(got 0\)"), \
            launched_group(timeout=0):  # fmt: skip
        pass
