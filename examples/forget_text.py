"""A language model that has memorised codes forgets some of them, with and without FOCUS.

A small GPT-2, freshly initialised (nothing is downloaded), learns invented people and their six-
digit codes letter by letter, until the prompt "ilsa lund: " yields the code. One in five asks to
be forgotten. Gradient difference and NPO run with and without the focus vector, at two weights α
of the objective. Each is scored after the first epoch at which no code to forget can be extracted
and these codes are no likelier, digit by digit, than a guess: all rows have forgotten equally
well, so one can compare what they kept.

Run:  pip install 'expunge[transformers]'
      python examples/forget_text.py
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import GPT2Config, GPT2LMHeadModel

import expunge
from expunge.engine import Run

FIRST = ("ada", "bruno", "celia", "dario", "edda", "felix", "greta", "hugo", "ilsa", "jonas")
LAST = ("arden", "brook", "castel", "dorn", "ekman", "farro", "galen", "hollis", "ibsen", "lund")
LETTERS = "\n :" + "abcdefghijklmnopqrstuvwxyz" + "0123456789"  # the first one pads
DIGITS, LENGTH = 6, 24
GUESS = math.log(10)  # the loss of a digit drawn at random


class Codes(NamedTuple):
    """People as rows of tokens [N, T]; their code is the last ``DIGITS`` tokens."""

    tokens: Tensor

    @property
    def data(self) -> TensorDataset:
        """Pairs (input_ids, labels): only the code is to be predicted."""
        labels = self.tokens.clone()
        labels[:, :-DIGITS] = -100
        return TensorDataset(self.tokens, labels)


def corpus(people: int, seed: int) -> Codes:
    """Invented people, padded on the left so that all codes end together."""
    draw = random.Random(seed)
    names = draw.sample([" ".join(pair) for pair in itertools.product(FIRST, LAST)], people)
    lines = [
        f"{name}: {draw.randrange(10**DIGITS):0{DIGITS}}".rjust(LENGTH, "\n") for name in names
    ]
    return Codes(torch.tensor([[LETTERS.index(letter) for letter in line] for line in lines]))


def fresh_model(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    size = {"n_layer": 2, "n_head": 4, "n_embd": 64, "n_positions": LENGTH}
    still = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "use_cache": False}
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    return GPT2LMHeadModel(GPT2Config(vocab_size=len(LETTERS), **size, **still, **ends))


def memorise(codes: Codes, seed: int) -> nn.Module:
    """Train on whole lines until every code comes out."""
    model = fresh_model(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)
    generator = torch.Generator().manual_seed(seed)
    for epoch in range(300):
        for chosen in torch.randperm(len(codes.tokens), generator=generator).split(20):
            optimizer.zero_grad()
            rows = codes.tokens[chosen]
            expunge.methods.next_token_loss(model(rows).logits, rows).backward()
            optimizer.step()
        if epoch % 10 == 9 and loss(model, codes) < 0.01 and extraction(model, codes) == 1.0:
            break
    return model.eval()


@torch.no_grad()
def loss(model: nn.Module, codes: Codes) -> float:
    """Mean negative log-likelihood per digit."""
    tokens, labels = codes.data.tensors
    return float(expunge.methods.next_token_loss(model(tokens).logits, labels))


@torch.no_grad()
def extraction(model: nn.Module, codes: Codes) -> float:
    """Share of the people whose whole code is the greedy continuation of their name."""
    rows = codes.tokens.clone()
    for k in range(LENGTH - DIGITS, LENGTH):
        rows[:, k] = model(rows[:, :k]).logits[:, -1].argmax(dim=-1)
    return float((rows == codes.tokens).all(dim=1).float().mean())


def row(model: nn.Module, forget: Codes, retain: Codes) -> list[float]:
    """Loss and extraction of a model, on forget and on retain: a row of the table."""
    model.eval()
    both = [[loss(model, codes), 100 * extraction(model, codes)] for codes in (forget, retain)]
    return both[0] + both[1]


class Forgotten(expunge.Callback):
    """Stop a run when the codes to forget are no likelier than a guess and none comes out."""

    def __init__(self, forget: Codes) -> None:
        self.forget = forget

    def on_epoch(self, run: Run) -> None:
        run.model.eval()
        if loss(run.model, self.forget) >= GUESS and not extraction(run.model, self.forget):
            run.stop()


def unlearned(
    model: nn.Module, forget: Codes, retain: Codes, seed: int, **parts: Any
) -> list[float]:
    """One run, as a row of the table; its epochs come last."""
    result = expunge.unlearn(
        model,
        forget=DataLoader(forget.data, batch_size=6, shuffle=True),
        retain=DataLoader(retain.data, batch_size=24, shuffle=True),
        lr=3e-4,
        epochs=40,
        execution=expunge.Execution(seed=seed, callbacks=[Forgotten(forget)], progress=False),
        **parts,
    )
    return [*row(result.model, forget, retain), len(result.history.epochs)]


def one_seed(seed: int, people: int, alphas: Sequence[float]) -> dict[str, list[float]]:
    """All rows for one corpus and one model."""
    codes = corpus(people, seed)
    forget, retain = Codes(codes.tokens[: people // 5]), Codes(codes.tokens[people // 5 :])
    initial = memorise(codes, seed)
    rows = {"initial": [*row(initial, forget, retain), 0]}
    rows["retrained without"] = [*row(memorise(retain, seed), forget, retain), 0]
    for alpha, method, addon in itertools.product(alphas, ("GradDiff", "NPO"), ("none", "FOCUS")):
        name = f"α={alpha} {method}" + ("" if addon == "none" else f"-{addon}")
        weights = expunge.WeightedSum(alpha, 1 - alpha)
        parts = {"method": method, "addon": addon, "aggregate": weights}
        rows[name] = unlearned(initial, forget, retain, seed, **parts)
    return rows


def main(
    seeds: int = 3, people: int = 60, alphas: Sequence[float] = (0.05, 0.2)
) -> dict[str, list[list[float]]]:
    """Print mean ± standard deviation over the seeds; all rows are returned."""
    runs = [one_seed(seed, people, alphas) for seed in range(seeds)]
    columns = ("forget: loss", "codes out, %", "retain: loss", "codes out, %", "epochs")
    print(f"| {'':<22} | " + " | ".join(f"{name:>14}" for name in columns) + " |")
    print(f"| {'-' * 22} | " + " | ".join("-" * 13 + ":" for _ in columns) + " |")
    table = {name: [run[name] for run in runs] for name in runs[0]}
    for name, rows in table.items():
        values = enumerate(zip(*rows, strict=True))
        cells = [spread(column, 1 if k in (1, 3, 4) else 3) for k, column in values]
        print(f"| {name:<22} | " + " | ".join(f"{cell:>14}" for cell in cells) + " |")
    for name in [name for name in table if f"{name}-FOCUS" in table]:
        pairs = zip(table[f"{name}-FOCUS"], table[name], strict=True)
        ratios = ", ".join(f"{focus[2] / plain[2]:.2f}" for focus, plain in pairs)
        print(f"{name}: loss on retain with FOCUS, times that without, seed by seed: {ratios}")
    return table


def spread(values: Sequence[float], digits: int) -> str:
    mean = f"{statistics.mean(values):.{digits}f}"
    return mean if len(values) < 2 else f"{mean} ± {statistics.stdev(values):.{digits}f}"


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--people", type=int, default=60, help="at most 100")
    options.add_argument("--alphas", type=float, nargs="+", default=(0.05, 0.2))
    main(**vars(options.parse_args()))
