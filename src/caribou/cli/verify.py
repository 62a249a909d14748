"""``caribou verify``: recompute what a certificate claims, and check who signed it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from caribou.errors import CertificateError, InputError
from caribou.privacy.certificate import Certificate, json_number
from caribou.privacy.mechanism_records import Mechanism
from caribou.privacy.signature import NOT_CHECKED, SignatureCheck, SignatureState, check_signature, signature_path
from caribou.privacy.verify import FORGERY, Check, Verification
from caribou.privacy.verify import verify as verify_certificate

EXIT_CLAIM_FAILS = 3


def verify(
    file: Annotated[
        Path, typer.Argument(help="A certificate in JSON, or a run's folder, whose files are checked, too.")
    ],
    key: Annotated[
        Path | None, typer.Option(help="The curator's public key (PEM, Ed25519): check the signature.")
    ] = None,
    signature: Annotated[Path | None, typer.Option(help="With --key: the signature (default: FILE.sig).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Recompute everything that a certificate claims from its own figures, and list what is only declared.

    Exit code 3: a figure does not follow, an assumption does not hold, there is no privacy, or, with --key, the signature is
    missing or not by this key.

    Example: caribou verify demo-output/votes-edp
    """
    if signature is not None and key is None:
        raise InputError("signature must go with --key, got no --key")
    path = certificate_file(file)
    data = read_bytes(path)
    certificate = Certificate.from_json(data, source=str(path))
    result = verify_certificate(certificate)
    signed = NOT_CHECKED if key is None else signature_of(file, data, signature or signature_path(path), key)
    if as_json:
        typer.echo(json.dumps(_document(file, certificate, result, signed), indent=2))
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
    """What was recomputed, what is declared, and the verdict. Words of the file are shown as they are, never as markup."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    def rows(checks: list[Check]) -> Table:
        table = Table(show_header=False, box=None, pad_edge=False)
        for check in checks:
            mark = Text("-" if check.declared else "ok", "green") if check.passed else Text("FAILS", "bold red")
            # what is merely declared is in the certificate; here its name will do unless it fails
            words = Text("" if check.declared and check.passed else check.detail)
            table.add_row(mark, Text(check.name.removeprefix("declared: ")), words)
        return table

    console = Console()
    console.print("recomputed from the figures of the certificate", style="bold")
    console.print(rows([check for check in result.checks if not check.declared]))
    console.print("\ndeclared by the curator: no program can check it", style="bold")
    console.print(rows([check for check in result.checks if check.declared]))
    console.print()
    if signed.state is SignatureState.VALID:
        console.print(Text.assemble(("signed", "green"), f" by {signed.signer}"))
    elif signed.state is not SignatureState.NOT_CHECKED:
        console.print(Text.assemble(("NOT SIGNED", "bold red"), f" by {signed.signer}: {signed.detail}"))
    if not result.passed:
        console.print(Text.assemble(("NOT VERIFIED", "bold red"), ": this certificate guarantees nothing"))
    elif not signed.acceptable:
        console.print(
            Text.assemble(("NOT VERIFIED", "bold red"), ": its figures agree, but anybody could have written them")
        )
    else:
        console.print(
            Text.assemble(
                ("verified", "green"),
                f": {certificate.status}, epsilon = {certificate.epsilon:g}, delta = {certificate.delta:g} "
                f"at {certificate.unit.value} level",
            )
        )
    own = [record.name for record in certificate.mechanisms if record.mechanism is Mechanism.OWN]
    if own:
        console.print(Text(f"the cost of {', '.join(own)} is declared: the library does not know the mechanism"))
    if signed.state is SignatureState.NOT_CHECKED:
        console.print(f"{FORGERY}: --key PUB checks one")
