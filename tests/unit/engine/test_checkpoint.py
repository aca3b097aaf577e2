"""A run killed anywhere and started again ends as if nothing had happened."""

from __future__ import annotations

import errno
import os
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.torch
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, RandomSampler

import expunge
from expunge import Callback, InvalidInput, Recipe, Result, SampleMoments, StorageError
from expunge._errors import DataError
from expunge.engine import Run
from tests import tiny
from tests.tiny import Counting, TinyConv, bits, images, points, same, without_seconds
from tests.unit.dispatch.forks import Fork

FORGET, RETAIN = images(11, seed=1), images(14, seed=2)
ROOT = Path(__file__).parents[3]

Go = Callable[..., Result]


class Killed(Exception):
    """What happens to a process, as far as a test can go without dying."""


class KillAt(Callback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, run: Run) -> None:
        if run.step == self.step:
            raise Killed


def unlearn(**options: Any) -> Result:
    """Four steps an epoch, two epochs; every second step is kept."""
    chosen: dict[str, Any] = {
        "forget": FORGET,
        "retain": RETAIN,
        "epochs": 2,
        "batch_size": 3,
        "lr": 1e-2,
        "checkpoint_every": 2,
    }
    model = options.pop("model", None)
    return tiny.unlearn(model or TinyConv(), **chosen | options)


def random_labels(**options: Any) -> Result:
    return unlearn(model=TinyConv(dropout=0.5), method="random-label", addon="bernoulli", **options)


def ascent(**options: Any) -> Result:
    return unlearn(method="neg-grad-plus", addon="focus", **options)


def scrub(**options: Any) -> Result:
    return unlearn(method="scrub", addon=expunge.Focus(moments=SampleMoments(parts=2)), **options)


def noise_then_tune(**options: Any) -> Result:
    return unlearn(method="mask-small-gradients", addon="saliency", **options)


def strict_with_schedule(**options: Any) -> Result:
    return unlearn(addon="prob", strict=True, schedule="linear", **options)


def retrain(**options: Any) -> Result:
    return unlearn(method="retrain", addon="none", **options | {"lr": 0.1})


def one_cycle(**options: Any) -> Result:
    recipe = Recipe(epochs=2, batch_size=4, schedule="one-cycle")
    return tiny.train(TinyConv(dropout=0.5), RETAIN, recipe=recipe, checkpoint_every=2, **options)


RUNS: list[Go] = [
    random_labels,
    ascent,
    scrub,
    noise_then_tune,
    strict_with_schedule,
    retrain,
    one_cycle,
]


def assert_resumes(go: Go, step: int, path: Path) -> None:
    whole = go()
    with pytest.raises(Killed):
        go(checkpoint=path, callbacks=[KillAt(step)])
    steps: list[int] = []

    class Watch(Callback):
        def on_step(self, run: Run) -> None:
            steps.append(run.step)

    taken_up = go(checkpoint=path, callbacks=[Watch()])
    assert same(bits(whole.model), bits(taken_up.model))
    assert without_seconds(whole.history) == without_seconds(taken_up.history)
    assert steps[0] == (step - 1) // 2 * 2 + 1, "work that was saved was done again, or skipped"


@pytest.mark.parametrize("step", [1, 4, 7])
@pytest.mark.parametrize("go", RUNS, ids=lambda go: go.__name__)
def test_killed_run_resumes_to_the_same_bits(go: Go, step: int, tmp_path: Path) -> None:
    assert_resumes(go, step, tmp_path / "run")


class Augmented(Dataset[Any]):
    """A user's data set that draws from every global generator there is."""

    def __init__(self, base: Dataset[Any]) -> None:
        self.base = base

    def __len__(self) -> int:
        return len(self.base)  # type: ignore[arg-type]

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        x, y = self.base[index]
        shift = random.random() + np.random.rand()  # noqa: NPY002
        return x + 0.1 * torch.randn(x.shape) + 0.1 * shift, int(y)


def own_sampler(data: Dataset[Any]) -> DataLoader[Any]:
    sampler = RandomSampler(data, generator=torch.Generator().manual_seed(5))  # type: ignore[arg-type]
    return DataLoader(data, batch_size=3, sampler=sampler)


DATA: dict[str, Callable[[Dataset[Any]], Any]] = {
    "dataset": Augmented,
    "loader": lambda data: DataLoader(Augmented(data), batch_size=3, shuffle=True),
    "loader with a generator": lambda data: DataLoader(
        Augmented(data), batch_size=3, shuffle=True, generator=torch.Generator().manual_seed(5)
    ),
    "loader with a sampler of its own": own_sampler,
}


@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("step", [3, 6])
def test_killed_run_resumes_over_users_own_data(kind: str, step: int, tmp_path: Path) -> None:
    make = DATA[kind]

    def go(**options: Any) -> Result:
        return random_labels(forget=make(FORGET), retain=make(RETAIN), **options)

    assert_resumes(go, step, tmp_path / "run")


class Shoot(Callback):
    def on_step(self, run: Run) -> None:
        if run.step == 5:
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
def test_a_run_shot_dead_resumes_to_the_same_bits(tmp_path: Path) -> None:
    path = tmp_path / "run"
    child = Fork(lambda: random_labels(checkpoint=path, callbacks=[Shoot()]))
    assert child.wait() == -signal.SIGKILL
    assert_taken_up(path)


