"""Texts in files, by split: questions and answers of your own, TOFU, MUSE and WMDP as downloaded.

``train`` and ``unseen`` are what requests need; ``forget``, ``retain``, ``test`` (never seen) and
``general`` what an evaluation needs. A split whose files are not there is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from expunge._errors import DataError
from expunge._lazy import import_extra
from expunge.data._formats import DataSource
from expunge.data._id_file import read_json_entries
from expunge.data.text._records import TextRecord, as_record, load_records

Records = tuple[TextRecord, ...]
SUFFIXES = (".jsonl", ".json")


def read_text_splits(source: DataSource) -> dict[str, Records]:
    """The records of ``qa:``, ``tofu:``, ``muse:`` or ``wmdp:`` by split."""
    folder = source.path
    if folder is None or not folder.is_dir():
        raise DataError(
            f"There is no folder {folder}. Give the data as {source.format.name}:FOLDER."
        )
    found = READERS[source.format.name](folder, **source.options)
    if not found:
        raise DataError(f"{folder} has none of the files of {source}. Check the folder.")
    return found


def _read_qa(folder: Path) -> dict[str, Records]:
    return {
        name: load_records(path)
        for name in ("train", "val", "test", "unseen")
        if (path := _find(folder, name))
    }


def _read_tofu(folder: Path, split: str = "forget10") -> dict[str, Records]:
    """The files that have false answers come first; a request retains all that is retained."""
    share = int(split[-2:])
    forget = _named(folder, f"{split}_perturbed") or _named(folder, split)
    retain = _named(folder, f"retain{100 - share:02}")
    facts = [
        _named(folder, f"{name}_perturbed") or _named(folder, name)
        for name in ("real_authors", "world_facts")
    ]
    return _joined(
        forget,
        retain,
        _named(folder, f"holdout{share:02}"),
        scored=_named(folder, "retain_perturbed"),
        general=(*facts[0], *facts[1]),
    )


def _read_muse(folder: Path, split: str = "knowmem") -> dict[str, Records]:
    """Texts that were never seen are those of ``privleak``; without a question, texts are plain."""
    part = "_qa" if split == "knowmem" else ""
    known = "privleak" if split == "verbmem" else split
    retain = _named(folder, f"{known}/retain{part}") or _named(folder, f"{known}/retain2{part}")
    forget = _named(folder, f"{split}/forget{part}")
    return _joined(forget, retain, _named(folder, "privleak/holdout"))


def _read_wmdp(folder: Path, split: str = "bio") -> dict[str, Records]:
    """Questions with the right choice as the answer and the others as false ones; corpora."""
    corpora = [_named(folder, f"{split}-{part}-corpus") for part in ("forget", "retain")]
    return _joined(*corpora, asked=_named(folder, f"wmdp-{split}"))


READERS: dict[str, Callable[..., dict[str, Records]]] = {
    "qa": _read_qa,
    "tofu": _read_tofu,
    "muse": _read_muse,
    "wmdp": _read_wmdp,
}


def _joined(
    forget: Records,
    retain: Records,
    unseen: Records = (),
    *,
    asked: Records = (),
    scored: Records = (),
    general: Records = (),
) -> dict[str, Records]:
    """The splits there are; ``asked`` and ``scored`` are what is asked of the first two."""
    splits = {
        "train": (*forget, *retain) if forget and retain else (),
        "unseen": unseen,
        "forget": asked or forget,
        "retain": scored or retain,
        "test": unseen,
        "general": general,
    }
    return {name: records for name, records in splits.items() if records}


def _named(folder: Path, name: str) -> Records:
    """The records of a file, whose ids begin with its name; none if it is not there."""
    if path := _find(folder, name):
        entries = read_json_entries(path)
    elif paths := sorted((folder / name).glob("*.parquet")):
        parquet = import_extra("pyarrow.parquet", "parquet", "Parquet files")
        rows: Iterable[Any] = (
            row for path in paths for row in parquet.read_table(path).to_pylist()
        )
        entries = [(f"row {k}", row) for k, row in enumerate(rows, 1)]
    else:
        return ()
    return tuple(
        replace(_record(values, f"{folder / name}, {place}"), id=f"{name}-{position}")
        for position, (place, values) in enumerate(entries)
    )


def _record(values: Any, place: str) -> TextRecord:
    """A plain text, a passage with its continuation, a choice, or a question with its answer."""
    known = values if isinstance(values, dict) else {"text": values}
    choices, right = known.get("choices"), known.get("answer")
    if "text" in known:
        known = {"answer": known["text"]}
    elif "gt" in known:
        known = {"question": known.get("prompt"), "answer": known["gt"]}
    elif isinstance(choices, list) and isinstance(right, int):
        if not 0 <= right < len(choices):
            raise DataError(
                f"{place}: `answer` should be the number of one of the {len(choices)} `choices`, "
                f"from 0. (got {right})"
            )
        others = [choice for k, choice in enumerate(choices) if k != right]
        known = known | {"answer": choices[right], "perturbed_answer": others}
    return as_record(known, place)


def _find(folder: Path, name: str) -> Path | None:
    paths = (folder / f"{name}{suffix}" for suffix in SUFFIXES)
    return next((path for path in paths if path.is_file()), None)
