"""Train, val and test of a request: from a built-in format, a user's factory, or Python objects."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from expunge._errors import DataError, InvalidInput
from expunge.data import (
    Examples,
    Splits,
    draw_val,
    find_data,
    is_data_factory,
    load,
    read_splits,
    thin_out,
)
from expunge.engine import Card, load_card_data
from expunge.request._job import Job


def load_data(job: Job, card: Card | None = None) -> Splits:
    """Load the data of a job; data named by a card are checked against its fingerprint."""
    if not job.data and card is None:
        raise InvalidInput("`data` should be given: these weights have no card that names them.")
    if card is not None:
        _check_against_card(job, card)
        return load_card_data(card, job.data or None)
    if is_data_factory(job.data):
        train, test, given = find_data(job.data).load()
        assert test is not None  # a factory that does not return it is refused
        return _with_val(job, train, given, test)
    # Nothing is held out of train here, so that indices mean what they mean to the user.
    splits = load(job.data, seed=job.data_seed, val_fraction=0.0, val_from="test")
    val = splits.val if len(splits.val) else None
    data = _with_val(job, splits.train, val, splits.test)
    return replace(data, flip=splits.flip, encoding=splits.encoding)


def gather_data(given: Any, job: Job, source: str = "The data") -> Splits:
    """Read (train, test), (train, val, test), or a mapping or object with these, into memory."""
    sets = read_splits(given, source)
    return _with_val(job, sets["train"], sets.get("val"), sets["test"])


def _with_val(job: Job, train: Examples, val: Examples | None, test: Examples) -> Splits:
    """The three splits; a missing val is taken out of test, with its class mix."""
    for split, data in (("train", train), ("val", val), ("test", test)):
        if data is not None and not len(data):
            raise DataError(f"The {split} split of {job.data} should hold examples. (got none)")
    if val is None:
        if len(test) < 2:
            raise DataError("test is too small to take val out of it. Give a val split.")
        wanted = round(job.val_fraction * len(train))
        rest, held_out = draw_val(test, wanted, seed=job.data_seed)
        if not held_out:
            raise DataError("test has one example per class, so none for val. Give a val split.")
        test, val = test.subset(rest), test.subset(held_out)
    if job.data_limit is not None:
        train = thin_out(train, job.data_limit, job.data_seed)
    return Splits("", train, val, test, flip=False)


def _check_against_card(job: Job, card: Card) -> None:
    """Check that what the job says about the data does not contradict the card."""
    from_card = {
        "data_limit": card.data.limit,
        "data_seed": card.data.seed,
        "val_fraction": card.data.val_fraction,
    }
    for name, expected in from_card.items():
        value = getattr(job, name)
        if name in job.model_fields_set and value != expected and value is not None:
            raise InvalidInput(
                f"`{name}` should be {expected}, as the weights' card says. (got {value}) "
                "Leave it out."
            )
