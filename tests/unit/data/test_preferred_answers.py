"""Answers to prefer travel beside the tokens to forget, padded each to their own length."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import DataLoader

from expunge._errors import InvalidInput
from expunge.data import LoaderSource, PreferredAnswers, pad_sequences
from expunge.distributed._batch_shares import BatchDivision

FORGET = [([1, 2, 3, 4], [-100, 2, 3, 4]), ([5, 6], [-100, 6]), ([7, 8, 9], [-100, 8, 9])]
BETTER = [([1, 9], [-100, 9]), ([5, 9], [-100, 9]), ([7, 9, 9], [-100, 9, 9])]


def source(division: BatchDivision) -> LoaderSource:
    data = PreferredAnswers(FORGET, BETTER)
    loader = DataLoader(data, batch_size=3, collate_fn=pad_sequences)
    return LoaderSource(loader, "forget", 0, torch.device("cpu"), division)


def test_a_batch_has_both_answers_of_each_prompt() -> None:
    (batch,) = source(BatchDivision()).walk(0, 0)
    assert set(batch.inputs) == {"input_ids", "attention_mask"}
    assert batch.preferred is not None
    assert batch.inputs["input_ids"].shape == (3, 4)
    assert batch.preferred.inputs["input_ids"].tolist() == [[1, 9, 0], [5, 9, 0], [7, 9, 9]]
    assert batch.preferred.targets[0].tolist() == [-100, 9, -100]
    assert batch.preferred.inputs["attention_mask"].sum(dim=1).tolist() == [2, 2, 3]


def test_parts_and_shares_keep_them_together() -> None:
    (whole,) = source(BatchDivision()).walk(0, 0)
    parts = whole.parts(2)
    shares = [next(source(BatchDivision(rank, 2)).walk(0, 0)) for rank in range(2)]
    for pieces in (parts, shares, [whole.take(BatchDivision(r, 2).share(3)) for r in range(2)]):
        firsts = [piece.inputs["input_ids"][:, 0].tolist() for piece in pieces]
        preferred = [piece.preferred.inputs["input_ids"][:, 0].tolist() for piece in pieces]
        assert firsts == preferred == [[1, 5], [7]]


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"an answer for every item of `forget`. \(got 2 for 3"):
        PreferredAnswers(FORGET, BETTER[:2])
    with pytest.raises(InvalidInput, match=r"dict with `labels`, or a pair.*\(got int\)"):
        PreferredAnswers([1], [2])[0]
    data = [{"input_ids": [1, 2], "labels": [-100, 2], "preferred_input_ids": [3]}]
    loader = DataLoader(data, collate_fn=pad_sequences)
    with pytest.raises(InvalidInput, match="should have `preferred_labels`"):
        next(LoaderSource(loader, "forget", 0, torch.device("cpu")).walk(0, 0))
