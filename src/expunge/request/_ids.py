"""Resolve the ids that somebody listed to the training records they stand for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from expunge._errors import DataError, InvalidInput
from expunge._specs import split_spec
from expunge.data import COLUMNS, Id, abbreviated, as_id, as_number, read_placed_ids, read_table
from expunge.ledger import ForgottenRecords, IdKey, digest_requested
from expunge.request._job import Job
from expunge.request.loading._load import ModelAndData

RECORD_COLUMNS = ("index", "name", "file", "filename")
"""Columns that identify the record of a line, in order of preference."""
SPLITS = ("train", "val", "test")
Places = dict[str, list[int]]
"""Indices into each of the :data:`SPLITS`; a split without any is left out."""
MAX_LISTED = 20
"""Unknown ids that an error message lists."""
ID_HEADER = re.compile(r"(?i:(\w+[_ -])?(ids?|uid|key|name|number|e-?mail))|\w*[a-z]I[dD]")
"""Words that name a column of ids, such as ``person_id`` and ``userId``."""


@dataclass(frozen=True)
class RequestedRecords:
    """The records to forget: sorted indices into train, and the ids that stand for them."""

    indices: tuple[int, ...]
    ids: tuple[str, ...]
    by_id: dict[str, tuple[int, ...]]
    repeated: int = 0
    """Ids listed more than once."""
    skipped: int = 0
    """Ids without a training record, which the job leaves out."""
    unmapped: int = 0
    """Training records that the table of records gives to nobody."""
    left_out: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Records of these ids in val and test, and of earlier requests. There is nothing to forget, as
    the model was not trained on them; and nothing is compared with them: they are not strangers'
    records."""

    def leaving_out(self, earlier: Mapping[str, Sequence[int]]) -> RequestedRecords:
        """The same, where records of val and test that ``earlier`` requests left out stay out."""
        left_out = {
            split: tuple(sorted({*indices, *earlier[split]}))
            for split, indices in self.left_out.items()
        }
        return replace(self, left_out=left_out)

    def hashed(
        self, key: IdKey, forgotten: Sequence[int] = (), *, people: bool = False
    ) -> ForgottenRecords:
        """The ids, the records they stand for and those ``forgotten``, as keyed hashes.

        If ids are ``people``, with the number of records of each.
        """
        counts = {key.hash_id(name): len(each) for name, each in self.by_id.items()}
        ids, asked = sorted(map(key.hash_id, self.ids)), sorted(map(key.hash_record, self.indices))
        return ForgottenRecords(
            key=key.fingerprint,
            records=sorted(map(key.hash_record, forgotten)),
            asked=asked,
            ids=ids,
            left_out=sorted(
                key.hash_record(index, split)
                for split, indices in self.left_out.items()
                for index in indices
            ),
            people=dict(sorted(counts.items())) if people else {},
            digest=digest_requested(ids, asked),
        )


def resolve_ids(
    job: Job, loaded: ModelAndData, ids: Sequence[Id] | None = None
) -> RequestedRecords:
    """Find the records that the job's ids (or ``ids``) stand for.

    Without ``records``, an id is the name of a record or its index in the training data. If any
    name is a number, every id is a name, so that a record that is gone is never mistaken for
    another. A name that several records share stands for all of them. With ``records``, ids are
    values of ``id_column``. Ids without a training record are refused, or left out with
    ``skip_untrained``.
    """
    given = _read_ids(job, loaded) if ids is None else _check_ids(ids)
    if not given:
        raise InvalidInput("`ids` should name one record or more. (got none)")
    counts = Counter(str(entry) for _, entry in given)
    unmapped = 0
    if job.records is None:
        places = _find_by_name_or_index(list(counts), loaded)
    else:
        places, unmapped = read_owners(job.records, job.id_column, loaded)
        if unmapped and not job.allow_unmapped:
            raise InvalidInput(
                f"{job.records} should give each of the {len(loaded.train)} training records a "
                f"value of {job.id_column!r}. ({unmapped} have none) Complete it; or, if these "
                "belong to nobody, use --allow-unmapped, and the evidence states their number."
            )
    first = str(given[0][1])
    if ids is None and _may_be_header(given, places, job) and ID_HEADER.fullmatch(first):
        del counts[first]
        given = [(place, entry) for place, entry in given if str(entry) != first]
    trained = [entry for entry in counts if places.get(entry, {}).get("train")]
    if not trained or (len(trained) < len(counts) and not job.skip_untrained):
        raise _untrained_ids(given, places, job, loaded)
    chosen = sorted({index for entry in trained for index in places[entry]["train"]})
    if len(chosen) == len(loaded.train):
        raise InvalidInput(
            f"Some records should be left to retain. (got all {len(chosen)} to forget) To forget "
            "everything, discard the model."
        )
    left_out = {
        split: tuple(sorted({i for entry in counts for i in places.get(entry, {}).get(split, ())}))
        for split in ("val", "test")
    }
    return RequestedRecords(
        indices=tuple(chosen),
        ids=tuple(trained),
        by_id={entry: tuple(places[entry]["train"]) for entry in trained},
        repeated=sum(count > 1 for count in counts.values()),
        skipped=len(counts) - len(trained),
        unmapped=unmapped,
        left_out=left_out,
    )


