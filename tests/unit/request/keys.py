"""Keys that tests sign with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

ec = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ec")
serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")


@dataclass(frozen=True)
class KeyFiles:
    """A private key, the same encrypted, and the public key, as PEM files."""

    private: Path
    encrypted: Path
    public: Path


PASSWORD = "open sesame"


def make_key_files(folder: Path, curve: str = "SECP256R1") -> KeyFiles:
    """Make a new pair of keys in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(getattr(ec, curve)())
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    secret = serialization.BestAvailableEncryption(PASSWORD.encode())
    files = KeyFiles(folder / "key.pem", folder / "encrypted.pem", folder / "key.pub")
    form = serialization.PrivateFormat.PKCS8
    files.private.write_bytes(key.private_bytes(pem, form, plain))
    files.encrypted.write_bytes(key.private_bytes(pem, form, secret))
    public = serialization.PublicFormat.SubjectPublicKeyInfo
    files.public.write_bytes(key.public_key().public_bytes(pem, public))
    return files
