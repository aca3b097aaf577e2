"""A callback at the wheel: rates, aggregation, going back, divergence, and states that are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import TensorDataset

from expunge import Callback, Diverged, InvalidInput, Result, WeightedSum
from expunge.engine import Run
from tests import tiny
from tests.tiny import Counting, TinyConv, bits, images, points, same, without_seconds

FORGET, RETAIN = images(11, seed=1), images(14, seed=2)


def unlearn(**options: Any) -> Result:
    chosen: dict[str, Any] = {"forget": FORGET, "retain": RETAIN, "epochs": 3, "batch_size": 4}
    model = options.pop("model", None)
    return tiny.unlearn(model or TinyConv(dropout=0.5), **chosen | {"lr": 1e-2} | options)


class At(Callback):
    """Does something at the end of one epoch."""

    def __init__(self, epoch: int, act: Any) -> None:
        self.epoch, self.act = epoch, act

    def on_epoch(self, run: Run) -> None:
        if run.epoch == self.epoch:
            self.act(run)


class Restless(Callback):
    """Changes rate and α every epoch, counts, and goes back to where the first epoch ended."""

    def __init__(self, kill: int = 0) -> None:
        self.count, self.kill = 0, kill
        self.kept: Any = None

    def on_epoch(self, run: Run) -> None:
        self.count += 1
        run.set_lr(run.lr * 0.7)
        run.set_aggregate(WeightedSum(0.1 * self.count, 1.0))
        if self.kept is None:
            self.kept = run.snapshot()
        elif self.count == 2:
            run.restore(self.kept)

    def on_step(self, run: Run) -> None:
        if run.step == self.kill:
            raise KeyboardInterrupt

    def state_dict(self) -> dict[str, Any]:
        kept = None if self.kept is None else self.kept.state_dict()
        return {"count": self.count, "kept": kept}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        from expunge.engine._snapshots import Snapshot

        self.count = state["count"]
        self.kept = None if state["kept"] is None else Snapshot(**state["kept"])


@pytest.mark.parametrize("kill", [1, 5, 7, 8, 11])
def test_killed_run_with_a_steering_callback_resumes_to_the_same_bits(
    kill: int, tmp_path: Path
) -> None:
    whole = unlearn(epochs=4, callbacks=[Restless()], progress=False)
    options: dict[str, Any] = {"epochs": 4, "checkpoint": tmp_path / "c", "checkpoint_every": 2}
    with pytest.raises(KeyboardInterrupt):
        unlearn(callbacks=[Restless(kill)], **options)
    again = unlearn(callbacks=[Callback(), Restless()], progress=False, **options)
    assert same(bits(again.model), bits(whole.model))
    assert without_seconds(again.history) == without_seconds(whole.history)


def test_restore_goes_back_to_the_weights_and_states_of_the_snapshot() -> None:
    kept: dict[str, Any] = {}

    def keep(run: Run) -> None:
        kept["snapshot"] = run.snapshot()
        kept["weights"] = bits(run.model)

    def back(run: Run) -> None:
        assert not same(bits(run.model), kept["weights"])
        run.restore(kept["snapshot"])
        assert same(bits(run.model), kept["weights"])
        again = run.snapshot()
        assert again.update["step"] == kept["snapshot"].update["step"]
        for name, value in kept["snapshot"].optimizer[0].items():
            assert torch.equal(again.optimizer[0][name], value)
        run.stop()

    result = unlearn(callbacks=[At(1, keep), At(2, back)])
    assert same(bits(result.model), kept["weights"])


def test_restore_keeps_the_rate_of_now() -> None:
    rates = []

    class Steer(Callback):
        def on_start(self, run: Run) -> None:
            self.first = run.snapshot()

        def on_epoch(self, run: Run) -> None:
            run.set_lr(run.lr / 2)
            run.restore(self.first)
            rates.append(run.lr)

    unlearn(callbacks=[Steer()])
    assert rates == [5e-3, 2.5e-3, 1.25e-3]


def test_a_schedule_goes_on_from_a_rate_that_was_set() -> None:
    rates = []

    class Steer(Callback):
        def on_epoch(self, run: Run) -> None:
            rates.append(run.lr)
            if run.epoch == 1:
                run.set_lr(run.lr * 0.1)

    def halve(optimizer: torch.optim.Optimizer) -> Any:
        return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.5**epoch)

    unlearn(callbacks=[Steer()], schedule=halve)
    assert rates == pytest.approx([5e-3, 2.5e-4, 1.25e-4])


def test_a_rate_should_be_positive() -> None:
    with pytest.raises(InvalidInput, match="`lr` should be positive"):
        unlearn(callbacks=[At(1, lambda run: run.set_lr(0.0))])


def test_an_aggregation_that_was_set_is_used() -> None:
    plain = unlearn(epochs=2)
    other = unlearn(
        epochs=2, callbacks=[At(1, lambda run: run.set_aggregate(WeightedSum(0.9, 0.1)))]
    )
    assert plain.history.epochs[0]["objective"] == other.history.epochs[0]["objective"]
    assert not same(bits(plain.model), bits(other.model))


class Mend(Callback):
    """Answers divergence by going back to the start, at a lower rate."""

    def __init__(self) -> None:
        self.times = 0

    def on_start(self, run: Run) -> None:
        self.first = run.snapshot()

    def on_divergence(self, run: Run, error: Diverged) -> bool:
        self.times += 1
        run.restore(self.first)
        run.set_lr(1e-3)
        return True


@pytest.mark.parametrize("strict", [False, True])
def test_a_callback_can_put_divergence_right(strict: bool) -> None:
    x = torch.ones(6, 4)
    data = TensorDataset(x, torch.arange(6) % 3)
    options: dict[str, Any] = {
        "model": Counting(),
        "method": "neg-grad-plus",
        "forget": data,
        "retain": points(6, seed=3),
        "batch_size": 2,
        "epochs": 4,
        "lr": 1e38,
        "strict": strict,
    }
    with pytest.raises(Diverged):
        unlearn(**options)
    mend = Mend()
    result = unlearn(callbacks=[mend], **options)
    assert mend.times == 1
    assert len(result.history.epochs) == 4
    assert all(p.isfinite().all() for p in result.model.parameters())


def test_callbacks_without_state_add_nothing_to_a_checkpoint(tmp_path: Path) -> None:
    from expunge import _tensors as tensors

    unlearn(epochs=1, checkpoint=tmp_path / "c", callbacks=[Callback()])
    arrays, notes = tensors.load(tmp_path / "c")
    tree = tensors.unpack(arrays, notes["tree"])
    assert tree["callbacks"] == []
    assert tree["aggregate"] is None


def test_a_checkpoint_from_before_callbacks_had_states_still_loads(tmp_path: Path) -> None:
    from expunge import _tensors as tensors

    path = tmp_path / "c"
    whole = unlearn(epochs=2)
    unlearn(epochs=1, checkpoint=path)
    arrays, notes = tensors.load(path)
    tree = tensors.unpack(arrays, notes["tree"])
    del tree["callbacks"], tree["aggregate"]
    packed, plain = tensors.pack(tree)
    tensors.save(path, packed, notes | {"tree": plain})
    assert same(bits(unlearn(epochs=2, checkpoint=path).model), bits(whole.model))