@pytest.mark.thorough
def test_a_run_of_another_interpreter_shot_dead_resumes_to_the_same_bits(tmp_path: Path) -> None:
    path = tmp_path / "run"
    code = f"""
from tests.unit.engine.test_checkpoint import Shoot, random_labels

random_labels(checkpoint={str(path)!r}, callbacks=[Shoot()])
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    assert_taken_up(path)


def assert_taken_up(path: Path) -> None:
    assert path.exists()
    whole, taken_up = random_labels(), random_labels(checkpoint=path)
    assert same(bits(whole.model), bits(taken_up.model))
    assert without_seconds(whole.history) == without_seconds(taken_up.history)


def test_a_finished_run_is_not_run_again(tmp_path: Path) -> None:
    first = ascent(checkpoint=tmp_path / "run")
    again = ascent(checkpoint=tmp_path / "run", callbacks=[KillAt(1)])
    assert same(bits(first.model), bits(again.model))
    assert again.history.seconds == first.history.seconds


def test_more_epochs_go_on_from_a_finished_run(tmp_path: Path) -> None:
    ascent(checkpoint=tmp_path / "run")
    longer = ascent(checkpoint=tmp_path / "run", epochs=3)
    assert same(bits(longer.model), bits(ascent(epochs=3).model))


def total(logits: Tensor, targets: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(logits, targets, label_smoothing=0.1)


OTHERS: dict[str, dict[str, Any]] = {
    "addon": {"addon": "prob"},
    "aggregate": {"aggregate": expunge.WeightedSum(0.5, 0.5)},
    "augment": {"augment": expunge.Augment(padding=1)},
    "batchnorm": {"batchnorm": "frozen"},
    "forget": {"forget": images(11, seed=7)},
    "loss": {"loss": total},
    "method": {"method": "scrub"},
    "model": {"model": TinyConv(seed=9)},
    "optimizer": {"lr": 1e-3},
    "retain": {"retain": images(14, seed=7)},
    "seed": {"seed": 1},
    "strict": {"strict": True},
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_checkpoint_of_another_run_is_refused_naming_what_differs(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / "run"
    unlearn(checkpoint=path, epochs=1)
    before = path.read_bytes()
    with pytest.raises(InvalidInput, match=rf"another run \(it differs in {name}\)"):
        unlearn(checkpoint=path, epochs=1, **OTHERS[name])
    assert path.read_bytes() == before


def test_an_aggregation_by_a_function_resumes_in_another_process(tmp_path: Path) -> None:
    path = tmp_path / "run"

    def go() -> Result:
        return unlearn(aggregate=lambda matrix: matrix.mean(dim=0), checkpoint=path, epochs=1)

    assert same(bits(go().model), bits(go().model))  # two lambdas at two addresses


def test_a_truncated_checkpoint_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run"
    unlearn(checkpoint=path, epochs=1)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(DataError, match="truncated"):
        unlearn(checkpoint=path, epochs=1)


def test_a_tampered_checkpoint_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run"
    unlearn(checkpoint=path, epochs=1)
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="digest does not match"):
        unlearn(checkpoint=path, epochs=1)


def test_a_weights_file_is_no_checkpoint(tmp_path: Path) -> None:
    safetensors.torch.save_file({"a": torch.zeros(1)}, tmp_path / "run")
    with pytest.raises(DataError, match="not a checkpoint"):
        unlearn(checkpoint=tmp_path / "run")


@contextmanager
def no_room_beyond(size: int) -> Iterator[None]:
    """A file may not grow beyond ``size`` bytes: the kernel refuses to write, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


def test_a_full_disk_keeps_the_checkpoint_before_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with pytest.raises(Killed):
        ascent(checkpoint=path, callbacks=[KillAt(3)])
    before = path.read_bytes()
    with no_room_beyond(1000), pytest.raises(StorageError, match="The previous content is kept"):
        ascent(checkpoint=path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    assert same(bits(ascent(checkpoint=path).model), bits(ascent().model))


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
        safetensors.SafetensorError("No space left on device (os error 28)"),
    ],
)
def test_no_space_left_is_a_storage_error(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(safetensors.torch, "save_file", fail)
    with pytest.raises(StorageError, match="No space left on device"):
        ascent(checkpoint=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_what_callbacks_record_survives_a_resume_as_plain_numbers(tmp_path: Path) -> None:
    class Note(Callback):
        def on_epoch(self, run: Run) -> None:
            run.record(tensor=torch.tensor(2.0), numpy=np.float32(3.0))  # type: ignore[arg-type]

    path = tmp_path / "run"
    with pytest.raises(Killed):
        ascent(checkpoint=path, callbacks=[Note(), KillAt(7)])
    history = ascent(checkpoint=path, callbacks=[Note()]).history
    assert [(row["tensor"], row["numpy"]) for row in history.epochs] == [(2.0, 3.0)] * 2
    assert all(type(value) in (int, float) for row in history.epochs for value in row.values())


def test_epochs_of_few_steps_share_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[int] = []
    save = Run._save

    def watched(run: Run) -> None:
        saved.append(run.step)
        save(run)

    monkeypatch.setattr(Run, "_save", watched)
    steps = ascent(checkpoint=tmp_path / "run", checkpoint_every=1000, epochs=1).history.epochs[0]
    saved.clear()
    per_epoch = int(steps["steps"])
    assert per_epoch < 10
    ascent(checkpoint=tmp_path / "more", checkpoint_every=1000, epochs=12)
    later = -(-10 // per_epoch) * per_epoch  # the first end of an epoch that is ten steps later
    assert saved[:2] == [per_epoch, per_epoch + later]
    assert saved[-1] == 12 * per_epoch, "the end is always kept"
    assert len(saved) == len(set(saved))


def test_a_diverged_run_leaves_no_checkpoint_to_stumble_over(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "model": Counting(),
        "forget": points(6),
        "retain": points(6, seed=1),
        "checkpoint": tmp_path / "run",
        "checkpoint_every": 1,
    }
    with pytest.raises(expunge.Diverged):
        unlearn(**options, lr=1e38)
    assert list(tmp_path.iterdir()) == []
    unlearn(**options, lr=1e-3)
