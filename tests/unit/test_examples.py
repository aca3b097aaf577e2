"""The examples run, and show what they say."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from typer.main import get_command

from expunge.cli import _demo
from expunge.cli._main import build_app
from expunge.engine import Recipe
from expunge.evaluation._file_jobs import train_initial
from tests.tiny import bits, same

EXAMPLES = Path(__file__).parents[2] / "examples"

# Lightning's own use of a name that torch has renamed, and its advice on loaders.
quiet = pytest.mark.filterwarnings(
    "ignore:.*LeafSpec.*:FutureWarning", "ignore:.*does not have many workers"
)


def load_example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_own_loop_forgets_and_keeps(capsys: pytest.CaptureFixture[str]) -> None:
    example = load_example("own_loop")
    forget, retain = example.run("focus")
    assert forget > 2 * retain
    assert "steps feasible" in capsys.readouterr().out


@pytest.mark.thorough
def test_compose_runs_every_combination(capsys: pytest.CaptureFixture[str]) -> None:
    left = load_example("compose").main()
    assert len(left) == 9
    assert len(capsys.readouterr().out.splitlines()) == 9


@pytest.mark.thorough
def test_a_request_for_a_model_and_data_of_ones_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    load_example("forget_own_model").main(tmp_path)
    printed = capsys.readouterr().out
    assert printed.splitlines()[0] in ("achieved", "not achieved", "inconclusive")
    assert "Accuracy on the forgotten data" in printed
    assert (tmp_path / "requests" / "0001" / "report.html").is_file()


@pytest.mark.thorough
def test_three_requests_in_a_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load_example("forget_sequence").main(tmp_path, width=0.2)
    printed = capsys.readouterr().out
    assert printed.count("records, achieved") == 3
    assert "the records of request 2:" in printed


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_benchmark_on_slurm_starts_ray_on_every_node(tmp_path: Path) -> None:
    stand_ins = {
        "scontrol": "echo node1; echo node2; echo node3",
        "srun": 'echo srun -c "$SRUN_CPUS_PER_TASK" "$@" >> calls; exec sleep 100',
        "ray": "test -s calls  # `ray status` fails before the head is there",
        "expunge": 'until [ "$(wc -l < calls)" = 2 ]; do sleep 1; done; echo expunge "$@" >> calls',
    }
    for name, lines in stand_ins.items():
        (tmp_path / name).write_text(f"#!/usr/bin/env bash\n{lines}\n")
        (tmp_path / name).chmod(0o755)
    script = EXAMPLES / "bench_slurm.sh"
    done = subprocess.run(
        ["bash", str(script), "paper", "/shared", "--gpus", "0.5"],
        env=os.environ
        | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        | {"SLURM_JOB_NODELIST": "node[1-3]", "SLURM_JOB_NUM_NODES": "3"}
        | {"SLURM_CPUS_PER_TASK": "16"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    head, others, bench = (tmp_path / "calls").read_text().splitlines()
    assert "--nodelist=node1 ray start --head --port=6379 --block" in head
    assert head.startswith("srun -c 16 ")  # else Ray would see a single core
    assert "--nodes=2 --exclude=node1 ray start --address=node1:6379 --block" in others
    words = bench.removeprefix("expunge bench run ").split()
    command = get_command(build_app(None)).commands["bench"].commands["run"]
    chosen = command.make_context("run", words).params
    assert (chosen["engine"], chosen["address"], chosen["gpus"]) == ("ray", "node1:6379", 0.5)


@pytest.mark.thorough
@pytest.mark.timeout(1500)
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_a_request_from_the_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script, work = EXAMPLES / "forget_digits.sh", tmp_path / "work"
    # Data and a model in production, smaller than those that the script would make.
    monkeypatch.setattr(_demo, "TRAINED", 600)
    _demo.write_noisy_digits(work / "digits.npz")
    recipe = Recipe(epochs=12, batch_size=32, lr=0.05, schedule="one-cycle")
    train_initial(
        f"npz:{work / 'digits.npz'}", work / "model.safetensors", width=0.2, recipe=recipe
    )
    tools = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    run = subprocess.run(
        ["bash", str(script), str(work)],
        env=os.environ | {"PATH": tools, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=1400,
    )
    assert run.returncode == 0, run.stderr
    assert "150 of 600 training records" in run.stdout
    assert "Everything holds." in run.stdout
    assert (work / "requests" / "0001" / "report.html").is_file()


@pytest.mark.thorough
def test_a_language_model_forgets_codes(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("transformers")
    table = load_example("forget_text").main(seeds=1, people=10, alphas=(0.2,))
    printed = capsys.readouterr().out
    assert "α=0.2 NPO-FOCUS" in printed
    assert "seed by seed" in printed
    initial, retrained = table.pop("initial")[0], table.pop("retrained without")[0]
    assert (initial[1], initial[3]) == (100, 100)
    assert (retrained[1], retrained[3]) == (0, 100)
    assert len(table) == 4
    for forget_loss, forget_out, retain_loss, _, _ in (rows[0] for rows in table.values()):
        assert forget_out == 0
        assert forget_loss > 2.3
        assert retain_loss < forget_loss / 2


@quiet
def test_lightning_forgets_and_keeps(
    capsys: pytest.CaptureFixture[str], one_thread: None, tmp_path: Path
) -> None:
    pytest.importorskip("lightning")
    example = load_example("lightning_loop")
    whole = example.run(epochs=6).lightning_module
    example.run(epochs=3).save_checkpoint(tmp_path / "half.ckpt")
    again = example.run(epochs=6, resume=tmp_path / "half.ckpt").lightning_module
    assert same(bits(whole), bits(again))
    assert whole.update.state.step == again.update.state.step == 24
    _, forget, retain = example.world()
    away, kept = (example.mean_square(whole.net, d.tensors).item() for d in (forget, retain))
    assert away > 2 * kept
    assert capsys.readouterr().out.count("feasible") == 3


def test_every_example_has_a_test() -> None:
    source = Path(__file__).read_text()
    for path in EXAMPLES.glob("*.py"):
        assert f'load_example("{path.stem}")' in source
    for path in EXAMPLES.glob("*.sh"):
        assert f'"{path.name}"' in source
