"""Do facts come back? Relearning a part of them, rounding the weights, and sampling answers."""

from __future__ import annotations

import copy
from typing import Any, Literal

import numpy as np
import torch
from torch import nn
from torch.utils.data import TensorDataset

from expunge._arrays import Array
from expunge.data.text import TextExamples, TextSet
from expunge.evaluation._benign_steps import TEXT_BATCH, after_benign_steps, benign_rate
from expunge.evaluation._statistics import match_class_mix
from expunge.evaluation.text._generation import sample_answers
from expunge.evaluation.text._measures import fact_tokens
from expunge.evaluation.text._text_predictions import predict_texts
from expunge.methods import next_token_loss

FactMoment = Literal["after relearning a tenth", "with 4-bit weights", "in sampled answers"]
FactScores = dict[str, tuple[Array, Array]]
"""``facts`` and ``facts_right`` of predictions, of forgotten and of unseen records."""
TENTH = 10
RETAINED_PER_RECORD = 9
"""Retained records beside every relearned one, so that steps meet it however many there are."""
SAMPLED_UNSEEN = 2
"""Unseen records per forgotten one whose answers are sampled, which takes longest."""


def attack_facts(
    model: nn.Module,
    forget: TextExamples,
    unseen: TextExamples,
    retain: TextExamples,
    *,
    seed: int = 0,
) -> dict[FactMoment, FactScores]:
    """What ``model`` knows of the facts when it is attacked, of forgotten and of unseen records.

    A tenth of both is relearned, and the rest compared: to a model that saw neither they are alike,
    also where one record tells something of another.
    """
    parts = forget, unseen
    later: dict[FactMoment, FactScores] = {}
    if min(map(len, parts)) > 1:  # else nothing is left to compare
        again = after_relearning(model, parts, retain, seed=seed)
        rests = [part.subset([k for k in range(len(part)) if k % TENTH]) for part in parts]
        later["after relearning a tenth"] = fact_scores(again, rests[0], rests[1])
    later["with 4-bit weights"] = fact_scores(round_weights(model), forget, unseen)
    some = match_class_mix(unseen.labels, forget.labels, seed, most=SAMPLED_UNSEEN)
    first, second = (
        sampled_facts(model, part.texts, seed=seed) for part in (forget, unseen.subset(some))
    )
    later["in sampled answers"] = {"facts_right": (first, second)}
    return later


def fact_scores(model: nn.Module, forget: TextExamples, unseen: TextExamples) -> FactScores:
    """The scores of a model on forgotten and on unseen records."""
    first, second = (predict_texts(model, part).scores for part in (forget, unseen))
    return {name: (first[name], second[name]) for name in ("facts", "facts_right")}


def after_relearning(
    model: nn.Module, parts: tuple[TextExamples, ...], retain: TextExamples, *, seed: int = 0
) -> nn.Module:
    """A copy after benign steps that also meet the first of every ten records of the ``parts``."""
    tenths = [part.subset(range(0, len(part), TENTH)) for part in parts]
    most = min(len(retain), RETAINED_PER_RECORD * sum(map(len, tenths)))
    kept = np.random.default_rng(seed).choice(len(retain), most, replace=False)
    met = [retain.subset(kept), *tenths]
    data = TensorDataset(*(torch.cat([getattr(p, k) for p in met]) for k in ("inputs", "targets")))
    rate = benign_rate(model)
    return after_benign_steps(
        model, data, lr=rate, batch_size=TEXT_BATCH, loss=next_token_loss, seed=seed
    )


@torch.no_grad()
def round_weights(model: nn.Module, bits: int = 4) -> nn.Module:
    """A copy whose matrices are rounded to whole multiples of a scale for each of their rows.

    The scale is max|w| / (2^(bits-1) - 1). Adapters of PEFT are first merged into what is below.
    """
    copied: Any = copy.deepcopy(model)
    copied, most = getattr(copied, "merge_and_unload", lambda: copied)(), 2 ** (bits - 1) - 1
    for p in copied.parameters():
        if p.ndim > 1:
            scale = p.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / most
            p.copy_((p / scale).round() * scale)
    return copied  # type: ignore[no-any-return]


def sampled_facts(model: nn.Module, data: TextSet, *, seed: int = 0) -> Array:
    """The share of each record's facts that at least one of 16 sampled answers has, [N]."""
    facts = fact_tokens(data)
    answers = sample_answers(model, data, seed=seed)
    shares = [
        torch.isin(data.labels[row, facts[row]], torch.tensor(said)).double().mean()
        for row, said in enumerate(answers)
    ]
    return np.array(shares, dtype=np.float64)
