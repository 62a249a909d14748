"""Detached signatures of certificates: Ed25519 over the exact bytes of the file.

A verification finds what contradicts itself. Figures that were all recomputed for other numbers do not; whoever holds the
curator's public key can tell them apart by the signature. It lies beside the certificate, as ``certificate.json.sig``: one line
of words, one of base64. `cryptography` is imported where it is used, so that a verification without a key stays light.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import stat
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from caribou.errors import InputError
from caribou.machine.files import atomic_write

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

HEADER = "caribou certificate signature, Ed25519 over the bytes of the file"
PASSPHRASE_VARIABLE = "CARIBOU_KEY_PASSPHRASE"
LARGEST_FILE = 1_000_000
"""Keys and signatures are small; whatever is larger was given by mistake."""


class SignatureState(Enum):
    """What is known about a signature."""

    VALID = "valid"
    INVALID = "invalid"
    MISSING = "missing"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True)
class SignatureCheck:
    """The outcome of `check_signature`. ``signer``: the fingerprint of the key that was asked about; None without a key."""

    state: SignatureState
    detail: str
    signer: str | None = None

    @property
    def acceptable(self) -> bool:
        """Valid, or not asked for."""
        return self.state in (SignatureState.VALID, SignatureState.NOT_CHECKED)


NOT_CHECKED = SignatureCheck(SignatureState.NOT_CHECKED, "no key was given")


def signature_path(file: str | os.PathLike[str]) -> Path:
    """Where the signature of a file lies.

    >>> signature_path("run/certificate.json").name
    'certificate.json.sig'
    """
    path = Path(file)
    return path.with_name(f"{path.name}.sig")


def write_signature(file: str | os.PathLike[str], data: bytes, key: str | os.PathLike[str]) -> tuple[Path, str]:
    """Sign ``data``, the bytes of ``file``, with the private key in the PEM file ``key``.

    Args:
        file: where the bytes came from; its signature is written beside it, whole or not at all.
        data: what to sign: bytes that were read once, so that what was checked before is what is signed.
        key: an Ed25519 private key that only its owner can read. If it is encrypted, its passphrase is taken from the environment
            variable CARIBOU_KEY_PASSPHRASE.

    Returns:
        The path of the signature, and the fingerprint of the public key.
    """
    private = _private_key(Path(key))
    target = signature_path(file)
    try:
        atomic_write(target, f"{HEADER}\n{base64.b64encode(private.sign(data)).decode()}\n")
    except OSError as error:
        raise InputError(
            f"signature must lie in a folder that can be written, got {target}: {error.strerror}"
        ) from error
    return target, fingerprint(private.public_key())


def check_signature(data: bytes, signature: str | os.PathLike[str], key: str | os.PathLike[str]) -> SignatureCheck:
    """Whether ``signature`` is one of ``data`` by the public key in the PEM file ``key``."""
    from cryptography.exceptions import InvalidSignature

    public = _public_key(Path(key))
    signer = fingerprint(public)
    try:
        text = _read(Path(signature), "signature")
    except FileNotFoundError:
        return SignatureCheck(SignatureState.MISSING, f"there is no {signature}", signer)
    made = _signature_of(text)
    if made is None:
        return SignatureCheck(SignatureState.INVALID, f"{signature} is not a signature of a certificate", signer)
    try:
        public.verify(made, data)
    except InvalidSignature:
        return SignatureCheck(SignatureState.INVALID, "made by another key, or for another file", signer)
    return SignatureCheck(SignatureState.VALID, "made by this key for this file", signer)


def fingerprint(public: Ed25519PublicKey) -> str:
    """A short name of a public key: the first 16 hexadecimal digits of the SHA-256 of its 32 bytes."""
    return f"ed25519:{hashlib.sha256(public.public_bytes_raw()).hexdigest()[:16]}"


# -- files ------------------------------------------------------------------------------------------------------------


def _signature_of(text: bytes) -> bytes | None:
    lines = text.split(b"\n")
    if len(lines) != 3 or lines[0] != HEADER.encode() or lines[2]:
        return None
    try:
        made = base64.b64decode(lines[1], validate=True)
    except (binascii.Error, ValueError):
        return None
    return made if len(made) == 64 and base64.b64encode(made) == lines[1] else None


def _private_key(path: Path) -> Ed25519PrivateKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    data = _key_file(path)
    passphrase = os.environ.get(PASSPHRASE_VARIABLE)
    try:
        found = _loaded(load_pem_private_key, data, passphrase)
    except TypeError:
        raise InputError(
            f"key {path} is encrypted: its passphrase must be in the environment variable {PASSPHRASE_VARIABLE}, "
            "got nothing"
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        raise InputError(f"key must be a private key in PEM with the right passphrase, got {str(path)!r}") from None
    if not isinstance(found, Ed25519PrivateKey):
        raise InputError(f"key must be an Ed25519 private key, got {_kind(found)} in {str(path)!r}")
    _require_own(path)
    return found


def _loaded(load: Any, data: bytes, passphrase: str | None) -> Any:
    """A passphrase that the key does not need is left alone."""
    if passphrase is not None:
        try:
            return load(data, passphrase.encode())
        except TypeError:
            pass
    return load(data, None)


def _public_key(path: Path) -> Ed25519PublicKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    data = _key_file(path)
    try:
        found = load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm):
        raise InputError(f"key must be a public key in PEM, got {str(path)!r}") from None
    if not isinstance(found, Ed25519PublicKey):
        raise InputError(f"key must be an Ed25519 public key, got {_kind(found)} in {str(path)!r}")
    return found


def _key_file(path: Path) -> bytes:
    try:
        return _read(path, "key")
    except FileNotFoundError:
        raise InputError(f"key must be a file that exists, got {str(path)!r}") from None


def _read(path: Path, what: str) -> bytes:
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise InputError(f"{what} must be a small file, got {path.stat().st_size:,} bytes in {str(path)!r}")
        return path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InputError(f"{what} must be a file that can be read, got {str(path)!r}: {error.strerror}") from error


def _require_own(path: Path) -> None:
    """A private key that others can read is not private."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if os.name == "posix" and mode & 0o077:
        raise InputError(f"key must be readable by its owner only (chmod 600 {path}), got mode {mode:04o}")


def _kind(key: Any) -> str:
    return type(key).__name__.lstrip("_").removesuffix("PrivateKey").removesuffix("PublicKey")
