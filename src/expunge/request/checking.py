"""Find the model and data of a folder of requests again, to check its numbers."""

from __future__ import annotations

from pathlib import Path

from expunge.errors import ExpungeError
from expunge.request.job import Job, make_job
from expunge.request.ledger import Ledger
from expunge.request.subject import Subject, load_subject


def subject_of(root: Path) -> tuple[Subject | None, str]:
    """The subject of the latest request, or None and why it cannot be had from here."""
    ledger = Ledger.read(root)
    if ledger.last is None:
        return None, ""
    config = ledger.last.evidence["config"]
    if config.get("in_memory"):
        return None, (
            "The request was made from Python with a model or data in memory, so only hashes were "
            "checked. Use expunge.request.verify with them to check the numbers."
        )
    try:
        kept = {name: config[name] for name in Job.model_fields if name in config}
        return load_subject(make_job(**kept)), ""
    except ExpungeError as error:
        return None, f"The numbers were not checked: {error}"
