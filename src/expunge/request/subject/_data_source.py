"""Where the data of a request come from: a built-in format, or a user's factory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from expunge._artifact import Card
from expunge._errors import DataError, InvalidInput
from expunge._workflows import data_of
from expunge.data import ImageSet, load
from expunge.data._splits import split_stratified, thin_out
from expunge.request._job import Job
from expunge.request.subject._dataset import collect
from expunge.request.subject._examples import Examples as Examples
from expunge.request.subject._examples import InMemory as InMemory
from expunge.request.subject._examples import inputs_of as inputs_of
from expunge.request.subject._factory import call_factory, from_here, is_factory

PARTS = ("train", "val", "test")


@dataclass(frozen=True, eq=False)
class Parts:
    """Train, val and test in memory.

    ``held_out`` says what val was taken out of ("test", "train"), or "" where the data (or
    the card) came with it; ``flip`` says whether a mirror image keeps its label.
    """

    train: InMemory
    val: InMemory
    test: InMemory
    flip: bool = False
    held_out: str = ""


def load_parts(job: Job, card: Card | None = None) -> Parts:
    """The data of a job; those a card names are checked by their fingerprint."""
    if not job.data and card is None:
        raise InvalidInput("`data` should be given: these weights have no card that names them.")
    if is_factory(job.data):
        with from_here():  # a dataset may import more when it is read
            parts = _from_factory(job)
        return _checked(parts, job.data, card)
    if card is not None:
        _check_card(job, card)
        splits = data_of(card, job.data or None)
        return Parts(splits.train, splits.val, splits.test, splits.flip)
    # Nothing is held out of train here: indices should mean what they mean to the user.
    splits = load(job.data, seed=job.data_seed, val_fraction=0.0)
    val = splits.val if len(splits.val) else None
    return replace(_completed(job, splits.train, val, splits.test), flip=splits.flip)


def gather_parts(given: Any, job: Job, source: str = "The data") -> Parts:
    """(train, test), (train, val, test), or a mapping or object with those, read into memory."""
    found = _named(given, source)
    sets = {part: collect(data, part) for part, data in found.items() if data is not None}
    longest = max((data.classes for data in sets.values()), key=len)
    for part, data in sets.items():
        if data.classes != longest[: data.num_classes]:
            raise DataError(
                f"{source}: train, val and test should have the same classes. ({part} has "
                f"{', '.join(data.classes[:5])}, another {', '.join(longest[:5])})"
            )
        sets[part] = type(data)(inputs_of(data), data.labels, longest, data.names)
    return _completed(job, sets["train"], sets.get("val"), sets["test"])


def _from_factory(job: Job) -> Parts:
    source = f"The data factory {job.data}"
    return gather_parts(call_factory(job.data, "data"), job, source)


def _named(given: Any, source: str) -> dict[str, Any]:
    """The parts by name, out of whatever form they come in."""
    if isinstance(given, Mapping):
        found = {part: given.get(part) for part in PARTS}
    elif isinstance(given, tuple | list) and len(given) in (2, 3):
        names = PARTS if len(given) == 3 else ("train", "test")
        found = dict(zip(names, given, strict=True))
    else:
        found = {part: getattr(given, part, None) for part in PARTS}
    missing = [part for part in ("train", "test") if found.get(part) is None]
    if missing:
        raise InvalidInput(
            f"{source} should return (train, test), (train, val, test), or a dict or object with "
            f"these. (got {type(given).__name__} without {' and '.join(missing)})"
        )
    return found


def _completed(job: Job, train: InMemory, val: InMemory | None, test: InMemory) -> Parts:
    """With a val part, of the same class mix as what it is taken out of, where there was none."""
    source, held = job.val_from if val is None else "", val
    for part, data in (("train", train), ("val", val), ("test", test)):
        if data is not None and not len(data):
            raise DataError(f"The {part} part of {job.data} should hold examples. (got none)")
    if held is None:
        whole = test if source == "test" else train
        if len(whole) < 2:
            raise DataError(f"{source} is too small to take val out of it. Give a val part.")
        wanted = max(round(job.val_fraction * len(train)), 1)
        rest, chosen = split_stratified(
            whole.labels, min(wanted / len(whole), 0.5), seed=job.data_seed
        )
        if not chosen:
            raise DataError(f"{source} has one example a class, so none for val. Give a val part.")
        held = whole.subset(chosen)
        if source == "test":
            test = test.subset(rest)
        else:
            train = train.subset(rest)
    if job.data_limit is not None:
        train = cast(InMemory, thin_out(cast(ImageSet, train), job.data_limit, job.data_seed))
    return Parts(train, held, test, held_out=source)


def _check_card(job: Job, card: Card) -> None:
    """What the job says about the data should not contradict the card."""
    said = {
        "data_limit": card.data.limit,
        "data_seed": card.data.seed,
        "val_fraction": card.data.val_fraction,
    }
    for name, value in said.items():
        own = getattr(job, name)
        if name in job.model_fields_set and own != value and own is not None:
            raise InvalidInput(
                f"`{name}` should be {value}, as the weights' card says. (got {own}) Leave it out."
            )


def _checked(parts: Parts, source: str, card: Card | None) -> Parts:
    if card is not None and parts.train.fingerprint() != card.data.fingerprint:
        raise DataError(
            f"The training data from {source} are not those the model was trained on: their "
            "fingerprint differs. Point --data at the original data."
        )
    return parts
