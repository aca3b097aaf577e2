"""The evidence bundle: a folder that appears complete, with the hash of everything in it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from expunge import _tensors as tensors
from expunge._errors import StorageError
from expunge._files import sync, write_text
from expunge.engine import Card
from expunge.evidence import Evidence, Hashes, Seconds
from expunge.ledger import (
    ATTEMPT,
    EVIDENCE,
    LETTERS,
    MODEL_CARD,
    PAGE,
    RECORDS,
    SEAL,
    WEIGHTS,
    SigningKey,
    digest_of,
    sign_bundle,
    sign_head,
    write_seal,
)
from expunge.request._job_file import JOB, job_to_toml
from expunge.request._model_card import model_card
from expunge.request.verdict._build import Conclusion, Request
from expunge.request.verdict._examination import Examination


def write_bundle(
    folder: Path,
    request: Request,
    examination: Examination,
    conclusion: Conclusion,
    *,
    key: SigningKey | None = None,
    seconds: Callable[[], Seconds] | None = None,
) -> Evidence:
    """Write everything under a hidden name, then rename it to ``folder``.

    ``key`` signs it. ``seconds`` is asked for the times of the request when all but the evidence
    and its page is written. Returns the evidence as written, with the hashes of the weights and of
    all files.
    """
    scratch = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        scratch.mkdir(parents=True)
        _write_models(scratch, examination.subject.card, conclusion)
        write_text(scratch / RECORDS, request.hashed.model_dump_json(), private=True)
        if not conclusion.evidence.in_memory:
            write_text(scratch / JOB, job_to_toml(request.job), private=True)
        evidence = _write_evidence(scratch, conclusion, key, seconds)
        sync([*(path for path in scratch.rglob("*") if path.is_file()), scratch])
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


def _write_models(folder: Path, card: Card | None, conclusion: Conclusion) -> None:
    """The second one is to look at; both remember what a later request asks to forget."""
    state = conclusion.model.state_dict()
    tensors.save(folder / WEIGHTS, state, card_after(card, conclusion.evidence))
    if conclusion.discarded is not None:
        tensors.save(folder / ATTEMPT, conclusion.discarded.state_dict(), {})


def _write_evidence(
    folder: Path,
    conclusion: Conclusion,
    key: SigningKey | None,
    seconds: Callable[[], Seconds] | None,
) -> Evidence:
    """The evidence with the hashes of all files so far, what shows it, and the seal over all."""
    known: dict[str, Any] = {"hashes": with_weights(conclusion)}
    if key is not None:
        known["signed_by"] = key.key_id
    known["files"] = {
        path.relative_to(folder).as_posix(): digest_of(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    if seconds is not None:
        known["seconds"] = seconds()
    evidence = conclusion.evidence.model_copy(update=known)
    text = json.dumps(evidence.as_json(), indent=1, allow_nan=False)
    write_text(folder / EVIDENCE, text, private=True)
    fingerprint = digest_of(folder / EVIDENCE)
    for name, content in shown_files(evidence, fingerprint).items():
        write_text(folder / name, content, private=True)
    write_seal(folder)
    if key is not None:
        sign_bundle(folder, evidence, key)
    return evidence


def with_weights(conclusion: Conclusion) -> Hashes:
    """The hashes of the evidence, with those of the weights in the bundle."""
    digests = {"weights_after": tensors.state_digest(conclusion.model.state_dict())}
    if conclusion.discarded is not None:
        digests["attempt"] = tensors.state_digest(conclusion.discarded.state_dict())
    return conclusion.evidence.hashes.model_copy(update=digests)


def shown_files(evidence: Evidence, fingerprint: str) -> dict[str, str]:
    """What shows the evidence to people and programs, by file: the page, letters, the model card.

    ``fingerprint`` is the hash of ``evidence.json``.
    """
    from expunge.report import render_letter, render_request

    return {
        PAGE: render_request(evidence),
        **{name: render_letter(evidence, fingerprint, name.rpartition(".")[2]) for name in LETTERS},
        MODEL_CARD: json.dumps(model_card(evidence, fingerprint), indent=1),
    }


def card_after(card: Card | None, evidence: Evidence) -> dict[str, Any]:
    """The card of the initial weights, if they had one, so that other commands can read these."""
    if card is None:
        return {}
    if not evidence.unlearned:
        return card.model_dump(mode="json")
    changes = {"stage": "unlearned", "scenario": None, "scenario_seed": None, "forgotten": None}
    return card.model_copy(update=changes).model_dump(mode="json")
