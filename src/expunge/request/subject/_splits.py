"""Train, val and test of a request: from a built-in format, a user's factory, or Python objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from expunge._errors import DataError, InvalidInput
from expunge.data import ImageSet, load
from expunge.data._splits import split_stratified, thin_out
from expunge.engine._artifact import Card, load_card_data
from expunge.request._job import Job
from expunge.request.subject._dataset import InMemoryData, inputs_of, read_dataset
from expunge.request.subject._factory import call_factory, importable_from_here, is_factory

SPLITS = ("train", "val", "test")


@dataclass(frozen=True, eq=False)
class SubjectData:
    """Train, val and test in memory.

    ``val_taken_from`` names the split that val was taken out of ("test" or "train"), or is empty
    if the data (or the card) came with a val split. ``flip`` says whether a mirrored image keeps
    its label.
    """

    train: InMemoryData
    val: InMemoryData
    test: InMemoryData
    flip: bool = False
    val_taken_from: str = ""

    def by_split(self) -> dict[str, InMemoryData]:
        """The three splits by name."""
        return {"train": self.train, "val": self.val, "test": self.test}


def load_data(job: Job, card: Card | None = None) -> SubjectData:
    """Load the data of a job; data named by a card are checked against its fingerprint."""
    if not job.data and card is None:
        raise InvalidInput("`data` should be given: these weights have no card that names them.")
    if is_factory(job.data):
        with importable_from_here():  # a dataset may import more when it is read
            made = call_factory(job.data, "data")
            data = gather_data(made, job, f"The data factory {job.data}")
        _check_fingerprint(data, job.data, card)
        return data
    if card is not None:
        _check_against_card(job, card)
        splits = load_card_data(card, job.data or None)
        return SubjectData(splits.train, splits.val, splits.test, splits.flip)
    # Nothing is held out of train here, so that indices mean what they mean to the user.
    splits = load(job.data, seed=job.data_seed, val_fraction=0.0)
    val = splits.val if len(splits.val) else None
    return replace(_with_val(job, splits.train, val, splits.test), flip=splits.flip)


def gather_data(given: Any, job: Job, source: str = "The data") -> SubjectData:
    """Read (train, test), (train, val, test), or a mapping or object with these, into memory."""
    sets = {
        split: read_dataset(data, split)
        for split, data in _name_splits(given, source).items()
        if data is not None
    }
    # All splits get the longest list of class names that they agree on.
    longest = max((data.classes for data in sets.values()), key=len)
    for split, data in sets.items():
        if data.classes != longest[: data.num_classes]:
            raise DataError(
                f"{source}: train, val and test should have the same classes. ({split} has "
                f"{', '.join(data.classes[:5])}, another {', '.join(longest[:5])})"
            )
        sets[split] = type(data)(inputs_of(data), data.labels, longest, data.names)
    return _with_val(job, sets["train"], sets.get("val"), sets["test"])


def _name_splits(given: Any, source: str) -> dict[str, Any]:
    """The splits by name, whatever container they come in."""
    if isinstance(given, Mapping):
        splits = {split: given.get(split) for split in SPLITS}
    elif isinstance(given, tuple | list) and len(given) in (2, 3):
        names = SPLITS if len(given) == 3 else ("train", "test")
        splits = dict(zip(names, given, strict=True))
    else:
        splits = {split: getattr(given, split, None) for split in SPLITS}
    missing = [split for split in ("train", "test") if splits.get(split) is None]
    if missing:
        raise InvalidInput(
            f"{source} should return (train, test), (train, val, test), or a dict or object with "
            f"these. (got {type(given).__name__} without {' and '.join(missing)})"
        )
    return splits


def _with_val(
    job: Job, train: InMemoryData, val: InMemoryData | None, test: InMemoryData
) -> SubjectData:
    """The three splits; a missing val is taken out of ``job.val_from``, with its class mix."""
    for split, data in (("train", train), ("val", val), ("test", test)):
        if data is not None and not len(data):
            raise DataError(f"The {split} split of {job.data} should hold examples. (got none)")
    taken_from = ""
    if val is None:
        taken_from = job.val_from
        whole = test if taken_from == "test" else train
        if len(whole) < 2:
            raise DataError(f"{taken_from} is too small to take val out of it. Give a val split.")
        wanted = max(round(job.val_fraction * len(train)), 1)
        rest, held_out = split_stratified(
            whole.labels, min(wanted / len(whole), 0.5), seed=job.data_seed
        )
        if not held_out:
            raise DataError(
                f"{taken_from} has one example per class, so none for val. Give a val split."
            )
        val = whole.subset(held_out)
        if taken_from == "test":
            test = test.subset(rest)
        else:
            train = train.subset(rest)
    if job.data_limit is not None:
        train = cast(InMemoryData, thin_out(cast(ImageSet, train), job.data_limit, job.data_seed))
    return SubjectData(train, val, test, val_taken_from=taken_from)


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


def _check_fingerprint(data: SubjectData, source: str, card: Card | None) -> None:
    if card is not None and data.train.fingerprint() != card.data.fingerprint:
        raise DataError(
            f"The training data from {source} are not those the model was trained on: their "
            "fingerprint differs. Point --data at the original data."
        )
