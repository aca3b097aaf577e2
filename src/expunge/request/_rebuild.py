"""Build the evidence of a request again, from its weights and the data, and compare every field."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from itertools import zip_longest
from pathlib import Path
from typing import Any

from torch import nn

from expunge import __version__
from expunge import _tensors as tensors
from expunge._errors import DataError, InvalidInput
from expunge._files import is_there, read_text
from expunge._strict_json import read_json
from expunge.ledger import (
    DISCARDED,
    EVIDENCE,
    FORGOTTEN,
    JOB,
    WEIGHTS,
    IdKey,
    Ledger,
    LedgerEntry,
    digest_requested,
)
from expunge.request._bundle import card_after, shown_files
from expunge.request._forgetting import ForgettingResult, forget_records
from expunge.request._ids import RequestedRecords
from expunge.request._job import Job
from expunge.request._job_file import CARD_FIELDS
from expunge.request._reload import NotAvailable
from expunge.request.loading._load import ModelAndData
from expunge.request.preflight._preflight import preflight
from expunge.request.verdict._build import Request, conclude, config_of
from expunge.request.verdict._checks import check_decimals
from expunge.request.verdict._measurements import RequestData, divide_for_request

NOT_RECOMPUTED: dict[str, tuple[str, ...]] = {
    "times and costs": ("request.when", "seconds", "preflight.cost"),
    "versions and hardware": ("environment",),
    "the course of the run (epochs, steps, warnings, why it stopped)": (
        "epochs",
        "stopped",
    ),
    "how ids were listed": (
        "request.source",
        "request.skipped",
        "request.unmapped",
        "preflight.ids.skipped",
        "preflight.ids.unmapped",
        "preflight.ids.twice",
    ),
    "notes about the inputs": ("preflight.notes",),
    "what to try next": ("verdict.next_steps",),
    "settings of the run (such as the method)": (),
}
"""What in the evidence cannot be computed from weights and data: a name, and its fields.

