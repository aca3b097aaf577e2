"""Find the model and data of a folder of requests again, to check its numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from expunge._errors import ExpungeError
from expunge.request._job import load_job, make_job
from expunge.request._job_text import JOB
from expunge.request._ledger import Ledger
from expunge.request.subject._load import Subject, load_subject


def subject_of(root: Path, data: str | None = None) -> tuple[Subject | None, str]:
    """The subject of the latest request, or None and why it cannot be had from here.

    ``data`` is where the data are now, if not where they were. Where the weights that came in are
    gone, those of the bundle tell how to build the model, if they have a card.
    """
    ledger = Ledger.read(root)
    if ledger.last is None:
        return None, ""
    if ledger.last.evidence["config"].get("in_memory"):
        return None, (
            "The request was made from Python with a model or data in memory, so only hashes were "
            f"checked. expunge.request.verify({str(root)!r}, model=model, data=(train, val, test)) "
            "checks the numbers too."
        )
    try:
        job = load_job(ledger.last.folder / JOB)
        moved: dict[str, Any] = {} if data is None else {"data": data}
        if not job.weights.is_file():
            moved["weights"] = ledger.weights
        given = job.model_dump(exclude_unset=True)
        return load_subject(make_job(**(given | moved))), ""
    except ExpungeError as error:
        return None, f"The numbers were not checked: {error}"
