"""An attempt to find forgotten records by their numbers: with data and models, without the key.

Whatever looks like a table in a bundle (a list of objects, lists of the same length side by side, a
CSV file) is taken for one of the forgotten records: every training record is passed through the
model before and after, and those whose numbers a row of the table has are named.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import hypergeom

from expunge.evaluation import Predictions, predict
from expunge.evaluation._statistics import exposure_of
from expunge.evaluation.attacks._features import entropy
from expunge.evaluation.attacks._lira import scaled_confidence
from expunge.request.loading._load import ModelAndData

Array = np.ndarray[Any, np.dtype[np.float64]]
Tables = dict[str, list[list[str]]]
"""Rows of numbers, as they are written, by where they were found."""
_NUMBER = re.compile(r"-?\d+\.\d{2,}")
_EMBEDDED = re.compile(r'type="application/json">(.*?)</script>', re.DOTALL)


class _Written(float):
    """A number that remembers how it was written."""

    text: str

    def __new__(cls, text: str) -> _Written:
        number = super().__new__(cls, text)
        number.text = text
        return number


def tables_in(folder: Path) -> Tables:
    """Everything in the files of a bundle that could be a table of records."""
    found: Tables = defaultdict(list)
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".csv":
            found[path.name] += list(csv.reader(io.StringIO(path.read_text())))
        texts = [path.read_text()] if path.suffix == ".json" else []
        texts += _EMBEDDED.findall(path.read_text()) if path.suffix == ".html" else []
        for text in texts:
            content = json.loads(text, parse_float=_Written)
            columns: dict[int, list[list[str]]] = defaultdict(list)
            for where, value in _nodes(content, path.name):
                found[where].append(_numbers_below(value))
                if isinstance(value, list) and value and not isinstance(value[0], dict | list):
                    columns[len(value)].append([getattr(each, "text", "") for each in value])
            for length, lists in columns.items():
                found[f"{path.name}: lists of {length}"] += map(list, zip(*lists, strict=True))
    numbers = {
        where: [[text for text in row if _NUMBER.fullmatch(text)] for row in rows]
        for where, rows in found.items()
    }
    return {where: rows for where, rows in numbers.items() if any(rows)}


def _nodes(value: Any, where: str) -> Iterator[tuple[str, Any]]:
    """All objects and lists below a value, named by their keys; items of a list share a name."""
    if isinstance(value, dict | list):
        yield where, value
        items = value.items() if isinstance(value, dict) else (("[]", each) for each in value)
        for key, inner in items:
            yield from _nodes(inner, f"{where}.{key}")


def _numbers_below(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for inner in value.values() for text in _numbers_below(inner)]
    return [value.text] if isinstance(value, _Written) else []


def numbers_of(said: Predictions, test: Predictions) -> Iterator[Array]:
    """What could be said of every single record."""
    probabilities = torch.softmax(said.logits.double(), dim=1)
    of_label = probabilities.gather(1, said.labels[:, None])[:, 0].numpy()
    margins = [scaled_confidence(each.logits, each.labels) for each in (said, test)]
    yield of_label
    yield -np.log(of_label)
    yield probabilities.max(dim=1).values.numpy()
    yield entropy(said)[:, 0]
    yield exposure_of(margins[0], margins[1])


def recovered(folder: Path, loaded: ModelAndData, forgotten: list[int]) -> tuple[int, int]:
    """How many forgotten records the best table gives away, and how many chance would allow.

    A table names as many records as were forgotten. Chance allows more in one bundle of 1,000.
    """
    models = loaded.model, loaded.with_weights(folder / "weights.safetensors").model
    said = [[predict(model, part) for part in (loaded.train, loaded.test)] for model in models]
    numbers = np.stack([each for pair in said for each in numbers_of(*pair)])
    rng, hits = np.random.default_rng(0), [0]
    known: dict[str, Array] = {}
    for rows in tables_in(folder).values():
        score = np.zeros(len(loaded.train))
        for row in rows:
            of_row = np.zeros(len(loaded.train))
            for text in row:
                if text not in known:
                    known[text] = _surprise(numbers, text)
                of_row += known[text]
            score = np.maximum(score, of_row)
        order = rng.permutation(len(score))  # ties are broken by chance
        named = order[np.argsort(-score[order], kind="stable")][: len(forgotten)]
        hits.append(len({*named.tolist()} & {*forgotten}))
    by_chance = hypergeom(len(loaded.train), len(forgotten), len(forgotten))
    return max(hits), int(by_chance.ppf(1 - 0.001 / len(hits)))


def _surprise(numbers: Array, text: str) -> Array:
    """For records that have this number: -log of their share of all records; 0 for others."""
    decimals = len(text.partition(".")[2])
    matches = (np.abs(numbers - float(text)) <= 0.5000001 * 10.0**-decimals).any(axis=0)
    return np.where(matches, -math.log(max(matches.mean(), 1e-9)), 0.0)
