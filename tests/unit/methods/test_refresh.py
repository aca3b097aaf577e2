"""Refresh: weights are mixed with fresh ones before the first step; forget data are never read."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import Dataset, TensorDataset

import expunge
from expunge import InvalidInput, Recipe, Result
from expunge import _tensors as tensors
from expunge.methods import Batch, Problem, Refresh
from expunge.methods._refresh import features_of, find_keep, known_part, probe
from tests import tiny
from tests.tiny import TinyConv, bits, images, points, same, without_seconds

KERNELS = {"conv1.weight": 0.0, "conv2.weight": 0.5, "head.weight": 1.0}
"""What is mixed, and how deep it is."""


def problem(model: nn.Module, data: TensorDataset | None = None, **options: Any) -> Problem:
    x, y = (data or images(60)).tensors
    batches = [Batch(x[k::3], y[k::3], "retain") for k in range(3)]
    return Problem(model, retained=lambda: iter(batches), **options)


def trained(seed: int = 0) -> TinyConv:
    model = TinyConv(seed=seed)
    recipe = Recipe(epochs=15, batch_size=20, lr=0.05, schedule="one-cycle")
    return tiny.train(model, images(60), recipe=recipe, progress=False).model  # type: ignore[return-value]


def run(model: nn.Module | None = None, **options: Any) -> Result:
    chosen: dict[str, Any] = {
        "forget": images(6, seed=1),
        "retain": images(60),
        "method": "refresh",
    }
    chosen |= {"epochs": 2, "batch_size": 20, "addon": "none", "progress": False}
    return tiny.unlearn(model or trained(), **chosen | options)


def test_weights_are_mixed_with_those_of_a_fresh_model_of_the_same_norm() -> None:
    model, keep = trained(), 0.3
    before = bits(model)
    Refresh(keep=keep).prepare(problem(model))

    # The slow way: a second model, reset with the seed that the method draws.
    fresh = TinyConv()
    seed = int(torch.randint(2**62, (), generator=torch.Generator().manual_seed(0)))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        for module in (fresh.head, fresh.bn2, fresh.conv2, fresh.bn1, fresh.conv1):
            module.reset_parameters()
    drawn = fresh.state_dict()
    for name, value in model.state_dict().items():
        if name in KERNELS:
            scale = before[name].square().sum().sqrt() / drawn[name].square().sum().sqrt()
            share = keep ** (0.5 + KERNELS[name])
            expected = share * before[name] + (1 - share) * scale * drawn[name]
            assert torch.allclose(value, expected, atol=1e-6), name
        elif "running" not in name and "num_batches" not in name:
            assert torch.equal(value, before[name]), name


def test_nothing_kept_is_a_fresh_tensor_of_the_trained_norm() -> None:
    model = trained()
    before = bits(model)
    Refresh(keep=0.0).prepare(problem(model))
    for name in KERNELS:
        value = model.state_dict()[name]
        assert float(value.norm()) == pytest.approx(float(before[name].norm()), rel=1e-5)
        assert not (value == before[name]).any()


def test_everything_kept_changes_statistics_alone() -> None:
    model = trained()
    before = bits(model)
    Refresh(keep=1.0).prepare(problem(model))
    for name, value in model.state_dict().items():
        if "running" not in name and "num_batches" not in name:
            assert torch.equal(value, before[name]), name


def test_statistics_are_the_means_over_retained_batches() -> None:
    model, data = trained(), images(60)
    Refresh(keep=1.0).prepare(problem(model, data))
    passed = [
        F.conv2d(data.tensors[0][k::3], model.conv1.weight, model.conv1.bias, padding=1)
        for k in range(3)
    ]
    expected = torch.stack([part.mean(dim=(0, 2, 3)) for part in passed]).mean(dim=0)
    assert torch.allclose(model.bn1.running_mean, expected, atol=1e-5)
    assert model.bn1.momentum == 0.1
    assert model.training is False


def test_frozen_parameters_stay() -> None:
    model = trained()
    model.conv1.requires_grad_(False)
    before = bits(model)
    Refresh(keep=0.3).prepare(problem(model))
    assert torch.equal(model.conv1.weight, before["conv1.weight"])
    assert not torch.equal(model.conv2.weight, before["conv2.weight"])


def test_a_parameter_that_no_module_can_draw_is_mixed_with_noise_of_its_norm() -> None:
    class Bare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3, 4))

        def forward(self, x: Tensor) -> Tensor:
            return x @ self.weight.T

    model = Bare()
    Refresh(keep=0.0).prepare(problem(model, points(30)))
    assert float(model.weight.detach().norm()) == pytest.approx(12**0.5)
    assert len(model.weight.detach().unique()) == 12


@pytest.mark.parametrize("kind", ["model", "state", "file"])
def test_a_reference_takes_the_place_of_fresh_weights_and_is_not_scaled(
    kind: str, tmp_path: Path
) -> None:
    model, reference = trained(), TinyConv(seed=5)
    before = bits(model)
    given: Any = reference if kind == "model" else reference.state_dict()
    if kind == "file":
        tensors.save(tmp_path / "base.safetensors", reference.state_dict(), {})
        given = str(tmp_path / "base.safetensors")
    Refresh(keep=0.25, reference=given).prepare(problem(model))
    count = len(list(model.parameters()))
    for index, (name, p) in enumerate(model.named_parameters()):
        share = 0.25 ** (0.5 + index / (count - 1))
        expected = share * before[name] + (1 - share) * reference.state_dict()[name]
        assert torch.allclose(p, expected, atol=1e-6), name


def test_a_new_head_is_mixed_with_a_fresh_one() -> None:
    model = trained()
    before = bits(model)
    reference = {k: v for k, v in TinyConv(seed=5).state_dict().items() if "head" not in k}
    Refresh(keep=0.0, reference=reference).prepare(problem(model))
    assert torch.equal(model.conv1.bias, reference["conv1.bias"])
    assert float(model.head.weight.detach().norm()) == pytest.approx(
        float(before["head.weight"].norm())
    )
    assert torch.equal(model.head.bias, before["head.bias"])


class Unreadable(Dataset[Any]):
    """Records that are gone but for their number."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        raise AssertionError("The forget set was read.")