PlacedIds = Sequence[tuple[str, Id]]
"""Ids with the place in their list, for messages."""


def _check_ids(ids: Sequence[Id]) -> PlacedIds:
    """Ids that Python code listed, each of which should be a string or a whole number."""
    placed = []
    for k, entry in enumerate(ids, 1):
        checked = as_id(entry)
        if checked is None:
            raise InvalidInput(
                "Each of `ids` should be a string or a whole number. "
                f"(got {type(entry).__name__} as entry {k})"
            )
        placed.append((f"entry {k}", checked))
    return placed


def _read_ids(job: Job, loaded: ModelAndData) -> PlacedIds:
    """The ids in the job's file; in a table, from the column that the job names, if it is there."""
    if job.ids is None:
        raise InvalidInput("`ids` should be given: a text, CSV or JSON file of what to forget.")
    # The column that the job or the data identify records by comes first: the table may also have
    # others, such as an index of its own.
    data = job.data or (loaded.card.data.spec if loaded.card is not None else "")
    of_data = split_spec(data.partition(":")[2])[1].get("id")
    named = [name for name in (job.id_column, of_data) if name]
    return read_placed_ids(job.ids, (*named, *COLUMNS, "file", "filename"))


def _may_be_header(given: PlacedIds, places: Mapping[str, Places], job: Job) -> bool:
    """Whether the first line of a table of ids is a word that is not the id of any record."""
    place, entry = given[0][0], str(given[0][1])
    in_table = job.ids is not None and job.ids.suffix.lower() in (".csv", ".tsv")
    is_word = re.fullmatch(r"[^\W\d][\w -]*", entry) is not None
    others = any(str(other) != entry for _, other in given)
    return in_table and place == "line 1" and is_word and others and not places.get(entry)


def _find_by_name_or_index(ids: Sequence[str], loaded: ModelAndData) -> dict[str, Places]:
    """Where the records of every id are."""
    by_name = places_by_name(loaded)
    names_are_numbers = any(name.isdecimal() for name in loaded.train.names or ())
    places: dict[str, Places] = {}
    for entry in ids:
        places[entry] = dict(by_name.get(entry, {}))
        number = as_number(entry)
        is_index = isinstance(number, int) and not names_are_numbers
        if is_index and "train" not in places[entry] and int(number) < len(loaded.train):
            places[entry]["train"] = [int(number)]
    return places


