"""Signatures: who vouches for the files of a bundle and the head of the ledger.

Both are in-toto Statements about files in DSSE envelopes. They need ``expunge[sign]``.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from expunge._errors import DataError, InvalidInput
from expunge._files import is_there, read_regular, write_text
from expunge._strict_json import parse_json, read_json
from expunge.evidence import Evidence, RequestSummary
from expunge.ledger._ledger import PURGED, SEAL, Ledger, LedgerEntry, digest_of
from expunge.ledger._seal import SIGNATURE, read_seal

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import (
        EllipticCurvePrivateKey,
        EllipticCurvePublicKey,
    )

PASSWORD_VARIABLE = "EXPUNGE_SIGN_PASSWORD"
"""The environment variable with the password of an encrypted key."""
CURVES = ("secp256r1", "secp384r1", "secp521r1")
NEEDED = ("cryptography", "in_toto_attestation.v1.statement", "securesystemslib")
HOW_TO_MAKE = "`openssl ecparam -name prime256v1 -genkey -noout -out FILE` makes one"
HEAD = "head.dsse.json"
BUNDLE_PREDICATE = "urn:expunge:deletion-request:v1"
HEAD_PREDICATE = "urn:expunge:ledger-head:v1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"


@dataclass(frozen=True)
class PublicKey:
    """A public key on an elliptic curve, and the file that it came from."""

    path: Path
    public: EllipticCurvePublicKey = field(repr=False)

    @classmethod
    def load(cls, path: str | Path) -> PublicKey:
        """Read a PEM file."""
        _require_extra()
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        path = Path(path)
        remedy = "`openssl ec -in KEY -pubout -out FILE` writes that of a private key"
        return cls(path, _load(path, load_pem_public_key, remedy))

    @property
    def key_id(self) -> str:
        """The SHA-256 of the PEM file."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        pem = self.public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return hashlib.sha256(pem).hexdigest()

    @property
    def for_dsse(self) -> Any:
        """The same key as ``securesystemslib`` takes it."""
        from securesystemslib.signer import SSlibKey

        return SSlibKey.from_crypto(self.public, self.key_id)


@dataclass(frozen=True)
class SigningKey:
    """A private key on an elliptic curve, and the file that it came from."""

    path: Path
    private: EllipticCurvePrivateKey = field(repr=False)

    @classmethod
    def load(cls, path: str | Path, password: str | None = None) -> SigningKey:
        """Read a PEM file; ``password`` is used only if the key is encrypted."""
        _require_extra()
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        path = Path(path)
        secret = password.encode() if password and is_encrypted(path) else None
        why = "the password is wrong, or " if secret else ""
        try:
            key = _load(path, lambda pem: load_pem_private_key(pem, secret), HOW_TO_MAKE, why)
        except TypeError as error:
            raise InvalidInput(
                f"The key {path} is encrypted: put its password into {PASSWORD_VARIABLE}, or run "
                "the command in a terminal, which asks for it."
            ) from error
        return cls(path, key)

    @property
    def public(self) -> PublicKey:
        """The public key, which checks its signatures."""
        return PublicKey(self.path, self.private.public_key())

    @property
    def key_id(self) -> str:
        """The SHA-256 of the public key's PEM file."""
        return self.public.key_id


def is_encrypted(path: str | Path) -> bool:
    """Whether a PEM file of a private key needs a password."""
    return b"ENCRYPTED" in _read(Path(path))


def _require_extra() -> None:
    """Raise unless the libraries for signatures can be imported."""
    try:
        for name in NEEDED:
            importlib.import_module(name)
    except ImportError as error:
        raise InvalidInput(
            f"Signatures need the extra: pip install 'expunge[sign]'. ({error})"
        ) from error


def _load(path: Path, load: Callable[[bytes], Any], remedy: str, why: str = "") -> Any:
    """The key in a PEM file, which ``load`` reads; it should be on one of :data:`CURVES`."""
    try:
        key = load(_read(path))
    except ValueError as error:
        problem = f"{path} cannot be read: {why}it is not a PEM file of such a key"
        raise InvalidInput(f"{problem}; {remedy}.") from error
    if getattr(getattr(key, "curve", None), "name", None) not in CURVES:
        raise InvalidInput(f"{path} should hold a key on P-256, P-384 or P-521; {remedy}.")
    return key


def _read(path: Path) -> bytes:
    try:
        return read_regular(path)
    except OSError as error:
        raise DataError(f"The key {path} cannot be read: {error.strerror}.") from error


def sign_bundle(folder: Path, evidence: Evidence, key: SigningKey) -> None:
    """Sign all files of a sealed bundle, with what it is and what it follows."""
    predicate = _predicate(evidence)
    _write_envelope(folder / SIGNATURE, _sealed_files(folder), BUNDLE_PREDICATE, predicate, key)


def sign_head(root: Path, last: RequestSummary, head: str, key: SigningKey) -> None:
    """Sign the ledger, its number of requests, the ``head`` of the last one and what was purged.

    A request that is removed afterwards is noticed.
    """
    files = {f"{last.number:04d}/{SEAL}": head} | _purged(root)
    predicate = {"requests": last.number, "ledger": last.ledger.model_dump()}
    _write_envelope(root / HEAD, files, HEAD_PREDICATE, predicate, key)


def _sealed_files(folder: Path) -> dict[str, str]:
    return read_seal(folder) | {SEAL: digest_of(folder / SEAL)}


def _purged(root: Path) -> dict[str, str]:
    return {PURGED: digest_of(root / PURGED)} if is_there(root / PURGED) else {}


def bundle_problems(entry: LedgerEntry, key: PublicKey) -> list[str]:
    """What is wrong with the signatures of a bundle, in sentences."""
    try:
        expected = _predicate(entry.evidence)
        files = _sealed_files(entry.folder)
        signed, predicate = _read_envelope(entry.folder / SIGNATURE, BUNDLE_PREDICATE, key)
    except DataError as error:
        return [str(error)]
    problems = [
        f"{name} is not the one that was signed."
        for name in sorted(signed.keys() | files.keys())
        if signed.get(name) != files.get(name)
    ]
    if predicate != expected or predicate["request"] != entry.number:
        problems.append(f"{SIGNATURE} is that of another request.")
    return problems


def signed_head_problem(ledger: Ledger, key: PublicKey) -> str:
    """How the ledger differs from its signed head, in a sentence; empty if it does not."""
    root, here = ledger.root, len(ledger.entries)
    try:
        signed, predicate = _read_envelope(root / HEAD, HEAD_PREDICATE, key)
        number, name = int(predicate["requests"]), dict(predicate["ledger"])
        head = signed[f"{number:04d}/{SEAL}"]
    except DataError as error:
        return f"Whether a request was removed is not known: {error}"
    except (KeyError, TypeError, ValueError) as error:
        return f"{HEAD} is not a signed head: {error!r}."
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
    envelope.sign(CryptoSigner(key.private, key.public.for_dsse))
    write_text(path, json.dumps(envelope.to_dict(), indent=1) + "\n")


def _read_envelope(path: Path, kind: str, key: PublicKey) -> tuple[dict[str, str], dict[str, Any]]:
    """The files and the predicate of a statement of this ``kind`` that ``key`` has signed."""
    from securesystemslib.dsse import Envelope
    from securesystemslib.exceptions import Error, VerificationError

    try:
        envelope = Envelope.from_dict(read_json(path))
        envelope.verify([key.for_dsse], 1)
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
        raise DataError(f"{path.name} is not a signature: {error!r}.") from error