def test_forget_data_are_never_read_and_their_number_does_not_matter() -> None:
    model = trained()
    states = [bits(run(model, forget=Unreadable(count)).model) for count in (1, 20, 60)]
    assert all(same(states[0], state) for state in states)


def test_a_whole_class_can_be_forgotten() -> None:
    x, y = images(60).tensors
    result = run(
        retain=TensorDataset(x[y > 0], y[y > 0]), forget=TensorDataset(x[y == 0], y[y == 0])
    )
    assert 0.0 <= result.history.epochs[0]["keep"] < 1.0


def test_the_same_seed_gives_the_same_bits_and_keeps_the_model_given() -> None:
    model = trained()
    before, first, second = bits(model), run(model), run(model)
    assert same(bits(model), before)
    assert same(bits(first.model), bits(second.model))
    assert without_seconds(first.history) == without_seconds(second.history)
    assert not same(bits(first.model), bits(run(model, seed=1).model))


def test_a_resumed_run_ends_with_the_same_bits(tmp_path: Path) -> None:
    class Stop(expunge.Callback):
        def on_step(self, run: Any) -> None:
            if run.step == 4:
                raise KeyboardInterrupt

    model, path = trained(), tmp_path / "checkpoint"
    whole = run(model)
    with pytest.raises(KeyboardInterrupt):
        run(model, checkpoint=path, checkpoint_every=2, callbacks=[Stop()])
    resumed = run(model, checkpoint=path, checkpoint_every=2)
    assert same(bits(resumed.model), bits(whole.model))
    assert resumed.history.epochs[-1]["keep"] == whole.history.epochs[-1]["keep"]


def test_less_is_left_in_a_model_without_batchnorm() -> None:
    plain, normalised = nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    assert (Refresh().left_in(plain), Refresh().left_in(normalised)) == (0.2, 0.5)
    assert Refresh(left=0.4).left_in(plain) == 0.4
    assert Refresh(reference=plain.state_dict()).left_in(plain) == 0.5


def test_more_is_kept_where_more_may_be_left() -> None:
    model = trained()
    kept = [
        run(model, method=Refresh(left=left)).history.epochs[0]["keep"] for left in (0.1, 0.5, 0.9)
    ]
    assert kept == sorted(kept)
    assert kept[0] < kept[-1]


@pytest.mark.parametrize("scores", list(itertools.permutations((0.0, 0.2, 0.5, 0.9)))[::5])
def test_the_choice_is_monotone_whatever_the_scores(scores: tuple[float, ...]) -> None:
    def score(keep: float) -> float:
        return keep if keep in (0.0, 1.0) else scores[int(4 * keep)]

    chosen = [find_keep(score, left / 10) for left in range(1, 10)]
    assert chosen == sorted(chosen)


def test_a_model_that_knows_nothing_keeps_nothing() -> None:
    assert find_keep(lambda keep: 0.1, left=0.15) == 0.0


@pytest.mark.parametrize(
    ("outputs", "targets", "known"),
    [
        (torch.eye(3)[[0, 1, 2, 2]], torch.tensor([0, 1, 2, 2]), 1.0),
        (torch.eye(3)[[0, 0, 0, 0]], torch.tensor([0, 0, 0, 1]), 0.5),
        (torch.eye(3)[[0, 0, 0, 0]], torch.tensor([0, 0, 1, 2]), 1 / 3),
        (torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([3.0, 2.0, 1.0]), 1.0),
        (torch.tensor([[1.0], [1.0], [1.0]]), torch.tensor([3.0, 2.0, 1.0]), 0.0),
    ],
)
def test_what_is_known_is_accuracy_over_classes_or_correlation(
    outputs: Tensor, targets: Tensor, known: float
) -> None:
    assert float(known_part(outputs, targets)) == pytest.approx(known)


