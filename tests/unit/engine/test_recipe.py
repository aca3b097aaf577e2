"""Training by a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import expunge
from expunge import Callback, InvalidInput, Recipe, Result
from expunge.engine import Run
from expunge.engine._recipe import rate_factor
from tests import tiny
from tests.tiny import TinyConv, bits, images, same

FORGET, RETAIN = images(11, seed=1), images(14, seed=2)


def unlearn(model: nn.Module | None = None, **options: Any) -> Result:
    chosen: dict[str, Any] = {"forget": FORGET, "retain": RETAIN, "epochs": 2, "batch_size": 4}
    return tiny.unlearn(model or TinyConv(), **chosen | {"lr": 1e-2} | options)


def test_train_learns_and_leaves_the_model_given_alone() -> None:
    model = TinyConv()
    before = bits(model)
    data = images(60)
    result = tiny.train(model, data, recipe=Recipe(epochs=15, batch_size=20))
    assert same(bits(model), before)
    losses = result.history.column("objective")
    assert losses[-1] < 0.7 * losses[0]
    assert result.history.column("steps") == [3.0] * 15


def test_step_schedule_drops_at_91_percent() -> None:
    factors = [rate_factor(Recipe().schedule, epoch / 100) for epoch in (0, 90, 91, 99)]
    assert factors == [1.0, 1.0, 0.1, 0.1]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"epochs": 0}, "`epochs` should be a whole number, at least 1"),
        ({"batch_size": 0}, "`batch_size` should be a whole number, at least 1"),
        ({"lr": 0.0}, "`lr` should be positive"),
        ({"lr": float("nan")}, "`lr` should be positive"),
        ({"epochs": 3, "plain_epochs": 4}, "`plain_epochs` should be from 0 to `epochs` = 3"),
        ({"schedule": "cosine"}, "`schedule` should be one of step, constant, linear, one-cycle"),
    ],
)
def test_a_wrong_recipe_is_refused(wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidInput, match=text):
        Recipe(**wrong)


def test_adamw_is_a_later_choice_that_old_cards_and_keys_do_not_have() -> None:
    assert "algorithm" not in Recipe().as_dict()
    assert Recipe(**Recipe(algorithm="adamw").as_dict()).algorithm == "adamw"
    weights = [torch.nn.Parameter(torch.zeros(1))]
    assert isinstance(Recipe(algorithm="adamw").optimizer(weights), torch.optim.AdamW)
    with pytest.raises(InvalidInput, match=r"`algorithm` should be one of sgd, adam, adamw"):
        Recipe(algorithm="lion")  # type: ignore[arg-type]


def test_adam_at_a_constant_rate_takes_the_steps_of_a_plain_loop() -> None:
    """How most small models are trained: Adam, and no schedule."""
    torch.manual_seed(0)
    data = images(4)
    model = nn.Sequential(nn.Flatten(), nn.Linear(data.tensors[0][0].numel(), 4))
    recipe = Recipe(
        3, batch_size=4, lr=1e-2, weight_decay=0.1, algorithm="adam", schedule="constant"
    )
    trained = tiny.train(model, data, recipe=recipe).model
    optimizer = torch.optim.Adam(model.train().parameters(), lr=1e-2, weight_decay=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        x, y = data.tensors
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    expected = dict(model.state_dict())
    torch.testing.assert_close(dict(trained.state_dict()), expected, rtol=1e-4, atol=1e-5)
    assert [rate_factor("linear", share) for share in (0.0, 0.25, 1.0)] == [1.0, 0.75, 0.0]


def test_the_last_epochs_of_a_training_can_go_without_augmentation(tmp_path: Path) -> None:
    """Also those of a training that is resumed in the middle of them."""
    data, crops = images(12), expunge.Augment(padding=2)
    plain = {tuple(x.flatten().tolist()) for x in data.tensors[0]}
    seen: list[bool] = []

    class Watched(TinyConv):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if torch.is_grad_enabled():  # a step
                seen.append({tuple(each.flatten().tolist()) for each in x} <= plain)
            return super().forward(x)

    class Stop(Callback):
        def on_step(self, run: Run) -> None:
            if run.step == 10:
                raise KeyboardInterrupt

    def train(**options: Any) -> Result:
        recipe = Recipe(epochs=4, batch_size=4, plain_epochs=2)
        return tiny.train(Watched(), data, recipe=recipe, augment=crops, **options)

    whole = train()
    assert seen == [False] * 6 + [True] * 6
    checkpoint: dict[str, Any] = {"checkpoint": tmp_path / "run", "checkpoint_every": 2}
    with pytest.raises(KeyboardInterrupt):
        train(callbacks=[Stop()], **checkpoint)
    seen.clear()
    assert same(bits(train(**checkpoint).model), bits(whole.model))
    assert seen[-2:] == [True] * 2
    assert "plain_epochs" not in Recipe().as_dict()
