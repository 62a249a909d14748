"""``caribou verify``: recompute what a certificate claims, and check who signed it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from caribou.cli.command import argument, as_json, command, option, record
from caribou.cli.output import print_facts, print_json, print_line
from caribou.errors import CertificateError
from caribou.model.verify import verify as verify_certificate
from caribou.privacy.certificate import Certificate
from caribou.privacy.documents import json_number
from caribou.privacy.mechanism_records import Mechanism
from caribou.privacy.signature import NOT_CHECKED, SignatureCheck, SignatureState, check_signature, signature_path
from caribou.privacy.verify import FORGERY, Check, Verification

if TYPE_CHECKING:
    from rich.text import Text

EXIT_CLAIM_FAILS = 3


@record
class VerifyOptions:
    """What caribou verify takes."""

    file: Path = argument("A certificate in JSON, or a run's folder, whose files are checked, too.")
    key: Path | None = option("The curator's public key (PEM, Ed25519): check the signature.")
    signature: Path | None = option("The signature (default: FILE.sig).", needs="--key")
    as_json: bool = as_json()


@command
def verify(given: VerifyOptions) -> None:
    """Recompute everything that a certificate claims, from its figures and by its method, and list what is only declared.

    Exit code 3: a figure does not follow, an assumption does not hold, there is no privacy, or, with --key, the signature is
    missing or not by this key.

    Example: caribou verify demo-output/votes-edp
    """
    path, key = certificate_file(given.file), given.key
    data = read_bytes(path)
    certificate = Certificate.from_json(data, source=str(path))
    result = verify_certificate(certificate)
    signature = given.signature or signature_path(path)
    signed = NOT_CHECKED if key is None else signature_of(given.file, data, signature, key)
    if given.as_json:
        print_json(_document(given.file, certificate, result, signed))
    else:
        _show(certificate, result, signed)
    if not (result.passed and signed.acceptable):
        raise typer.Exit(EXIT_CLAIM_FAILS)


def signature_of(given: Path, data: bytes, signature: Path, key: Path) -> SignatureCheck:
    """Whether ``data``, the certificate of a file or of a run's folder, is signed by the key; a run's record must be, too."""
    signed = check_signature(data, signature, key)
    if not given.is_dir() or signed.state is not SignatureState.VALID:
        return signed
    # the record of a run holds the digests of its arrays
    from caribou.model.state import RECORD

    record = given / RECORD
    return check_signature(read_bytes(record), signature_path(record), key)


def certificate_file(given: Path) -> Path:
    """The file of the certificate: itself, or that of a run whose files are all what was saved."""
    if not given.is_dir():
        return given
    from caribou.model.state import CERTIFICATE, read_state

    read_state(given)
    return given / CERTIFICATE


def read_bytes(path: Path) -> bytes:
    """The bytes that are parsed, and that a signature is about: read once, so that both are about the same."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateError(f"certificate {path} cannot be read: {error.strerror}") from error


def _document(file: Path, certificate: Certificate, result: Verification, signed: SignatureCheck) -> dict[str, object]:
    return {
        "file": str(file),
        "verified": result.passed and signed.acceptable,
        "status": certificate.status,
        "epsilon": json_number(certificate.epsilon),
        "epsilon_pld": json_number(result.epsilon_pld),
        "epsilon_rdp": None if result.epsilon_rdp is None else json_number(result.epsilon_rdp),
        "signature": signed.state.value,
        "signer": signed.signer,
        "checks": [asdict(check) for check in result.checks],
    }


def _show(certificate: Certificate, result: Verification, signed: SignatureCheck) -> None:
    """What was recomputed, what is declared, and the verdict."""
    print_line(("recomputed from figures and settings of the certificate", "bold"))
    print_facts(map(_row, (check for check in result.checks if not check.declared)))
    print_line(("\ndeclared by the curator: no program can check it", "bold"))
    print_facts(map(_row, (check for check in result.checks if check.declared)))
    print_line("")
    if signed.state is SignatureState.VALID:
        print_line(("signed", "green"), f" by {signed.signer}")
    elif signed.state is not SignatureState.NOT_CHECKED:
        print_line(("NOT SIGNED", "bold red"), f" by {signed.signer}: {signed.detail}")
    if not result.passed:
        print_line(("NOT VERIFIED", "bold red"), ": this certificate guarantees nothing")
    elif not signed.acceptable:
        print_line(("NOT VERIFIED", "bold red"), ": its figures agree, but anybody could have written them")
    else:
        figures = f"epsilon = {certificate.epsilon:g}, delta = {certificate.delta:g} at {certificate.unit.value} level"
        print_line(("verified", "green"), f": {certificate.status}, {figures}")
    own = [record.name for record in certificate.mechanisms if record.mechanism is Mechanism.OWN]
    if own:
        print_line(f"the cost of {', '.join(own)} is declared: the library does not know the mechanism")
    if signed.state is SignatureState.NOT_CHECKED:
        print_line(f"{FORGERY}: --key PUB checks one")


def _row(check: Check) -> tuple[Text, str, str]:
    from rich.text import Text

    mark = Text("-" if check.declared else "ok", "green") if check.passed else Text("FAILS", "bold red")
    # what is merely declared is in the certificate; here its name will do unless it fails
    words = "" if check.declared and check.passed else check.detail
    return mark, check.name.removeprefix("declared: "), words