def test_features_are_what_the_last_layer_with_weights_is_given() -> None:
    model = trained().eval()
    x = images(60).tensors[0]
    with features_of(model) as features, torch.no_grad():
        outputs = model(x)
    (given,) = features
    assert torch.allclose(F.linear(given, model.head.weight, model.head.bias), outputs)
    assert not any(module._forward_pre_hooks for module in model.modules())


@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_the_probe_is_a_ridge_regression_by_all_other_rows(kind: str) -> None:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(40, 5, generator=generator, dtype=torch.float64)
    noise = torch.randn(40, generator=generator, dtype=torch.float64)
    score = x[:, 0] - x[:, 1] + noise
    targets = (score > 0).long() + 1 if kind == "classes" else score

    # The slow way: a regression without each row; means are those of all rows.
    rows = (x - x.mean(dim=0)) / x.std(dim=0, correction=0)
    wanted = torch.stack((targets == 1, targets == 2), 1).double() if kind == "classes" else score
    wanted = wanted.reshape(40, -1)
    told = torch.zeros_like(wanted)
    for row in range(40):
        others = torch.arange(40) != row
        matrix = rows[others].T @ rows[others] + 0.1 * 5 * torch.eye(5, dtype=torch.float64)
        weights = torch.linalg.inv(matrix) @ rows[others].T @ (wanted - wanted.mean(dim=0))[others]
        told[row] = rows[row] @ weights + wanted.mean(dim=0)
    if kind == "classes":
        right = told.argmax(dim=1) + 1 == targets
        expected = sum(float(right[targets == c].double().mean()) for c in (1, 2)) / 2
    else:
        expected = float(torch.corrcoef(torch.stack((told[:, 0], score)))[0, 1] ** 2)
    assert float(probe(x, targets)) == pytest.approx(expected)
    assert 0.2 < expected < 0.95


def test_the_probe_does_not_read_rounding() -> None:
    x, y = points(60).tensors
    constant = torch.ones(60, 3) + 1e-7 * torch.randn(60, 3)
    assert float(probe(torch.cat((x, constant), 1), y)) == pytest.approx(
        float(probe(torch.cat((x, torch.ones(60, 3)), 1), y)), abs=1e-9
    )


def test_a_regression_can_be_refreshed() -> None:
    x = points(60).tensors[0]
    data = TensorDataset(x, x.sum(dim=1, keepdim=True))
    result = run(nn.Linear(4, 1), retain=data, forget=Unreadable(5), loss=F.mse_loss)
    assert result.history.epochs[-1]["keep"] < 1.0


def test_a_fifth_of_the_recipe_is_followed_and_what_is_given_wins() -> None:
    recipe = Recipe(epochs=20, batch_size=30, lr=0.05)
    seen: list[tuple[Any, ...]] = []

    class Look(expunge.Callback):
        def on_start(self, run: Any) -> None:
            group = run.optimizer.param_groups[0]
            kind = type(run.optimizer).__name__
            seen.append((kind, run.epochs, run.steps_per_epoch, group["initial_lr"]))

    free: dict[str, Any] = {"epochs": None, "batch_size": None, "optimizer": recipe}
    run(callbacks=[Look()], **free)
    run(callbacks=[Look()], **free | {"epochs": 3, "lr": 0.2})
    run(callbacks=[Look()], **free | {"optimizer": replace(recipe, algorithm="adamw")})
    run(callbacks=[Look()], **free | {"method": Refresh(rate=3.0)})
    assert seen == [
        ("SGD", 4, 2, 0.05),
        ("SGD", 3, 2, 0.2),
        ("AdamW", 4, 2, 0.2),
        ("SGD", 4, 2, pytest.approx(0.15)),
    ]


def test_a_method_that_does_not_train_again_refuses_a_recipe() -> None:
    with pytest.raises(
        InvalidInput, match=r"A recipe as `optimizer` is for methods .* \(got SRL\)"
    ):
        run(method="random-label", optimizer=Recipe())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"keep": 1.2}, r"`keep` should be in \[0, 1\], or None. \(got 1.2\)"),
        ({"left": 0.0}, r"`left` should be in \(0, 1\)"),
        ({"budget": 0.0}, r"`budget` should be in \(0, 1\]"),
        ({"rate": 0.0}, r"`rate` should be positive and finite"),
    ],
)
def test_bad_values_are_refused(options: dict[str, float], text: str) -> None:
    with pytest.raises(InvalidInput, match=text):
        Refresh(**options)  # type: ignore[arg-type]


def test_a_reference_of_another_kind_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"`reference` should be a model.*\(got int\)"):
        Refresh(keep=0.5, reference=3).prepare(problem(trained()))


def test_a_language_model_of_more_words_than_features_can_be_refreshed() -> None:
    tokens = torch.randint(0, 50, (24, 6), generator=torch.Generator().manual_seed(0))
    data = TensorDataset(tokens, tokens)
    model = nn.Sequential(nn.Embedding(50, 8), nn.Linear(8, 50))
    result = run(model, retain=data, forget=Unreadable(5), loss=expunge.methods.next_token_loss)
    assert 0.0 <= result.history.epochs[-1]["keep"] <= 1.0
