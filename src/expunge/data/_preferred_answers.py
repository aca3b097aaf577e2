"""Token sequences to forget together with the answers to give instead, and how to pad them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils.data import Dataset

from expunge._errors import InvalidInput
from expunge._kinds import check_kind

PREFIX = "preferred_"
"""What the names of the answers to prefer begin with, beside those of the tokens to forget."""

POSITION = "expunge_position"
"""The name of an item's position in its dataset, where a batch has to tell which items it holds."""


class Numbered(Dataset[Any]):
    """A dataset of token sequences, each item with its position."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        return named(self.dataset[index]) | {POSITION: index}


class PreferredAnswers(Dataset[Any]):
    """The forget set, each item with the answer that a method such as ``dpo`` should prefer to it.

    Item k has the names of item k of ``forget``, and those of item k of ``preferred`` behind
    ``preferred_``: ``input_ids``, ``labels``, ``preferred_input_ids``, ``preferred_labels``, ….
    Items are dicts with ``labels``, or pairs (input_ids, labels). A dataset that has such names of
    its own accord does not need this class.

    >>> question, answer, refusal = [1, 2], [3, 4, 5], [6]
    >>> forget = [{"input_ids": question + answer, "labels": [-100] * 2 + answer}]
    >>> preferred = [{"input_ids": question + refusal, "labels": [-100] * 2 + refusal}]
    >>> PreferredAnswers(forget, preferred)[0]["preferred_labels"]
    [-100, -100, 6]
    """

    def __init__(self, forget: Any, preferred: Any) -> None:
        check_kind("forget", Dataset, forget)
        check_kind("preferred", Dataset, preferred)
        if len(forget) != len(preferred):
            raise InvalidInput(
                "`preferred` should have an answer for every item of `forget`. "
                f"(got {len(preferred)} for {len(forget)})"
            )
        self.forget, self.preferred = forget, preferred

    def __len__(self) -> int:
        return len(cast(Sized, self.forget))

    def __getitem__(self, index: int) -> dict[str, Any]:
        own, other = named(self.forget[index]), named(self.preferred[index])
        return own | {PREFIX + name: value for name, value in other.items()}


def named(item: Any) -> dict[str, Any]:
    """An item by names: a dict with ``labels`` as it is, a pair as ``input_ids`` and ``labels``."""
    if isinstance(item, Mapping) and "labels" in item:
        return dict(item)
    if isinstance(item, (tuple, list)) and len(item) == 2:
        return {"input_ids": item[0], "labels": item[1]}
    raise InvalidInput(
        "An item of token sequences should be a dict with `labels`, or a pair "
        f"(input_ids, labels). (got {type(item).__name__})"
    )


def split_preferred(fields: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What belongs to an item or a batch itself, and to the answers to prefer, without prefix.

    >>> split_preferred({"labels": 1, "preferred_labels": 2})
    ({'labels': 1}, {'labels': 2})
    """
    own = {name: part for name, part in fields.items() if not name.startswith(PREFIX)}
    preferred = {name.removeprefix(PREFIX): fields[name] for name in fields if name not in own}
    if preferred and "labels" not in preferred:
        raise InvalidInput(
            f"Preferred answers should have `{PREFIX}labels`. "
            f"(got {', '.join(PREFIX + name for name in preferred)})"
        )
    return own, preferred


def pad_sequences(items: Sequence[Any], pad: int = 0) -> dict[str, Tensor]:
    """Collate token sequences of different lengths: padded on the right, with a mask.

    ``labels`` are padded by -100, an ``attention_mask`` (added where there is none) by 0, all else
    by ``pad``; answers to prefer are padded to their own length. Use it as a ``collate_fn``, or as
    the data collator of a Trainer.

    >>> batch = pad_sequences([([5, 6, 7], [-100, 6, 7]), ([8], [-100])])
    >>> batch["input_ids"].tolist(), batch["labels"].tolist()
    ([[5, 6, 7], [8, 0, 0]], [[-100, 6, 7], [-100, -100, -100]])
    >>> batch["attention_mask"].tolist()
    [[1, 1, 1], [1, 0, 0]]
    """
    rows = [_masked(named(item)) for item in items]
    fills = {"labels": -100, "attention_mask": 0}
    return {
        name: torch.nn.utils.rnn.pad_sequence(
            [torch.as_tensor(row[name]) for row in rows],
            batch_first=True,
            padding_value=fills.get(name.removeprefix(PREFIX), pad),
        )
        for name in rows[0]
    }


def _masked(item: dict[str, Any]) -> dict[str, Any]:
    """An item with an ``attention_mask`` for each of its one or two sequences."""
    masks = {}
    for prefix in ("", PREFIX):
        if f"{prefix}labels" in item and f"{prefix}attention_mask" not in item:
            length = torch.as_tensor(item[f"{prefix}labels"]).shape
            masks[f"{prefix}attention_mask"] = torch.ones(length, dtype=torch.int64)
    return item | masks
