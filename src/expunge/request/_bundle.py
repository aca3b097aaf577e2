"""The evidence bundle: a folder that appears complete, with the hash of everything in it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn

from expunge import _tensors as tensors
from expunge._errors import InvalidInput, StorageError
from expunge._files import sync, write_text
from expunge.data import COLUMNS, read_placed_ids
from expunge.engine import Card
from expunge.evidence import Evidence, Seconds
from expunge.ledger import (
    DISCARDED,
    EVIDENCE,
    FORGOTTEN,
    JOB,
    LETTERS,
    MODEL_CARD,
    PAGE,
    SEAL,
    WEIGHTS,
    IdKey,
    Ledger,
    SigningKey,
    digest_of,
    files_in,
    sign_bundle,
    sign_head,
    write_seal,
)
from expunge.report import render_letter, render_request
from expunge.request._job_file import job_to_toml
from expunge.request._model_card import model_card
from expunge.request.verdict._build import Request
from expunge.request.verdict._measurements import RequestData


def write_bundle(
    folder: Path,
    request: Request,
    divided: RequestData,
    judged: nn.Module,
    evidence: Evidence,
    key: SigningKey | None,
    seconds: Callable[[], Seconds],
) -> Evidence:
    """Write everything under a hidden name, then rename it to ``folder``.

    ``judged`` is the model that the ``evidence`` is about. ``key`` signs it. ``seconds`` is called
    for the times of the request once everything but the evidence and its page is written. Returns
    the evidence as written, with the hashes of all files.
    """
    scratch = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        scratch.mkdir(parents=True)
        loaded = divided.loaded
        delivered = judged if evidence.unlearned else loaded.model
        card = card_after(loaded.card, evidence)
        tensors.save(scratch / WEIGHTS, delivered.state_dict(), card)
        if evidence.discarded:  # to look at; both remember what a later request asks to forget
            tensors.save(scratch / DISCARDED, judged.state_dict(), {})
        write_text(scratch / FORGOTTEN, request.hashed.model_dump_json(), private=True)
        if not evidence.in_memory:
            write_text(scratch / JOB, job_to_toml(request.job), private=True)
        evidence = _write_evidence(scratch, evidence, key, seconds)
        sync([*(scratch / name for name in files_in(scratch)), scratch])
        if key is not None:
            # Before the folder appears: killed in between, the command resumes and signs again.
            sign_head(folder.parent, evidence.request, digest_of(scratch / SEAL), key)
        scratch.rename(folder)
        sync([folder.parent])
    except (OSError, StorageError) as error:
        why = getattr(error.__cause__ or error, "strerror", None) or str(error).rstrip(".")
        raise StorageError(
            f"The evidence could not be written to {folder}: {why}. The state of the run is kept; "
            "the same command resumes it."
        ) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return evidence


def _write_evidence(
    folder: Path, evidence: Evidence, key: SigningKey | None, seconds: Callable[[], Seconds]
) -> Evidence:
    """The evidence with the hashes of all files so far, what shows it, and the seal over all."""
    known: dict[str, Any] = {} if key is None else {"signed_by": key.key_id}
    known["files"] = {name: digest_of(folder / name) for name in sorted(files_in(folder))}
    known["seconds"] = seconds()
    evidence = evidence.model_copy(update=known)
    text = json.dumps(evidence.as_json(), indent=1, allow_nan=False)
    write_text(folder / EVIDENCE, text, private=True)
    evidence_digest = digest_of(folder / EVIDENCE)
    for name, content in shown_files(evidence, evidence_digest).items():
        write_text(folder / name, content, private=True)
    write_seal(folder)
    if key is not None:
        sign_bundle(folder, evidence, key)
    return evidence


def shown_files(evidence: Evidence, evidence_digest: str) -> dict[str, str]:
    """What shows the evidence to people and programs, by file: the page, letters, the model card.

    ``evidence_digest`` is the hash of ``evidence.json``.
    """
    return {
        PAGE: render_request(evidence),
        **{n: render_letter(evidence, evidence_digest, form) for n, form in LETTERS.items()},
        MODEL_CARD: json.dumps(model_card(evidence, evidence_digest), indent=1),
    }


def write_letters(ledger: Ledger, ids: Path, key: IdKey, folder: Path) -> list[Path]:
    """Write a letter to each person in the file ``ids``, about the last request that names them.

    They go into a ``folder`` of your own, as bundles hold no ids.
    """
    column = ledger.entries[-1].evidence.config.get("id_column")
    letters: dict[str, str] = {}
    for number, (place, person) in enumerate(read_placed_ids(ids, (column or "id", *COLUMNS)), 1):
        hashed, found = key.hash_id(str(person)), ledger.find(str(person), key)
        if not found or hashed not in found[-1].forgotten.people:
            why = "names it" if not found else "knows it as a person, by `records` and `id_column`"
            raise InvalidInput(f"{ids}, {place}: no request in {ledger.root} {why}.")
        for form in LETTERS.values():
            letters[f"{number:03d}.{form}"] = render_letter(
                found[-1].evidence,
                found[-1].digest,
                form,
                person=str(person),
                records=found[-1].forgotten.people[hashed],
            )
    if there := next((name for name in letters if (folder / name).exists()), None):
        raise InvalidInput(
            f"{folder / there} exists, perhaps with what you wrote into it. Choose another folder."
        )
    for name, text in letters.items():
        write_text(folder / name, text, private=True)
    return [folder / name for name in letters]


def card_after(card: Card | None, evidence: Evidence) -> dict[str, Any]:
    """The card of the initial weights, if they had one, so that other commands can read these."""
    if card is None:
        return {}
    changes = {"stage": "unlearned", "scenario": None, "scenario_seed": None, "forgotten": None}
    after = card.model_copy(update=changes) if evidence.unlearned else card
    return after.model_dump(mode="json")
