"""Language models of a few numbers, and what their losses are, written out token by token."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset

from expunge import Batch, Problem
from expunge.update import Term

WORDS = 5


class Bigram(nn.Module):
    """Tokens [B, T] to logits [B, T, V], each from its own token and its place alone."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.table = nn.Parameter(torch.randn(WORDS, WORDS, generator=generator))
        self.place = nn.Parameter(torch.randn(9, WORDS, generator=generator))
        self.seen: list[str] = []

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        self.seen.append("ids" if attention_mask is None else "ids and mask")
        return self.table[input_ids] + self.place[: input_ids.shape[1]]


def texts(count: int, seed: int) -> TensorDataset:
    """Sequences of eight tokens: two of prompt, then some to predict, then padding."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(WORDS, (count, 8), generator=generator)
    labels = tokens.clone()
    labels[:, :2] = -100
    for k in range(count):
        labels[k, 4 + k % 5 :] = -100
    return TensorDataset(tokens, labels)


class Dicts(Dataset[Any]):
    """The same as dicts, as a tokenizer makes them."""

    def __init__(self, data: TensorDataset) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        tokens, labels = self.data[index]
        mask = torch.ones_like(tokens)
        return {"input_ids": tokens, "labels": labels, "attention_mask": mask}


FORGET, RETAIN = Batch(*texts(5, 1).tensors, "forget"), Batch(*texts(6, 2).tensors, "retain")


def precise(**options: Any) -> tuple[Problem, Bigram, Bigram]:
    """A problem in float64 whose model has moved on: problem, initial model, current model."""
    problem = Problem(Bigram().double(), **options)
    return problem, Bigram().double(), moved(problem)


def moved(problem: Problem) -> Bigram:
    with torch.no_grad():
        problem.model.table.mul_(1.7).add_(torch.eye(WORDS))
    assert isinstance(problem.model, Bigram)
    return problem.model


def literal_logits(model: Bigram, batch: Batch) -> list[list[tuple[list[float], int]]]:
    """The logits about every labelled token of every sequence, and that token: plain numbers."""
    table, place = model.table.tolist(), model.place.tolist()
    inputs = batch.inputs["input_ids"] if isinstance(batch.inputs, dict) else batch.inputs
    result = []
    for tokens, labels in zip(inputs.tolist(), batch.targets.tolist(), strict=True):
        row = []
        for t in range(1, len(tokens)):
            if labels[t] == -100:
                continue
            z = [a + b for a, b in zip(table[tokens[t - 1]], place[t - 1], strict=True)]
            row.append((z, labels[t]))
        result.append(row)
    return result


def softmax(z: list[float]) -> list[float]:
    total = sum(math.exp(v) for v in z)
    return [math.exp(v) / total for v in z]


def literal_log_likelihoods(model: Bigram, batch: Batch) -> list[list[float]]:
    """log π(y_t | y_<t) of every labelled token of every sequence."""
    return [[math.log(softmax(z)[y]) for z, y in row] for row in literal_logits(model, batch)]


def literal_nll(model: Bigram, batch: Batch) -> float:
    """The mean over all labelled tokens of the batch."""
    values = [v for row in literal_log_likelihoods(model, batch) for v in row]
    return -sum(values) / len(values)


def sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x))


def gradient(term: Tensor | Term, model: nn.Module) -> Tensor:
    loss = term.loss if isinstance(term, Term) else term
    return torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, [*model.parameters()])])


def assert_is(loss: Tensor | Term, model: Any, literal: Callable[[Any], float]) -> None:
    """A loss has the value of a literal one, and its gradient, taken by differences."""
    value = loss.loss if isinstance(loss, Term) else loss
    assert abs(value.item() - literal(model)) <= 1e-11 * max(1.0, abs(literal(model)))
    torch.testing.assert_close(
        gradient(loss, model), numeric_gradient(literal, model), rtol=1e-5, atol=1e-6
    )


@torch.no_grad()
def numeric_gradient(literal: Callable[[Any], float], model: nn.Module) -> Tensor:
    """Central differences, number by number."""
    model, step, slopes = copy.deepcopy(model), 1e-5, []
    for p in model.parameters():
        flat = p.view(-1)
        for k in range(len(flat)):
            before = flat[k].item()
            values = []
            for sign in (1.0, -1.0):
                flat[k] = before + sign * step
                values.append(literal(model))
            flat[k] = before
            slopes.append((values[0] - values[1]) / (2.0 * step))
    return torch.tensor(slopes, dtype=torch.float64)
