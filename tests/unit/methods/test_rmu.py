"""RMU and its retain loss against their formulas; which layer, which parameters."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from expunge import Batch, InvalidInput, Problem
from expunge.methods import RMU, RetainActivations
from expunge.methods._rmu import default_layer, find_layer
from tests import tiny
from tests.tiny import TinyConv, bits
from tests.unit.methods.token_worlds import FORGET, RETAIN, WORDS, assert_is, texts

WIDTH = 3


class Deep(nn.Module):
    """Tokens to logits through two blocks x ← x + tanh(Wx), each from its own token alone."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.embed = nn.Embedding(WORDS, WIDTH)
            self.blocks = nn.ModuleList(Block() for _ in range(2))
            self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.embed(input_ids)
        for block in self.blocks:
            x = block(x)[0]
        return self.head(x)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH))

    def forward(self, x: Tensor) -> tuple[Tensor, str]:
        return x + torch.tanh(x @ self.weight.T), "and a cache"


def literal_activation(model: Deep, token: int, blocks: int) -> list[float]:
    x = model.embed.weight[token].tolist()
    for block in list(model.blocks)[:blocks]:
        rows = block.weight.tolist()
        x = [
            v + math.tanh(sum(w * u for w, u in zip(row, x, strict=True)))
            for v, row in zip(x, rows, strict=True)
        ]
    return x


def literal_distance(model: Deep, batch: Batch, blocks: int, wanted: Any) -> float:
    """1/B Σ 1/|y| Σ_t 1/D ‖h_t - wanted_t‖² over positions t that lead to a labelled token."""
    total = 0.0
    for tokens, labels in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
        distances = []
        for t in range(1, len(tokens)):
            if labels[t] != -100:
                h = literal_activation(model, tokens[t - 1], blocks)
                target = wanted(tokens[t - 1])
                distances.append(sum((a - b) ** 2 for a, b in zip(h, target, strict=True)) / WIDTH)
        total += sum(distances) / len(distances)
    return total / len(batch.targets)


def moved_problem() -> tuple[Problem, Deep, Deep]:
    problem = Problem(Deep().double())
    with torch.no_grad():
        for p in problem.model.parameters():
            p.mul_(1.3)
    return problem, Deep().double(), problem.model


@pytest.mark.parametrize(("layer", "blocks"), [("blocks.0", 1), ("blocks.1", 2)])
def test_rmu_is_its_formula_at_any_layer(layer: str, blocks: int) -> None:
    problem, first, student = moved_problem()
    method = RMU(layer, coefficient=2.0)
    loss = method.objective(problem, FORGET, RETAIN).loss
    u = problem.memory["rmu"].tolist()
    assert math.hypot(*u) == pytest.approx(1.0, rel=1e-6)
    # Parameters above the layer have no gradient: differentiate with nothing there.
    loss = loss + 0.0 * sum(p.sum() for p in student.parameters())
    assert_is(
        loss,
        student,
        lambda model: literal_distance(model, FORGET, blocks, lambda _: [2.0 * v for v in u]),
    )
    kept = method.constraint(problem, FORGET, RETAIN)
    kept = kept + 0.0 * sum(p.sum() for p in student.parameters())
    assert_is(
        kept,
        student,
        lambda model: literal_distance(
            model, RETAIN, blocks, lambda token: literal_activation(first, token, blocks)
        ),
    )


def test_the_direction_is_drawn_once_and_kept_with_the_run() -> None:
    problem, _, _ = moved_problem()
    first, again = (RMU().objective(problem, FORGET, RETAIN).loss for _ in range(2))
    assert torch.equal(first, again)
    other, _, _ = moved_problem()
    other.load_state_dict(problem.state_dict())
    assert torch.equal(RMU().objective(other, FORGET, RETAIN).loss, first)


def unlearn(model: nn.Module, method: RMU, **options: Any) -> nn.Module:
    chosen: dict[str, Any] = {"epochs": 3, "batch_size": 5, "lr": 1e-2, "progress": False}
    data = {"forget": texts(5, 1), "retain": texts(6, 2)}
    return tiny.unlearn(model, method=method, **data, **chosen | options).model


def moved_names(before: nn.Module, after: nn.Module) -> set[str]:
    old, new = bits(before), bits(after)
    return {name for name in old if not torch.equal(old[name], new[name])}


@pytest.mark.parametrize("addon", ["none", "focus", "saliency"])
def test_only_what_is_below_the_layer_moves_and_of_that_only_what_is_asked_for(addon: str) -> None:
    model = Deep()
    below = unlearn(model, RMU("blocks.0"), addon=addon)
    assert moved_names(model, below) == {"embed.weight", "blocks.0.weight"}
    chosen = unlearn(model, RMU("blocks.1", parameters=r"blocks\.[01]\."), addon=addon)
    assert moved_names(model, chosen) == {"blocks.0.weight", "blocks.1.weight"}
    assert all(p.requires_grad for p in chosen.parameters())
    with_nll = unlearn(model, RMU("blocks.0", parameters="head|embed", retain="nll"), addon=addon)
    assert moved_names(model, with_nll) == {"embed.weight", "head.weight"}


def test_the_layer_of_the_constraint_follows_that_of_the_objective() -> None:
    assert RMU("blocks.1").retain == RetainActivations("blocks.1")
    assert RMU("blocks.1", retain=RetainActivations("blocks.0")).retain.layer == "blocks.0"
    assert RMU().retain == RetainActivations()


def test_the_default_layer_is_a_fifth_of_the_way_up() -> None:
    def blocks(count: int) -> nn.Module:
        experts = [nn.ModuleDict({"experts": nn.ModuleList([nn.Identity()] * 99)})] * count
        return nn.ModuleDict({"layers": nn.ModuleList(experts), "head": nn.Linear(1, 1)})

    names = {count: default_layer(blocks(count)) for count in (1, 2, 12, 32)}
    assert names == {1: "layers.0", 2: "layers.0", 12: "layers.2", 32: "layers.7"}
    assert default_layer(TinyConv()) == "bn2"
    assert default_layer(nn.Linear(2, 2)) == ""
    with pytest.raises(InvalidInput, match="should have layers with parameters"):
        default_layer(nn.Tanh())


def test_a_layer_is_found_behind_the_names_of_wrappers() -> None:
    wrapped = nn.ModuleDict({"base_model": nn.ModuleDict({"model": Deep()})})
    assert find_layer(wrapped, "blocks.1") is wrapped["base_model"]["model"].blocks[1]
    with pytest.raises(
        InvalidInput, match=r"such as .*blocks.1.* \(got 'block.1', which none has\)"
    ):
        find_layer(Deep(), "block.1")


def test_what_cannot_be_read_is_named() -> None:
    problem, _, _ = moved_problem()
    with pytest.raises(InvalidInput, match=r"should put out \[B, T, D\]"):
        RMU("head").objective(Problem(Summed()), FORGET, RETAIN)
    with pytest.raises(InvalidInput, match="should take part in the forward pass"):
        RMU("unused").objective(Problem(Summed()), FORGET, RETAIN)
    with pytest.raises(InvalidInput, match=r"should match the name of a parameter.*'attention'"):
        RMU(parameters="attention").parameters_to_update(problem)
    with pytest.raises(InvalidInput, match="should be a regular expression"):
        RMU(parameters="(")


class Summed(Deep):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(WIDTH, WORDS)
        self.unused = nn.Linear(1, 1)

    def forward(self, input_ids: Tensor) -> Tensor:
        pooled = self.head(self.embed(input_ids).sum(dim=1))
        return pooled[:, None].expand(-1, input_ids.shape[1], -1)
