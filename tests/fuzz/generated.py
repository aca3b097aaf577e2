"""Files that hypothesis makes up: lists of ids and job files, always the same ones."""

from __future__ import annotations

import csv
import io
import json
import math
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from expunge._errors import ExpungeError
from expunge.data._id_file import read_ids
from expunge.request._job import Job
from expunge.request._job_file import _to_toml, job_to_toml, load_job
from tests.fuzz.corpus import SEED
from tests.fuzz.counts import Counts
from tests.fuzz.forged import check_forgery, forgeries

COUNT = 100
"""Files of each kind under ``make fuzz``."""


class IdFile(NamedTuple):
    """A file, and the ids in it; None where it is just text."""

    name: str
    text: str
    ids: tuple[str, ...] | None


_ID = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Z")), min_size=1, max_size=6
).filter(lambda text: text.strip() == text and not text.startswith("#"))
_NOISE = st.text(st.sampled_from('id,\t"\n\r37 #\ufeff\x85\u2028[]{}:.-'), max_size=30)


@st.composite
def id_files(draw: st.DrawFn) -> IdFile:
    """Lists of ids as they should be, in every format, and text that only resembles one."""
    kind = draw(st.sampled_from(["txt", "csv", "tsv", "json", "noise"]))
    if kind == "noise":
        suffix = draw(st.sampled_from([".txt", ".csv", ".tsv", ".json"]))
        return IdFile(f"a{suffix}", draw(_NOISE), None)
    ids = tuple(draw(st.lists(_ID, min_size=1, max_size=5)))
    if kind == "json":
        return IdFile("a.json", json.dumps(ids), ids)
    if kind == "txt":
        return IdFile("a.txt", "\n".join(ids) + "\n", ids)
    text = io.StringIO()
    writer = csv.writer(text, delimiter="\t" if kind == "tsv" else ",")
    others = draw(st.lists(st.sampled_from(["why", "who", "when"]), unique=True))
    position = draw(st.integers(0, len(others)))
    writer.writerow([*others[:position], "id", *others[position:]])
    for entry in ids:
        cells = [draw(_NOISE.filter(lambda cell: "\r" not in cell)) for _ in others]
        writer.writerow([*cells[:position], entry, *cells[position:]])
    return IdFile(f"a.{kind}", text.getvalue(), ids)


def check_id_file(file: IdFile) -> None:
    """What was written is read, and what is no list is refused or makes up no id."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / file.name
        path.write_text(file.text, encoding="utf-8", newline="")
        try:
            found = read_ids(path)
        except ExpungeError:
            assert file.ids is None, "a proper list was refused"
            return
    if file.ids is not None:
        assert found == file.ids
        return
    text = file.text.replace("\r\n", "\n").replace("\r", "\n")
    for entry in map(str, found):
        assert entry in text or entry.replace('"', '""') in text, f"{entry!r} was made up"


_VALUES = st.one_of(
    st.none().map(lambda _: ""),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["MATCH", "SRL", "FOCUS", "PROB", "exact", "test", "cpu", "digits", "adam"]),
    st.lists(st.integers(), max_size=2),
)


@st.composite
def job_files(draw: st.DrawFn) -> str:
    """Job files: known keys with any values, unknown keys, and noise."""
    keys = [*Job.model_fields, "surprise", "ids.x"]
    chosen = draw(st.dictionaries(st.sampled_from(keys), _VALUES, max_size=4))
    values = {"weights": "model.safetensors", "out": "requests", **chosen}
    lines = [f"{name} = {_number(value)}" for name, value in values.items()]
    if draw(st.integers(0, 9)) == 0:
        lines.insert(draw(st.integers(0, len(lines))), draw(_NOISE))
    return "\n".join(lines) + "\n"


def _number(value: Any) -> str:
    """A value in TOML, NaN and infinity included."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return _to_toml(value)


def check_job_file(text: str) -> None:
    """A job file is refused, or read, and then what is written of it is read as the same job."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.toml"
        path.write_text(text, encoding="utf-8", newline="")
        try:
            job = load_job(path)
        except ExpungeError:
            return
        if "\0" in f"{job.weights}{job.out}{job.records or ''}":
            return  # no file has such a name; the request says so
        again = Path(folder) / "again.toml"
        again.write_text(job_to_toml(job), encoding="utf-8")
        assert load_job(again).procedure == job.procedure


def run_generated(count: int = COUNT) -> list[Counts]:
    """Check ``count`` files of each kind; what is bad is printed."""
    return [
        _run("generated id files", id_files(), check_id_file, count),
        _run("generated job files", job_files(), check_job_file, count),
        _run("forged evidence", forgeries(), check_forgery, count),
    ]


def _run(kind: str, files: Any, check: Callable[[Any], None], count: int) -> Counts:
    tried = bad = 0

    @seed(SEED)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(files)
    def run(file: Any) -> None:
        nonlocal tried, bad
        tried += 1
        try:
            check(file)
        except Exception:
            bad += 1
            print(f"{kind}: {file!r}\n{traceback.format_exc()}")

    run()
    return Counts(kind, tried, bad)
