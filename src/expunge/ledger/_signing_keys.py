"""Keys that sign the evidence of requests, and keys that check it; needs ``expunge[sign]``."""

from __future__ import annotations

import hashlib
import importlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from expunge._errors import DataError, InvalidInput
from expunge._files import read_regular

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import (
        EllipticCurvePrivateKey,
        EllipticCurvePublicKey,
    )

PASSWORD_VARIABLE = "EXPUNGE_SIGN_PASSWORD"
"""The environment variable with the password of an encrypted key."""
CURVES = ("secp256r1", "secp384r1", "secp521r1")
NEEDED = ("cryptography", "in_toto_attestation.v1.statement", "model_signing", "securesystemslib")
HOW_TO_MAKE = "`openssl ecparam -name prime256v1 -genkey -noout -out FILE` makes one"


@dataclass(frozen=True)
class SigningKey:
    """A private key on an elliptic curve, and the file that it came from."""

    path: Path
    private: EllipticCurvePrivateKey = field(repr=False)
    password: bytes | None = field(default=None, repr=False)

    @classmethod
    def load(cls, path: str | Path, password: str | None = None) -> SigningKey:
        """Read a PEM file; ``password`` is used only if the key is encrypted."""
        require_extra()
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        path, content = Path(path), _read(path)
        secret = password.encode() if password and is_encrypted(path) else None
        try:
            key = load_pem_private_key(content, secret)
        except TypeError as error:
            raise InvalidInput(
                f"The key {path} is encrypted: put its password into {PASSWORD_VARIABLE}, or run "
                "the command in a terminal, which asks for it."
            ) from error
        except ValueError as error:
            why = "the password is wrong, or " if secret else ""
            raise InvalidInput(
                f"{path} cannot be read as a private key: {why}it is no PEM file of one; "
                f"{HOW_TO_MAKE}."
            ) from error
        if not isinstance(key, EllipticCurvePrivateKey) or key.curve.name not in CURVES:
            raise InvalidInput(f"{path} should hold a key on P-256, P-384 or P-521; {HOW_TO_MAKE}.")
        return cls(path, key, secret)

    @property
    def key_id(self) -> str:
        """The SHA-256 of the public key's PEM file."""
        return _key_id(self.private.public_key())


@dataclass(frozen=True)
class PublicKey:
    """A public key on an elliptic curve, and the file that it came from."""

    path: Path
    public: EllipticCurvePublicKey = field(repr=False)

    @classmethod
    def load(cls, path: str | Path) -> PublicKey:
        """Read a PEM file."""
        require_extra()
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        path = Path(path)
        try:
            key = load_pem_public_key(_read(path))
        except ValueError as error:
            raise InvalidInput(
                f"{path} cannot be read as a public key. `openssl ec -in KEY -pubout -out FILE` "
                "writes that of a private key."
            ) from error
        if not isinstance(key, EllipticCurvePublicKey) or key.curve.name not in CURVES:
            raise InvalidInput(f"{path} should hold a public key on P-256, P-384 or P-521.")
        return cls(path, key)

    @property
    def key_id(self) -> str:
        """The SHA-256 of the PEM file."""
        return _key_id(self.public)


def is_encrypted(path: str | Path) -> bool:
    """Whether a PEM file of a private key needs a password."""
    return b"ENCRYPTED" in _read(Path(path))


def require_extra() -> None:
    """Raise unless the libraries for signatures can be imported."""
    try:
        for name in NEEDED:
            importlib.import_module(name)
    except ImportError as error:
        raise InvalidInput(
            f"Signatures need the extra: pip install 'expunge[sign]'. ({error})"
        ) from error


def _key_id(key: EllipticCurvePublicKey) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(pem).hexdigest()


def _read(path: Path) -> bytes:
    try:
        return read_regular(path)
    except OSError as error:
        raise DataError(f"The key {path} cannot be read: {error.strerror}.") from error
