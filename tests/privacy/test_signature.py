"""Detached signatures: who signed which bytes, and every way in which a key or a signature can be wrong."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from caribou.errors import InputError
from caribou.privacy.signature import (
    HEADER,
    LARGEST_FILE,
    NOT_CHECKED,
    PASSPHRASE_VARIABLE,
    SignatureState,
    check_signature,
    signature_path,
    write_signature,
)

DATA = b'{"format": 2}\n'


def write_key(
    folder: Path,
    name: str = "key",
    key: object | None = None,
    encryption: KeySerializationEncryption | None = None,
    format_: PrivateFormat = PrivateFormat.PKCS8,
) -> tuple[Path, Path]:
    """A private key that only its owner can read, and its public key."""
    made = key or Ed25519PrivateKey.generate()
    private, public = folder / f"{name}.pem", folder / f"{name}.pub.pem"
    private.touch(mode=0o600)
    private.write_bytes(made.private_bytes(Encoding.PEM, format_, encryption or NoEncryption()))  # type: ignore[attr-defined]
    info = PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(made.public_key().public_bytes(Encoding.PEM, info))  # type: ignore[attr-defined]
    return private, public


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    monkeypatch.delenv(PASSPHRASE_VARIABLE, raising=False)
    return write_key(tmp_path)


def signed(folder: Path, key: Path) -> Path:
    file = folder / "certificate.json"
    file.write_bytes(DATA)
    target, _ = write_signature(file, DATA, key)
    assert target == signature_path(file)
    return target


def test_a_signature_is_of_these_bytes_by_this_key(tmp_path: Path, keys: tuple[Path, Path]) -> None:
    private, public = keys
    signature = signed(tmp_path, private)
    found = check_signature(DATA, signature, public)
    assert (found.state, found.acceptable) == (SignatureState.VALID, True)
    assert found.signer == write_signature(tmp_path / "certificate.json", DATA, private)[1]
    assert str(found.signer).startswith("ed25519:")
    assert signature.read_text().splitlines()[0] == HEADER
    for other in (DATA + b" ", DATA[:-1], b"", DATA.replace(b"2", b"3")):
        assert check_signature(other, signature, public).state is SignatureState.INVALID
    _, stranger = write_key(tmp_path, "stranger")
    wrong = check_signature(DATA, signature, stranger)
    assert (wrong.state, wrong.acceptable) == (SignatureState.INVALID, False)
    assert wrong.signer != found.signer
    missing = check_signature(DATA, tmp_path / "nothing.sig", public)
    assert (missing.state, missing.acceptable) == (SignatureState.MISSING, False)
    assert NOT_CHECKED.acceptable


def test_signing_again_replaces_the_signature(tmp_path: Path, keys: tuple[Path, Path]) -> None:
    signature = signed(tmp_path, keys[0])
    other, public = write_key(tmp_path, "other")
    signed(tmp_path, other)
    assert check_signature(DATA, signature, public).state is SignatureState.VALID
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_other_files_are_no_signatures(tmp_path: Path, keys: tuple[Path, Path]) -> None:
    signature = signed(tmp_path, keys[0])
    header, body, _ = signature.read_text().split("\n")
    raw = base64.b64decode(body)
    flipped = [raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :] for place in (0, 31, 32, 63)]
    for written in (
        f"caribou signature\n{body}\n".encode(),
        f"{header}\n{body}\n{body}\n".encode(),
        body.encode(),
        b"",
        f"{header}\n{body[:-4]}??==\n".encode(),
        f"{header}\n{body}=\n".encode(),
        raw,
        f"{header}\r\n{body}\r\n".encode(),
        *(f"{header}\n{base64.b64encode(other).decode()}\n".encode() for other in (raw[:63], *flipped)),
    ):
        signature.write_bytes(written)
        assert check_signature(DATA, signature, keys[1]).state is SignatureState.INVALID, written


# -- keys ---------------------------------------------------------------------------------------------------------------


def test_an_encrypted_key_takes_its_passphrase_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(PASSPHRASE_VARIABLE, raising=False)
    private, public = write_key(tmp_path, encryption=BestAvailableEncryption(b"open sesame"))
    with pytest.raises(InputError, match=PASSPHRASE_VARIABLE):
        signed(tmp_path, private)
    monkeypatch.setenv(PASSPHRASE_VARIABLE, "open barley")
    with pytest.raises(InputError, match="right passphrase"):
        signed(tmp_path, private)
    monkeypatch.setenv(PASSPHRASE_VARIABLE, "open sesame")
    assert check_signature(DATA, signed(tmp_path, private), public).state is SignatureState.VALID
    plain, public = write_key(tmp_path, "plain")
    assert check_signature(DATA, signed(tmp_path, plain), public).state is SignatureState.VALID


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
def test_a_key_that_others_can_read_is_refused(tmp_path: Path, keys: tuple[Path, Path]) -> None:
    for mode in (0o644, 0o640, 0o604, 0o660):
        keys[0].chmod(mode)
        with pytest.raises(InputError, match=r"readable by its owner only \(chmod 600 .*\), got mode"):
            signed(tmp_path, keys[0])
    assert not (tmp_path / "certificate.json.sig").exists()


def test_keys_of_other_kinds_are_refused(tmp_path: Path, keys: tuple[Path, Path]) -> None:
    for name, made in (("RSA", rsa.generate_private_key(65537, 2048)), ("ECC", generate_private_key(SECP256R1()))):
        private, public = write_key(tmp_path, name, made)
        with pytest.raises(InputError, match=r"must be an Ed25519 private key, got (RSA|EllipticCurve|EC)"):
            signed(tmp_path, private)
        with pytest.raises(InputError, match="must be an Ed25519 public key, got"):
            check_signature(DATA, tmp_path / "any.sig", public)
    ssh, _ = write_key(tmp_path, "ssh", format_=PrivateFormat.OpenSSH)
    with pytest.raises(InputError, match="must be a private key in PEM"):
        signed(tmp_path, ssh)


def test_a_key_in_the_wrong_place_is_named(tmp_path: Path, keys: tuple[Path, Path]) -> None:
    private, public = keys
    with pytest.raises(InputError, match="must be a private key in PEM"):
        signed(tmp_path, public)
    with pytest.raises(InputError, match="must be a public key in PEM"):
        check_signature(DATA, tmp_path / "any.sig", private)
    places = [(path, "key must be a file") for path in (tmp_path / "missing.pem", tmp_path)]
    broken = b"-----BEGIN PRIVATE KEY-----\nMC4=\n-----END PRIVATE KEY-----\n"
    for number, content in enumerate((b"", b"key", broken, b"\xff" * 100, b"x" * (LARGEST_FILE + 1))):
        path = tmp_path / f"{number}.pem"
        path.write_bytes(content)
        places.append((path, "key must be" if len(content) < LARGEST_FILE else "small file"))
    for path, words in places:
        with pytest.raises(InputError, match=words):
            signed(tmp_path, path)
        with pytest.raises(InputError, match=words):
            check_signature(DATA, tmp_path / "any.sig", path)
    for path, words in ((tmp_path, "signature must be a file"), (tmp_path / "4.pem", "small file")):
        with pytest.raises(InputError, match=words):
            check_signature(DATA, path, public)
    with pytest.raises(InputError, match="signature must lie in a folder"):
        write_signature(tmp_path / "no" / "certificate.json", DATA, private)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_openssl_makes_keys_and_checks_signatures(tmp_path: Path) -> None:
    def openssl(*arguments: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(["openssl", *arguments], cwd=tmp_path, capture_output=True)

    made = openssl("genpkey", "-algorithm", "ed25519", "-out", "key.pem")
    if made.returncode:
        pytest.skip("this openssl has no Ed25519")
    openssl("pkey", "-in", "key.pem", "-pubout", "-out", "pub.pem")
    (tmp_path / "key.pem").chmod(0o600)
    signature = signed(tmp_path, tmp_path / "key.pem")
    assert check_signature(DATA, signature, tmp_path / "pub.pem").state is SignatureState.VALID
    (tmp_path / "raw.sig").write_bytes(base64.b64decode(signature.read_text().split("\n")[1]))
    arguments = ("pkeyutl", "-verify", "-pubin", "-inkey", "pub.pem", "-rawin", "-in", "certificate.json")
    checked = openssl(*arguments, "-sigfile", "raw.sig")
    if b"option" not in checked.stderr:  # older than 3.0: no -rawin
        assert checked.returncode == 0, checked.stderr
