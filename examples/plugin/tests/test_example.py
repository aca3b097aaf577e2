"""What the plug-in adds can be used by name."""

import pytest
import torch
from torch.utils.data import TensorDataset

import expunge
from expunge.data import load
from expunge.evaluation import Predictions, Views, run_attack


def images(count: int) -> TensorDataset:
    return TensorDataset(torch.randn(count, 1, 8, 8), torch.arange(count) % 4)


@pytest.mark.parametrize("addon", ["none", "soft-and", "focus"])
@pytest.mark.parametrize("aggregate", ["linear", "plain-sum"])
def test_the_method_moves_the_model(addon: str, aggregate: str) -> None:
    torch.manual_seed(0)
    model = expunge.build_model("small-cnn", num_classes=4, in_channels=1, width=0.25, seed=0)
    result = expunge.unlearn(
        model,
        forget=images(16),
        retain=images(32),
        method="shrink-logits",
        addon=addon,
        aggregate=aggregate,
        epochs=1,
        batch_size=8,
        execution=expunge.Execution(progress=False),
    )
    pairs = zip(model.parameters(), result.model.parameters(), strict=True)
    assert any(not torch.equal(before, after) for before, after in pairs)


def test_the_attack_finds_what_stands_out() -> None:
    labels = torch.zeros(100, dtype=torch.int64)
    sure = Predictions(torch.tensor([[5.0, 0.0]]).repeat(100, 1), labels)
    unsure = Predictions(torch.tensor([[1.0, 0.0]]).repeat(100, 1), labels)
    assert run_attack("top-two", Views(forget=sure, test=unsure), resamples=10).auc.value == 1.0


def test_the_data_load_by_name() -> None:
    splits = load("blobs", limit=80)
    assert (len(splits.train), len(splits.train.classes)) == (80, 4)
