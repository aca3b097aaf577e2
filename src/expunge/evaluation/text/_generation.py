"""Continuations of prompts, greedy or sampled, and how much of answers they contain (ROUGE-L)."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from expunge._arrays import Array
from expunge._lazy import import_extra
from expunge.data.text import IGNORED, TextSet
from expunge.engine import TOKEN_ROWS_PER_BATCH, TokenScores, device_of
from expunge.methods import apply, eval_mode

EXTRA = 8
"""Tokens that a continuation may be longer than the answer."""
SAMPLES = 16
"""Answers that are drawn for each question."""


def continuations(model: nn.Module, data: TextSet, scores: TokenScores) -> list[str]:
    """What the model answers: the likeliest token, again and again, until an answer ends.

    A continuation has at most as many tokens as the longest answer of ``data`` and 8 more. What
    the pass behind ``scores`` has told is not asked again: a continuation is the answer up to the
    first token that is not the likeliest, so it begins there, and is known if there is none.
    """
    right = scores.right | ~scores.answered
    first = scores.answered.long().argmax(dim=1)
    # The first wrong token of each row, or the end of the row.
    wrong = torch.where(right.all(dim=1), data.lengths, (~right).long().argmax(dim=1))
    most = int(data.answer_lengths.max()) + EXTRA
    texts = [""] * len(data)
    rows: dict[int, list[int]] = {}
    for k in range(len(data)):
        known = data.tokens[k, : int(wrong[k])].tolist()
        if int(wrong[k]) < int(data.lengths[k]):
            rows[k] = [*known, int(scores.predicted[k, wrong[k]])]
        else:
            texts[k] = data.tokenizer.decode(known[int(first[k]) :])
    limits = {k: int(first[k]) + most for k in rows}
    for k, row in _continue(model, data, rows, limits).items():
        row = row[:-1] if row[-1] == data.tokenizer.end else row
        texts[k] = data.tokenizer.decode(row[int(first[k]) :])
    return texts


def sample_answers(model: nn.Module, data: TextSet, *, seed: int = 0) -> list[list[int]]:
    """The tokens of 16 answers to each question together, drawn at temperature 1.

    An answer has at most as many tokens as the true one.
    """
    first = (data.labels != IGNORED).long().argmax(dim=1).tolist()
    prompts = [data.tokens[k, :start].tolist() for k, start in enumerate(first)]
    rows = {k: prompts[k // SAMPLES] for k in range(SAMPLES * len(prompts))}
    limits = {k: first[k // SAMPLES] + int(data.answer_lengths[k // SAMPLES]) for k in rows}
    said: list[list[int]] = [[] for _ in prompts]
    device = device_of(model)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        for k, row in _continue(model, data, rows, limits, sample=True).items():
            said[k // SAMPLES] += row[first[k // SAMPLES] :]
    return said


@torch.inference_mode()
def _continue(
    model: nn.Module,
    data: TextSet,
    rows: Mapping[int, list[int]],
    limits: Mapping[int, int],
    *,
    sample: bool = False,
) -> dict[int, list[int]]:
    """Append the likeliest token, or a drawn one, to every row until it ends or is long enough.

    Rows of similar length are continued together.
    """
    end, grown = data.tokenizer.end, dict(rows)
    longest = _longest_row(model, data)
    most = {k: min(limit, longest) for k, limit in limits.items()}
    order = sorted(rows, key=lambda k: (len(rows[k]), k))
    with eval_mode(model):
        for start in range(0, len(order), TOKEN_ROWS_PER_BATCH):
            chosen = order[start : start + TOKEN_ROWS_PER_BATCH]
            while active := [k for k in chosen if grown[k][-1] != end and len(grown[k]) < most[k]]:
                some = [grown[k] for k in active]
                room = max(most[k] - len(grown[k]) for k in active)
                room = min(room, longest - max(map(len, some)))
                found = _next_tokens(model, data, some, room, sample=sample)
                for k, new in zip(active, found, strict=True):
                    new = new[: new.index(end) + 1] if end in new else new
                    grown[k] = [*grown[k], *new][: most[k]]
    return {k: grown[k] for k in order}


def _next_tokens(
    model: nn.Module, data: TextSet, rows: Sequence[list[int]], room: int, *, sample: bool
) -> list[list[int]]:
    """The next token of each row; up to ``room`` tokens by a model of transformers."""
    if hasattr(model, "config") and hasattr(model, "generate"):
        return _generate(model, data, rows, room, sample=sample)
    logits = apply(model, _stacked(rows, data.tokenizer.pad).to(device_of(model)))
    lengths = torch.tensor([len(row) for row in rows])
    last: Tensor = logits[torch.arange(len(rows)), lengths - 1]
    drawn = torch.multinomial(last.softmax(-1), 1) if sample else last.argmax(-1)
    return drawn.reshape(-1, 1).tolist()


def _generate(
    model: Any, data: TextSet, rows: Sequence[list[int]], room: int, *, sample: bool
) -> list[list[int]]:
    """The next ``room`` tokens of each row, by a model of transformers and its cache."""
    from transformers import GenerationConfig

    end, pad, device = data.tokenizer.end, data.tokenizer.pad, device_of(model)
    tokens = _stacked([row[::-1] for row in rows], pad).flip(1).to(device)  # padded on the left
    mask = _stacked([[1] * len(row) for row in rows], 0).flip(1).to(device)
    config = GenerationConfig(
        do_sample=sample,
        top_k=0 if sample else None,  # all tokens, as the model has them
        max_new_tokens=room,
        eos_token_id=end,
        pad_token_id=pad,
        use_cache=True,
    )
    # What a config leaves open, the model's own fills: chat models have a temperature there.
    below = getattr(model, "get_base_model", lambda: model)()  # of adapters, what they are on
    own, below.generation_config = below.generation_config, config
    try:
        found = model.generate(input_ids=tokens, attention_mask=mask, generation_config=config)
    finally:
        below.generation_config = own
    new: list[list[int]] = found[:, tokens.shape[1] :].tolist()
    return new


def _stacked(rows: Sequence[list[int]], fill: int) -> Tensor:
    """Rows of different lengths [B, T], filled on the right."""
    tensors = [torch.tensor(row) for row in rows]
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=fill)


def _longest_row(model: nn.Module, data: TextSet) -> int:
    """The tokens that a row may have, as far as data and model say so."""
    config = getattr(model, "config", None)
    limits = (
        data.max_length,
        getattr(model, "context", None),
        getattr(config, "max_position_embeddings", None),
    )
    return min((limit for limit in limits if isinstance(limit, int)), default=sys.maxsize)


def rouge_l(generated: Sequence[str], answers: Sequence[str]) -> Array:
    """The recall of ROUGE-L, stemmed: |longest common subsequence of words| / |answer|, [N].

    In [0, 1] (Lin, 2004); computed by rouge-score, which ``expunge[text]`` installs.
    """
    library = import_extra(
        "rouge_score.rouge_scorer", "text", "Generated answers (`generate=True`)"
    )
    scorer = library.RougeScorer(["rougeL"], use_stemmer=True)
    pairs = zip(generated, answers, strict=True)
    recalls = [scorer.score(answer, text)["rougeL"].recall for text, answer in pairs]
    return np.array(recalls, dtype=np.float64)