def _untrained_ids(
    given: PlacedIds, places: Mapping[str, Places], job: Job, loaded: ModelAndData
) -> InvalidInput:
    """An error that lists the ids without a training record: their first letters and places."""
    if job.records:
        rule = f"values of the column {job.id_column!r} of {job.records}"
    elif loaded.train.names is None:
        rule = f"indices in 0..{len(loaded.train) - 1}: these records have no names"
    elif any(name.isdecimal() for name in loaded.train.names):
        rule = "names of training records"
    else:
        rule = f"names of training records, such as {abbreviated(loaded.train.names[0])}, or "
        rule += f"indices in 0..{len(loaded.train) - 1}"
    first = {str(entry): place for place, entry in reversed(given)}
    total = len(first)
    found = {entry: places.get(entry, {}) for entry in first}
    untrained = {entry: place for entry, place in first.items() if not found[entry].get("train")}
    lines = [f"{abbreviated(entry)} ({place})" for entry, place in reversed(untrained.items())]
    more = f" and {len(lines) - MAX_LISTED} more" if len(lines) > MAX_LISTED else ""
    message = (
        f"Ids should be {rule}. ({len(lines)} of {total} have no training record: "
        f"{', '.join(lines[:MAX_LISTED])}{more})"
    )
    if unseen := sum(bool(found[entry]) for entry in untrained):
        message += (
            f" Of these, {unseen} {'is' if unseen == 1 else 'are'} in val or test only: if the "
            "model was not trained on them, there is nothing to forget; if it was, the data should "
            "say so, a table by a column `split`."
        )
    if [*untrained.values()] == ["line 1"] and _may_be_header(given, places, job):
        message += " Line 1 looks like a header: if it is, name it `id`, or remove it."
    remedy = "Correct the list."
    if loaded.train.names is None and not job.records:
        message += " For ids of your own, let the data have them as names "
        message += "(`expunge.Examples(inputs, labels, classes, names)`), or give `records`."
    if len(untrained) < total and not job.skip_untrained:
        remedy = (
            "Correct the list, or leave such ids out with --skip-untrained: the evidence states "
            "their number."
        )
    return InvalidInput(f"{message} Nothing was changed. {remedy}")


# The table of records: a CSV file that says to whom each record belongs.


def read_owners(
    path: Path, id_column: str | None, loaded: ModelAndData
) -> tuple[dict[str, Places], int]:
    """The records of each value of ``id_column``, and how many training records have none.

    Every line must be about a record.
    """
    # Find the two columns.
    columns, rows = read_table(path)
    positions = {name.lower(): position for position, name in enumerate(columns)}
    key = next((name for name in RECORD_COLUMNS if name in positions), None)
    if key is None:
        raise DataError(
            f"{path} should have a column {', '.join(RECORD_COLUMNS[:-1])} or {RECORD_COLUMNS[-1]} "
            f"that says which record a line is about. (got {_listed(columns)})"
        )
    others = [name for name in columns if name.lower() != key]
    if id_column is None or id_column.lower() not in positions:
        raise InvalidInput(
            f"`id_column` should be a column of {path}: {_listed(others)}. (got {id_column!r})"
        )

    # Go through the lines: a line that is about no record is refused.
    if key != "index" and loaded.train.names is None:
        raise InvalidInput(
            f"{path} has the column {key!r}, but the training records have no names. Give "
            "their indices in a column 'index'."
        )
    by_name, size = places_by_name(loaded), len(loaded.train)
    owned: dict[str, dict[str, set[int]]] = {}
    unknown: list[str] = []
    for number, row in rows:
        record, owner = row[positions[key]], row[positions[id_column.lower()]]
        places = _place_of_index(record, size) if key == "index" else by_name.get(record)
        if not places:
            unknown.append(f"{abbreviated(record)} on line {number}")
        elif owner:
            records = owned.setdefault(owner, {})
            for split, indices in places.items():
                records.setdefault(split, set()).update(indices)
    if unknown:
        rule = f"an index in 0..{size - 1}" if key == "index" else "a known name"
        raise DataError(
            f"{path}: every line should have {rule} of a record in its column {key!r}. "
            f"({len(unknown)} do not: {', '.join(unknown[:5])})"
        )
    mapped = set().union(*(records.get("train", ()) for records in owned.values()))
    places_of = {
        owner: {split: sorted(indices) for split, indices in records.items()}
        for owner, records in owned.items()
    }
    return places_of, size - len(mapped)


def _place_of_index(text: str, size: int) -> Places | None:
    """The training record of a line that has its index, if it is one."""
    plain = text.isascii() and text.isdigit() and len(text) < 19
    return {"train": [int(text)]} if plain and int(text) < size else None


def places_by_name(loaded: ModelAndData) -> dict[str, Places]:
    """Where the records of every name are: several, if records share it."""
    places: dict[str, Places] = {}
    for split in SPLITS:
        for index, name in enumerate(getattr(loaded, split).names or ()):
            places.setdefault(name, {}).setdefault(split, []).append(index)
    return places


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(repr(column) for column in columns) or "none"
