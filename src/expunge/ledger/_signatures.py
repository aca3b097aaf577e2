"""Signatures: who vouches for the files of a bundle, its weights, and the head of the ledger.

A bundle is signed by an in-toto Statement about its files in a DSSE envelope, the weights besides
by OpenSSF model signing, which other tools check too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from expunge._errors import DataError
from expunge._files import is_there, write_text
from expunge._strict_json import parse_json, read_json
from expunge.evidence import Evidence, RequestSummary
from expunge.ledger._ledger import PURGED, SEAL, WEIGHTS, Ledger, LedgerEntry, digest_of
from expunge.ledger._seal import SIGNATURE, read_seal
from expunge.ledger._signing_keys import PublicKey, SigningKey

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

WEIGHTS_SIGNATURE, HEAD = "weights.sig", "head.dsse.json"
BUNDLE_PREDICATE = "urn:expunge:deletion-request:v1"
HEAD_PREDICATE = "urn:expunge:ledger-head:v1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"


def sign_weights(folder: Path, key: SigningKey) -> None:
    """Sign the weights in ``folder`` as the OpenSSF specifies it for models."""
    from model_signing import signing

    # The password is typed as text, but handed to a function that takes bytes.
    password = cast(Any, key.password)
    config = signing.Config().use_elliptic_key_signer(private_key=key.path, password=password)
    config.sign(folder / WEIGHTS, folder / WEIGHTS_SIGNATURE)


def sign_bundle(folder: Path, evidence: Evidence, key: SigningKey) -> None:
    """Sign all files of a sealed bundle, with what it is and what it follows."""
    files = read_seal(folder) | {SEAL: digest_of(folder / SEAL)}
    _write_envelope(folder / SIGNATURE, files, BUNDLE_PREDICATE, _predicate(evidence), key)


def sign_head(root: Path, last: RequestSummary, head: str, key: SigningKey) -> None:
    """Sign how many requests there are in which ledger, the ``head`` of the last, and what was
    purged, so that nothing can be removed.
    """
    files = {f"{last.number:04d}/{SEAL}": head} | _purged(root)
    predicate = {"requests": last.number, "ledger": last.ledger.model_dump()}
    _write_envelope(root / HEAD, files, HEAD_PREDICATE, predicate, key)


def _purged(root: Path) -> dict[str, str]:
    return {PURGED: digest_of(root / PURGED)} if is_there(root / PURGED) else {}


def bundle_problems(entry: LedgerEntry, key: PublicKey) -> list[str]:
    """What is wrong with the signatures of a bundle, in sentences."""
    evidence, files = entry.evidence, read_seal(entry.folder)
    files[SEAL] = digest_of(entry.folder / SEAL)
    try:
        signed, predicate = _read_envelope(entry.folder / SIGNATURE, BUNDLE_PREDICATE, key)
    except DataError as error:
        return [str(error)]
    problems = [
        f"{name} is not the one that was signed."
        for name in sorted(signed.keys() | files.keys())
        if signed.get(name) != files.get(name)
    ]
    if predicate != _predicate(evidence) or predicate["request"] != entry.number:
        problems.append(f"{SIGNATURE} is that of another request.")
    return problems


def weights_problem(folder: Path, key: PublicKey) -> str:
    """What is wrong with the signature of the weights; empty if it holds."""
    from model_signing import verifying

    config = verifying.Config().use_elliptic_key_verifier(public_key=key.path)
    try:
        config.verify(folder / WEIGHTS, folder / WEIGHTS_SIGNATURE)
    except Exception as error:  # whatever a damaged signature makes the library raise
        return f"{WEIGHTS_SIGNATURE} is no signature of {WEIGHTS} by {key.path}: {error}"
    return ""


def head_problem(ledger: Ledger, key: PublicKey) -> str:
    """What is not as the signed head says, in a sentence; empty if all is."""
    root, here = ledger.root, len(ledger.entries)
    try:
        signed, predicate = _read_envelope(root / HEAD, HEAD_PREDICATE, key)
        number, name = int(predicate["requests"]), dict(predicate["ledger"])
        head = signed[f"{number:04d}/{SEAL}"]
    except DataError as error:
        return f"Whether a request was removed is not known: {error}"
    except (KeyError, TypeError, ValueError) as error:
        return f"{HEAD} is no signed head: {error!r}."
    if not 1 <= number <= here:
        return (
            f"{HEAD} lists {number} requests, {here} are here. The others were removed, or a "
            "command was killed before it finished: repeat it then."
        )
    if name != ledger.entries[0].evidence.request.ledger.model_dump():
        return f"{HEAD} is that of another ledger."
    if ledger.entries[number - 1].head != head:
        return f"{SEAL} of request {number} is not the one that {HEAD} knows."
    if signed.get(PURGED) != _purged(root).get(PURGED):
        return f"{PURGED} is not the one that was signed: what is missing is not excused by it."
    return ""


def signer_of(folder: Path) -> str:
    """The key that a bundle says it is signed by; empty if it is unsigned."""
    try:
        content = read_json(folder / SIGNATURE)
        return str(content["signatures"][0]["keyid"])
    except FileNotFoundError:
        return ""
    except (DataError, KeyError, IndexError, TypeError):
        return "that cannot be read"


def _predicate(evidence: Evidence) -> dict[str, Any]:
    request = evidence.request
    return {
        "ledger": request.ledger.model_dump(),
        "request": request.number,
        "when": request.when,
        "verdict": evidence.status,
        "previous": request.previous,
    }


def _write_envelope(
    path: Path, files: Mapping[str, str], kind: str, predicate: Mapping[str, Any], key: SigningKey
) -> None:
    from google.protobuf import json_format
    from in_toto_attestation.v1.resource_descriptor import ResourceDescriptor
    from in_toto_attestation.v1.statement import Statement
    from securesystemslib.dsse import Envelope
    from securesystemslib.signer import CryptoSigner

    subjects = [
        ResourceDescriptor(name=name, digest={"sha256": digest}).pb
        for name, digest in sorted(files.items())
    ]
    statement = Statement(subjects, kind, dict(predicate))
    statement.validate()
    payload = json_format.MessageToJson(statement.pb).encode()
    envelope = Envelope(payload, PAYLOAD_TYPE, {})
    envelope.sign(CryptoSigner(key.private, _dsse_key(key.private.public_key(), key.key_id)))
    write_text(path, json.dumps(envelope.to_dict(), indent=1) + "\n")


def _read_envelope(path: Path, kind: str, key: PublicKey) -> tuple[dict[str, str], dict[str, Any]]:
    """The files and the predicate of a statement of this ``kind`` that ``key`` has signed."""
    from securesystemslib.dsse import Envelope
    from securesystemslib.exceptions import Error, VerificationError

    try:
        envelope = Envelope.from_dict(read_json(path))
        envelope.verify([_dsse_key(key.public, key.key_id)], 1)
        statement = parse_json(envelope.payload)
        types = envelope.payload_type, statement["predicateType"]
        if types != (PAYLOAD_TYPE, kind):
            raise ValueError(f"it is about {types[1]}")
        files = {each["name"]: each["digest"]["sha256"] for each in statement["subject"]}
        return files, dict(statement["predicate"])
    except FileNotFoundError as error:
        raise DataError(f"{path.name} is missing.") from error
    except VerificationError as error:
        raise DataError(f"{path.name} was not signed by {key.path}.") from error
    except (Error, ValueError, LookupError, TypeError, AttributeError) as error:
        raise DataError(f"{path.name} is no signature: {error!r}.") from error


def _dsse_key(key: EllipticCurvePublicKey, key_id: str) -> Any:
    from securesystemslib.signer import SSlibKey

    return SSlibKey.from_crypto(key, key_id)