The rest of the evidence is computed with these and all settings as they are stated, and compared.
"""
CHECKED_ELSEWHERE = ("files", "signed_by", "request.ledger.id")
"""Fields that the seal, the signature and the chain of requests are about."""
OF_THE_REQUEST = ("in_memory", "out", "number")
"""Entries of a configuration that are not settings of a job."""
RELATIVE, ABSOLUTE = 1e-3, 2e-4
"""By how much of itself a number with a fraction may differ, or by how much in any case."""
_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?: ?%)?")
_MISSING = object()


def compare_with_rebuilt(
    entry: LedgerEntry, earlier: Ledger, loaded: ModelAndData, key: IdKey, *, replay: bool = False
) -> list[str]:
    """Build what the bundle of a request says from its weights and ``loaded``, and compare it.

    Returns what is not as stated, in sentences, or raises :class:`NotAvailable`.

    ``earlier`` are the requests before it; ``key`` tells which records its hashes stand for. With
    ``replay``, the records are also forgotten again, and the weights compared bit by bit.
    """
    if loaded.data_digest != entry.evidence.hashes.data:
        return ["the data have changed since the request"]
    evidence, job = entry.evidence, _recorded_job(entry)
    requested = RequestedRecords(
        indices=entry.asked,
        ids=tuple(entry.forgotten.ids),
        by_id={},
        repeated=evidence.preflight.ids.twice,
        skipped=evidence.request.skipped,
        unmapped=evidence.request.unmapped,
        left_out=entry.left_out,
    )

    # The model and the data as they were before, the records, and what the model made of them.
    loaded = _before(entry, earlier, loaded).leaving_out(requested.left_out)
    if job.inputs is not None:
        loaded = loaded.with_inputs(job.inputs)
    to_forget, gone = earlier.still_to_forget(requested.indices)
    cost = evidence.preflight.cost
    found = preflight(loaded, requested, to_forget, job, earlier=gone, cost=cost)
    include = job.include_duplicates
    divided = divide_for_request(loaded, found, to_forget, gone, include_duplicates=include)

    # The evidence, of the model that was judged then.
    config = config_of(job, {}, in_memory=evidence.in_memory, number=entry.number)
    ids = entry.forgotten.ids  # hashes: the ids themselves are not in the bundle
    hashed = requested.hashed(key, divided.to_forget)
    known = {"ids": ids, "people": entry.forgotten.people}
    hashed = hashed.model_copy(update=known | {"digest": digest_requested(ids, hashed.asked)})
    request = Request(job, requested, hashed, earlier, config, evidence.request.when)
    result = _stated_run(entry, divided)
    rebuilt = conclude(request, divided, result, advise=False)
    state, notes = tensors.load(entry.folder / WEIGHTS)
    hashes = rebuilt.hashes.model_copy(update={"weights_after": tensors.state_digest(state)})
    rebuilt = rebuilt.model_copy(update={"hashes": hashes})

    # All that the bundle holds against all that it should.
    stated = read_json(entry.folder / EVIDENCE)
    left_out = [*CHECKED_ELSEWHERE, *(path for paths in NOT_RECOMPUTED.values() for path in paths)]
    differences = [
        *(
            str(each)
            for each in compare_trees(stated, rebuilt.as_json(), left_out)
            if not _is_last_digit(each, stated)
        ),
        *_other_files(entry, request),
        *(f"the card of {each}" for each in compare_trees(
            notes, card_after(loaded.card, rebuilt), path=WEIGHTS
        )),
    ]  # fmt: skip
    if not rebuilt.unlearned and hashes.weights_after != hashes.weights_before:
        differences.append(f"{WEIGHTS} is not the model as it was before the request")
    if replay and (problem := _replay_problem(job, divided, result.model)):
        differences.append(problem)
    return differences or _shown_file_problems(entry)


def _is_last_digit(difference: Difference, evidence: Any) -> bool:
    """Whether a bound of a check differs by one in its last digit, as on another processor."""
    *place, name = difference.path.split(".")
    pair = difference.stated, difference.found
    if not {"checks", "check"} & {*place} or name not in ("value", "low", "high"):
        return False
    if not all(isinstance(value, float) for value in pair):
        return False
    check = evidence
    for key in place:
        check = check[int(key) if isinstance(check, list) else key]
    return bool(
        abs(pair[0] - pair[1]) < 1.01 * 0.1 ** check_decimals(check["unit"], check["records"])
    )


def _recorded_job(entry: LedgerEntry) -> Job:
    config = entry.evidence.config
    settings = {name: value for name, value in config.items() if name not in OF_THE_REQUEST}
    try:
        date.fromisoformat(entry.evidence.request.when[:10])
        return Job.recorded(settings | {"out": config.get("out")})
    except (InvalidInput, ValueError) as error:
        raise DataError(
            f"The configuration of request {entry.number} is damaged: {error}"
        ) from error


def _before(entry: LedgerEntry, earlier: Ledger, loaded: ModelAndData) -> ModelAndData:
    """The model and data with the weights that the request started with."""
    if earlier.last is not None:
        return _with_weights(loaded, earlier.last.folder / WEIGHTS)
    if loaded.weights_digest != entry.evidence.hashes.weights_before:
        raise NotAvailable("the weights from before the first request are not here (--weights)")
    return loaded


def _with_weights(loaded: ModelAndData, path: Path) -> ModelAndData:
    if not path.is_file():
        raise NotAvailable(f"{path.parent.name}/{path.name} is gone")
    return loaded.with_weights(path)


def _stated_run(entry: LedgerEntry, divided: RequestData) -> ForgettingResult:
    """The run as it is stated, with the model in the bundle that was judged."""
    evidence, loaded = entry.evidence, divided.loaded
    if is_there(entry.folder / DISCARDED) and not evidence.discarded:
        raise DataError(f"{DISCARDED} is there, and no model was discarded.")
    model: nn.Module = loaded.model
    if evidence.stopped.epoch:
        name = DISCARDED if evidence.discarded else WEIGHTS
        model = _with_weights(loaded, entry.folder / name).model
    return ForgettingResult(model, [], evidence.stopped)


def _replay_problem(job: Job, divided: RequestData, judged: nn.Module) -> str:
    """What is wrong if the same computation on the same data gives other weights; else empty."""
    data = divided.forget, divided.retain
    again = forget_records(job, divided.loaded, *data, progress=False)
    digests = {tensors.state_digest(model.state_dict()) for model in (again.model, judged)}
    if len(digests) == 1:
        return ""
    return (
        "forgetting these records again by the same settings gives other weights; another machine, "
        "another number of threads or another version does that, too"
    )


def _other_files(entry: LedgerEntry, request: Request) -> list[str]:
    """What is wrong with the files that hold more than the evidence."""
    folder, stated = entry.folder, entry.forgotten
    differences = compare_trees(stated.model_dump(), request.hashed.model_dump())
    problems = [f"{FORGOTTEN}: {each}" for each in differences]
    counts, asked = stated.people, len(stated.asked)
    possible = not counts or max(counts.values()) <= asked <= sum(counts.values())
    if sorted(counts) != (stated.ids if request.job.id_column else []) or not possible:
        problems.append(
            f"{FORGOTTEN}: people are not the ids, or their records are not those asked"
        )
    if not entry.evidence.in_memory:
        problems += [f"{JOB}: {each}" for each in _job_file_problems(folder / JOB, request.config)]
    return problems


def _job_file_problems(path: Path, config: Mapping[str, Any]) -> list[str]:
    """Where the job file differs from the configuration; its path is not compared."""
    try:
        stated = tomllib.loads(read_text(path, "UTF-8 TOML"))
    except tomllib.TOMLDecodeError as error:
        return [f"it is not valid TOML: {error}."]
    apart = {*OF_THE_REQUEST, *(CARD_FIELDS - stated.keys())}
    found = {name: value for name, value in config.items() if name not in apart}
    return [str(each) for each in compare_trees(stated, found, ["out"])]


def _shown_file_problems(entry: LedgerEntry) -> list[str]:
    """Which of page, letters and model card do not show the evidence, which is as it should be."""
    shown = shown_files(entry.evidence, entry.digest)
    paths = {name: entry.folder / name for name in shown if is_there(entry.folder / name)}
    other = [name for name, path in paths.items() if read_text(path, "UTF-8") != shown[name]]
    written_by = entry.evidence.environment.versions.get("expunge")
    if other and written_by != __version__:
        raise NotAvailable(
            f"{', '.join(other)}: written by expunge {written_by}, which shows evidence in another "
            f"way than {__version__}"
        )
    return [f"{name} does not show what {EVIDENCE} says" for name in other]


@dataclass(frozen=True)
class Difference:
    """A field that is not the same in both trees, by its path; None stands for a missing one."""

    path: str
    stated: Any
    found: Any

    def __str__(self) -> str:
        return f"{self.path} is {_shown(self.found)}, not {_shown(self.stated)}"


def compare_trees(
    stated: Any, found: Any, leave_out: Collection[str] = (), path: str = ""
) -> Iterator[Difference]:
    """The fields of two trees of plain values that differ; ``leave_out`` are paths.

    Rounding is not a difference: another processor, or another number of threads, adds numbers in
    another order.

    >>> stated = {"n": 3, "rows": [{"auc": 0.5, "when": 1}], "why": "UA is 41.3 %."}
    >>> found = {"n": 3, "rows": [{"auc": 0.50004, "when": 2}], "why": "UA is 41.4 %."}
    >>> list(compare_trees(stated, found, ["rows.0.when"]))
    []
    >>> print(*compare_trees(stated, found | {"n": 4}, ["rows"]))
    n is 4, not 3
    """
    if path in leave_out:
        return
    if isinstance(stated, Mapping) and isinstance(found, Mapping):
        for key in [*stated, *(key for key in found if key not in stated)]:
            pair = stated.get(key, _MISSING), found.get(key, _MISSING)
            yield from compare_trees(*pair, leave_out, f"{path}.{key}" if path else str(key))
    elif isinstance(stated, list) and isinstance(found, list):
        for position, pair in enumerate(zip_longest(stated, found, fillvalue=_MISSING)):
            yield from compare_trees(*pair, leave_out, f"{path}.{position}")
    elif not _same(stated, found):
        yield Difference(path, *(None if value is _MISSING else value for value in (stated, found)))


def _same(stated: Any, found: Any) -> bool:
    if isinstance(stated, str) and isinstance(found, str):
        return stated == found or _same_text(stated, found)
    if isinstance(stated, bool) or isinstance(found, bool) or _MISSING in (stated, found):
        return stated is found
    numbers = isinstance(stated, int | float) and isinstance(found, int | float)
    if numbers and (isinstance(stated, float) or isinstance(found, float)):
        both_nan = math.isnan(stated) and math.isnan(found)
        return both_nan or math.isclose(stated, found, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    return type(stated) is type(found) and bool(stated == found)


def _same_text(stated: str, found: str) -> bool:
    """Whether two texts are the same but for the last digit of fractions and percentages."""
    if _NUMBER.split(stated) != _NUMBER.split(found):
        return False
    return all(map(_close, _NUMBER.findall(stated), _NUMBER.findall(found)))


def _close(stated: str, found: str) -> bool:
    """Whether two numbers in a text are the same, but for rounding.

    >>> _close("41.3 %", "41.4 %"), _close("0.50", "0.52"), _close("3", "4"), _close("3 %", "4 %")
    (True, False, False, True)
    """
    if stated == found:
        return True
    digits = [len(text.rstrip(" %").partition(".")[2]) for text in (stated, found)]
    if digits[0] != digits[1] or stated.endswith("%") != found.endswith("%"):
        return False
    if not digits[0] and not stated.endswith("%"):
        return False
    values = [float(text.rstrip(" %").replace(",", "")) for text in (stated, found)]
    return abs(values[0] - values[1]) < 1.5 * 0.1 ** digits[0]


def _shown(value: Any) -> str:
    text = "missing" if value is None else repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"
