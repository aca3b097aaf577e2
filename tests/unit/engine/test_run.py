"""The loop: what a step sees, what an epoch is, what is left as it was."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import expunge
from expunge import Callback, InvalidInput, Method, Problem, Recipe, Result
from expunge.engine import Run
from expunge.methods import METHODS, Batch
from expunge.update import ADDONS
from tests import tiny
from tests.tiny import Counting, TinyConv, bits, images, points, same, without_seconds

FORGET, RETAIN = images(11, seed=1), images(14, seed=2)


def unlearn(model: nn.Module | None = None, **options: Any) -> Result:
    chosen: dict[str, Any] = {"forget": FORGET, "retain": RETAIN, "unseen": images(10, seed=3)}
    chosen |= {"epochs": 2, "batch_size": 4, "lr": 1e-2}
    return tiny.unlearn(model or TinyConv(), **chosen | options)


class Seen(Method):
    """Fine-tuning that writes down the batches of every step."""

    def __init__(self) -> None:
        object.__setattr__(self, "batches", [])

    def objective(self, problem: Problem, forget: Batch, retain: Batch) -> Tensor:
        self.batches.append((forget, retain))  # type: ignore[attr-defined]
        return problem.loss_on(retain)


def seen(**options: Any) -> list[tuple[Batch, Batch]]:
    method = Seen()
    chosen: dict[str, Any] = {"forget": points(6), "retain": points(8, seed=1), "batch_size": 2}
    unlearn(Counting(), method=method, addon="none", **chosen | options)
    found: list[tuple[Batch, Batch]] = method.batches  # type: ignore[attr-defined]
    return found


def rows(batches: list[Batch]) -> list[tuple[float, ...]]:
    return [tuple(row.tolist()) for batch in batches for row in batch.inputs]


# Batches


def test_retain_data_go_on_unless_the_released_order_is_wanted() -> None:
    """Three steps an epoch of four retain batches: the second epoch begins with the fourth."""
    continued, released = (
        [retain for _, retain in seen(epochs=3, retain_order=order)]
        for order in ("continued", "released")
    )
    assert rows(released[:3]) == rows(continued[:3])
    assert sorted(rows(continued[:4])) == sorted(map(tuple, points(8, seed=1).tensors[0].tolist()))
    assert rows(released[3:6]) == rows(continued[4:7]), "the second pass, from its beginning"
    assert rows(released[6:7]) == rows(continued[8:]), "and the third"


def test_in_the_released_order_augmentation_ends_with_the_first_epoch() -> None:
    """Also in a run that is resumed in the middle of a later one."""
    plain = {tuple(x.flatten().tolist()) for x in (*FORGET.tensors[0], *RETAIN.tensors[0])}
    method = Seen()
    options = {"augment": expunge.Augment(padding=2), "retain_order": "released", "epochs": 3}
    unlearn(method=method, addon="none", **options)
    steps = len(method.batches) // 3  # type: ignore[attr-defined]
    for number, pair in enumerate(method.batches):  # type: ignore[attr-defined]
        found = {tuple(x.flatten().tolist()) for batch in pair for x in batch.inputs}
        assert (found <= plain) is (number >= steps)


def test_the_released_order_resumes(tmp_path: Path) -> None:
    options = {"augment": expunge.Augment(padding=2), "retain_order": "released", "epochs": 3}

    class Stop(Callback):
        def on_step(self, run: Run) -> None:
            if run.step == 5:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        unlearn(checkpoint=tmp_path / "run", checkpoint_every=2, callbacks=[Stop()], **options)
    resumed = unlearn(checkpoint=tmp_path / "run", checkpoint_every=2, **options)
    assert same(bits(resumed.model), bits(unlearn(**options).model))


# Randomness


@pytest.mark.parametrize("addon", ["none", "bernoulli", "focus"])
@pytest.mark.parametrize("method", ["random-label", "scrub", "mask-small-gradients", "retrain"])
def test_same_seed_same_bits(method: str, addon: str) -> None:
    model = TinyConv(dropout=0.5)
    first, second = (unlearn(model, method=method, addon=addon, seed=3) for _ in range(2))
    assert same(bits(first.model), bits(second.model))
    assert without_seconds(first.history) == without_seconds(second.history)


def test_another_seed_gives_another_model() -> None:
    first, second = (unlearn(seed=seed) for seed in (0, 1))
    assert not same(bits(first.model), bits(second.model))


def test_the_surrounding_randomness_has_no_influence() -> None:
    first = unlearn(TinyConv(dropout=0.5))
    torch.manual_seed(77)
    assert same(bits(first.model), bits(unlearn(TinyConv(dropout=0.5)).model))


@pytest.mark.parametrize("loader", [False, True])
@pytest.mark.parametrize("method", ["random-label", "mask-small-gradients", "retrain"])
def test_the_users_random_states_are_untouched(method: str, loader: bool) -> None:
    def wrap(data: Dataset[Any]) -> Any:
        return DataLoader(data, batch_size=4, shuffle=True) if loader else data

    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1]  # noqa: NPY002
    unlearn(
        TinyConv(dropout=0.5),
        forget=wrap(FORGET),
        retain=wrap(RETAIN),
        method=method,
        addon="bernoulli",
    )
    tiny.train(TinyConv(dropout=0.5), wrap(RETAIN), recipe=Recipe(epochs=1, batch_size=8))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert (np.random.get_state()[1] == before[2]).all()  # noqa: NPY002


def test_data_never_reseed_the_accelerator_the_model_draws_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(seed: int) -> None:
        raise AssertionError("an accelerator was reseeded")

    source = expunge.data._sources.LoaderSource(
        DataLoader(RETAIN, batch_size=4, shuffle=True), "retain", 0, torch.device("cpu")
    )
    monkeypatch.setattr(torch.cuda, "manual_seed_all", fail)
    assert len(list(source.walk(0, 0))) == 4


# Batches


def test_an_epoch_is_one_pass_over_forget_beside_as_many_retain_batches() -> None:
    steps = seen(epochs=1)
    assert len(steps) == 3
    forgotten, retained = zip(*steps, strict=True)
    assert sorted(rows(list(forgotten))) == sorted(rows([Batch(*points(6).tensors, "forget")]))
    assert all(len(batch.inputs) == 2 for batch in retained)
    assert len(set(rows(list(retained)))) == 6
    assert {f.split for f, _ in steps} == {"forget"}
    assert {r.split for _, r in steps} == {"retain"}


def test_retain_goes_on_from_epoch_to_epoch() -> None:
    retained = [retain for _, retain in seen(epochs=4)]
    assert len(retained) == 12
    everything = sorted(rows([Batch(*points(8, seed=1).tensors, "retain")]))
    for start in (0, 4, 8):  # three passes in four epochs
        assert sorted(rows(retained[start : start + 4])) == everything


def test_a_smaller_retain_set_is_reshuffled_and_goes_on() -> None:
    retained = [r for _, r in seen(forget=points(40), retain=points(6, seed=1), epochs=1)]
    passes = [rows(retained[k : k + 3]) for k in (0, 3, 6, 9, 12, 15)]
    assert len(retained) == 20
    assert all(sorted(one) == sorted(passes[0]) for one in passes)
    assert len({tuple(one) for one in passes}) > 1


def test_forget_is_reshuffled_from_epoch_to_epoch() -> None:
    forgotten = [forget for forget, _ in seen(forget=points(20), epochs=2)]
    assert rows(forgotten[:10]) != rows(forgotten[10:])
    assert sorted(rows(forgotten[:10])) == sorted(rows(forgotten[10:]))


@pytest.mark.parametrize("method", [k for k in METHODS if METHODS[k].epoch_over == "forget"])
def test_epochs_of_all_methods_take_as_many_steps(method: str) -> None:
    history = unlearn(method=method).history
    assert history.column("steps") == [3, 3]
    assert history.column("epoch") == [1, 2]


@pytest.mark.parametrize(
    ("method", "addon", "calls"),
    [
        ("random-label", "none", 2),
        ("random-label", "saliency", 2),
        ("scrub", "none", 2),
        ("scrub", "saliency", 2),
        ("neg-grad-plus", "saliency", 2),
        ("gradient-ascent", "saliency", 1),
        ("fine-tune", "none", 1),
        ("fine-tune", "saliency", 2),
        ("fine-tune", "focus", 1),
        ("l1-sparse", "none", 1),
        ("l1-sparse", "saliency", 2),
    ],
)
def test_no_forward_pass_too_many(method: str, addon: str, calls: int) -> None:
    class Count(Callback):
        def on_step(self, run: Run) -> None:
            self.calls = run.model.calls

    count = Count()
    unlearn(
        Counting(),
        forget=points(6),
        retain=points(6, seed=1),
        method=method,
        addon=addon,
        batch_size=2,
        epochs=1,
        callbacks=[count],
    )  # the pass that looks at the last step comes later
    assert count.calls == 3 * calls


@pytest.mark.parametrize("method", list(METHODS))
def test_a_forget_set_of_one_example(method: str) -> None:
    result = unlearn(forget=images(1), method=method)
    assert all(value.isfinite().all() for value in bits(result.model).values())


@pytest.mark.parametrize("policy", ["published", "retain-only", "frozen"])
@pytest.mark.parametrize("method", ["random-label", "scrub"])
def test_a_last_batch_of_one_does_not_crash(method: str, policy: Any) -> None:
    flat = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    loaders = [DataLoader(points(n, seed=n), batch_size=4, shuffle=True) for n in (5, 9)]
    result = unlearn(flat, forget=loaders[0], retain=loaders[1], method=method, batchnorm=policy)
    assert result.history.column("steps") == [2, 2]
    assert all(value.isfinite().all() for value in bits(result.model).values())


def test_sample_moments_use_every_example_of_unequal_batches() -> None:
    sizes: list[tuple[int, int]] = []

    class Sizes(Method):
        def objective(self, problem: Problem, forget: Batch, retain: Batch) -> Tensor:
            sizes.append((len(forget.inputs), len(retain.inputs)))
            return -problem.loss_on(forget)

        def constraint(self, problem: Problem, forget: Batch, retain: Batch) -> Tensor:
            return problem.loss_on(retain)

    unlearn(
        Counting(),
        forget=points(2),
        retain=points(8, seed=1),
        method=Sizes(),
        addon=expunge.Focus(moments="sample"),
        batch_size=8,
        epochs=1,
    )
    assert sizes == [(1, 4), (1, 4)]


def test_sample_moments_refuse_batches_of_one_with_a_remedy() -> None:
    with pytest.raises(InvalidInput, match=r"batches of at least 2 examples.*`adam`"):
        unlearn(forget=images(1), addon=expunge.Focus(moments="sample"))


# What comes out


def test_the_result_is_in_eval_mode_contiguous_and_without_gradients() -> None:
    model = TinyConv().to(memory_format=torch.channels_last)
    result = unlearn(model)
    assert not any(module.training for module in result.model.modules())
    assert all(t.is_contiguous() for t in bits(result.model).values())
    assert all(p.grad is None for p in result.model.parameters())
    assert type(result.model) is TinyConv


def test_the_input_model_keeps_bits_mode_gradients_and_layout() -> None:
    model = TinyConv()
    model.conv1.train()
    model.bn1.eval()
    model.head.weight.grad = torch.ones_like(model.head.weight)
    before, strides = bits(model), [p.stride() for p in model.parameters()]
    unlearn(model)
    assert same(bits(model), before)
    assert model.conv1.training
    assert not model.bn1.training
    assert torch.equal(model.head.weight.grad, torch.ones_like(model.head.weight))
    assert [p.stride() for p in model.parameters()] == strides


def test_a_model_that_counts_on_the_plain_layout_keeps_it() -> None:
    class Viewing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(1, 4, 3)
            self.head = nn.Linear(36, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(torch.relu(self.conv(x)).view(len(x), -1))

    result = unlearn(Viewing())
    assert result.history.column("steps") == [3, 3]


def test_frozen_parameters_stay_and_tied_ones_stay_tied() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.frozen = nn.Linear(4, 4)
            self.frozen.requires_grad_(False)
            self.first = nn.Linear(4, 4)
            self.again = self.first
            self.head = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.again(torch.relu(self.first(self.frozen(x)))))

    model = Tied()
    after = unlearn(model, forget=points(6), retain=points(6, seed=1)).model
    assert torch.equal(after.frozen.weight, model.frozen.weight)
    assert after.first.weight is after.again.weight
    assert not torch.equal(after.first.weight, model.first.weight)


def test_strict_moves_nothing_outside_the_mask() -> None:
    class Fixed(expunge.Addon):
        """Only positive gradients of the objective may move their weight."""

        def weight(self, signals: expunge.Signals) -> Tensor:
            return (signals.objective > 0).to(signals.objective.dtype)

    changes: dict[bool, int] = {}
    for strict in (False, True):
        model = Counting()
        result = unlearn(
            model,
            forget=points(4),
            retain=points(4, seed=1),
            method="neg-grad-plus",
            addon=Fixed(),
            strict=strict,
            epochs=1,
            optimizer=lambda params: torch.optim.SGD(params, lr=0.1, weight_decay=0.5),
        )
        changed = result.model.head.weight != model.head.weight
        changes[strict] = int(changed.sum())
    assert changes[False] == 12, "weight decay moves every weight"
    assert 0 < changes[True] < 12


# Optimizers


@pytest.mark.parametrize(
    "optimizer",
    [
        torch.optim.SGD,
        torch.optim.AdamW,
        torch.optim.RMSprop,
        torch.optim.Adagrad,
        lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9, nesterov=True),
    ],
)
@pytest.mark.parametrize("addon", list(ADDONS))
def test_any_optimizer_will_do(optimizer: Any, addon: str) -> None:
    model = TinyConv()
    result = unlearn(model, addon=addon, optimizer=optimizer, epochs=1)
    assert not same(bits(result.model), bits(model))


def test_an_optimizer_class_is_given_the_rate() -> None:
    rates: list[float] = []

    class Note(Callback):
        def on_step(self, run: Run) -> None:
            rates.append(run.optimizer.param_groups[0]["lr"])

    unlearn(optimizer=torch.optim.SGD, lr=0.125, epochs=1, callbacks=[Note()])
    assert rates == [0.125] * 3


def test_a_schedule_falls_with_every_step() -> None:
    rates: list[float] = []

    class Note(Callback):
        def on_step(self, run: Run) -> None:
            rates.append(run.optimizer.param_groups[0]["lr"])

    unlearn(
        forget=images(8),
        retain=images(8, seed=1),
        addon="none",
        lr=1.0,
        optimizer=torch.optim.SGD,
        schedule="linear",
        callbacks=[Note()],
    )
    assert rates == [0.75, 0.5, 0.25, 0.0]


def test_what_is_no_optimizer_is_refused() -> None:
    with pytest.raises(InvalidInput, match="`optimizer` should make a torch optimizer"):
        unlearn(optimizer=lambda params: "Adam")


def test_the_default_is_adam_at_1e_4() -> None:
    model = Counting()
    result = tiny.unlearn(
        model, forget=points(4), retain=points(4, seed=1), method="fine-tune", epochs=1
    )
    # Adam's first step is the rate itself, whatever the gradient.
    step = (result.model.head.weight - model.head.weight).abs()
    assert torch.allclose(step, torch.full_like(step, 1e-4), atol=1e-6)


# History and callbacks


# Training
